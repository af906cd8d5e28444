/** Seeds whose history once broke a promise. None is ever taken out, though a later simulation may make another of it. */

export interface FailedSeed {
  readonly seed: string;
  readonly pages: number;
  /** What was wrong. */
  readonly what: string;
}

export const failedSeeds: readonly FailedSeed[] = [
  { seed: '103', pages: 12, what: 'a FinishRun that lived on completed a run that had been replaced' },
  { seed: '197', pages: 12, what: 'a FinishRun that lived on completed a run that had been replaced' },
  { seed: '322', pages: 12, what: 'FinishRun took on another run than the one it was sent for' },
  { seed: '159', pages: 12, what: 'a BeginRun that lived on restarted again, and gave up the run it had begun' },
  { seed: '72', pages: 12, what: 'a page whose long cursor was lost stopped its run for good' },
  {
    seed: '3008138',
    pages: 12,
    what: 'an invariant, too strict: a run whose first page was just being logged was given up',
  },
  { seed: '7', pages: 12, what: 'a page whose long cursor was lost stopped its run for good' },
  { seed: '34', pages: 12, what: 'a page whose long cursor was lost stopped its run for good' },
  { seed: '110', pages: 12, what: 'a page whose long cursor was lost stopped its run for good' },
  {
    seed: '37817236360426',
    pages: 12,
    what: 'a start with a since within the overlap moved the watermark past what was dated back to before it',
  },
];
