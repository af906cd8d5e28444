/**
 * Seeds whose histories once violated an invariant. A change of the simulation may turn a seed into a different
 * history. Only those of what is no longer simulated are removed.
 */

export interface RegressionSeed {
  readonly seed: string;
  readonly pages: number;
  /** Whether the history is one of several days. */
  readonly days?: boolean;
  /** Whether exports have report jobs. Most of these histories are from before there were any. */
  readonly jobs?: boolean;
  /** What was wrong. */
  readonly defect: string;
}

const staleFinishRun = 'a stale FinishRun completed a run that had been replaced';
const repeatedRestart = 'a stale BeginRun restarted again, and abandoned the run it had begun';
const unrecoverableCursor = 'a page whose cursor could not be recovered failed its run for good';

export const regressionSeeds: readonly RegressionSeed[] = [
  { seed: '103', pages: 12, defect: staleFinishRun },
  { seed: '197', pages: 12, defect: staleFinishRun },
  { seed: '322', pages: 12, defect: 'FinishRun finished another run than the one it was invoked for' },
  { seed: '159', pages: 12, defect: repeatedRestart },
  { seed: '72', pages: 12, defect: unrecoverableCursor },
  { seed: '7', pages: 12, defect: unrecoverableCursor },
  { seed: '34', pages: 12, defect: unrecoverableCursor },
  { seed: '110', pages: 12, defect: unrecoverableCursor },
  {
    seed: '3008138',
    pages: 12,
    defect: 'an invariant was too strict: a run was abandoned while its first page was being logged',
  },
  {
    seed: '37817236360426',
    pages: 12,
    defect: 'a start with a since within the overlap moved the watermark past backdated reports',
  },
  {
    seed: '500376',
    pages: 12,
    defect: 'an invariant was too strict: a start that was frozen abandoned a run that had no page when it looked',
  },
  // Found by mutants that bring the defects back, after renamed faults had given the seeds above other histories.
  { seed: '724', pages: 12, defect: staleFinishRun },
  { seed: '2', pages: 12, defect: repeatedRestart },
  { seed: '14', pages: 12, defect: unrecoverableCursor },
  { seed: '1', pages: 12, defect: 'the watermark moved past backdated reports' },
  { seed: '1', pages: 12, defect: 'a scheduled time that was repeated after a later one began a second run' },
  { seed: '129', pages: 12, defect: 'one Date of a wrong clock moved the watermark into the future' },
  {
    seed: '47785251892220',
    pages: 12,
    defect: 'an invariant was too strict: the clock of a function was set twice before its run was recorded',
  },
  { seed: '777049', pages: 12, defect: 'a late BeginRun began another run after its execution had completed one' },
  {
    seed: '7200047',
    pages: 12,
    defect: 'a late BeginRun resumed the run of another execution after its own had completed one',
  },
  { seed: '2000338', pages: 12, defect: 'the error of an abort replaced the one that made the upload fail' },
  {
    seed: '910068',
    pages: 12,
    defect: 'a container that was frozen recorded an incident of the run it had worked on before',
  },
  {
    seed: '109000402',
    pages: 12,
    defect:
      'the Retry-After of a prefetched page was lost when the page before it failed while the response was being read',
  },
  {
    seed: '93000291',
    pages: 12,
    defect: 'an invariant was too strict: the outcome of an invocation came after the timeout of its task',
  },
  {
    seed: '60001817',
    pages: 12,
    defect: 'an invariant was too strict: a start met an unfinished run with slices of another length',
  },
  {
    seed: '83000322',
    pages: 12,
    defect: 'a slice that another invocation had started over was taken for a damaged log',
  },
  {
    seed: '90002879',
    pages: 12,
    defect: 'a Retry-After was lost when DynamoDB was throttled while the slices that were set aside were being noted',
  },
  {
    seed: '90005607',
    pages: 12,
    defect:
      'an invariant was too strict: a start met the damaged page of a bounded run before an operator had repaired it',
  },
  {
    seed: '90007863',
    pages: 12,
    defect: 'an invariant was too strict: a cursor that was logged during the faults repeated hours later',
  },
  {
    seed: '90008044',
    pages: 12,
    defect: 'the first page of a slice that started over could have any root element once every slice had begun',
  },
  {
    seed: '90019180',
    pages: 12,
    defect: 'an invariant was too strict: a second damaged page of a run was reported hours after the first one',
  },
  {
    seed: '91007049',
    pages: 12,
    defect: 'the report of a cursor that had expired before the next start of a bounded run counted as a failure',
  },
  {
    seed: '93101143',
    pages: 4,
    days: true,
    defect:
      'an invariant was too strict: a first run began two minutes before since.initial, so it ended before it began',
  },
  { seed: '9300086', pages: 12, defect: 'a Retry-After was recorded for other processes before this one knew it' },
  {
    seed: '98000030',
    pages: 12,
    defect:
      'parents had a function for one slice, so that no time was left to wait for the rate, and no free place was taken',
  },
  {
    seed: '300000123',
    pages: 12,
    jobs: true,
    defect: 'an invariant was too strict: the second process of an invocation saw a status that is not described',
  },
  {
    seed: '300001071',
    pages: 12,
    jobs: true,
    defect: 'the files of a job that was at work again were taken for its result',
  },
  {
    seed: '70942757838343',
    pages: 12,
    defect: 'an invariant was too strict: a bounded run reported hours later that its job had failed during the faults',
  },
  {
    seed: '2781',
    pages: 12,
    defect: 'a pass of counted pages confirmed itself, as its slice had no restart left while others got on',
  },
  {
    seed: '543043',
    pages: 12,
    defect: 'an invariant was too strict: a run stopped at another slice while it requested a report job',
  },
  {
    seed: '270000822',
    pages: 12,
    defect: 'an invariant was too strict: a bounded run reported hours later that its job had stayed in the queue',
  },
  {
    seed: '270002420',
    pages: 12,
    defect: 'an invariant was too strict: a page that had been repaired was damaged again',
  },
  {
    seed: '280000605',
    pages: 12,
    defect: 'a chain waited for a request for a report job that a clock three hours fast had recorded',
  },
  {
    seed: '310000995',
    pages: 12,
    defect: 'an invariant was too strict: a damaged page stopped a run while another slice requested a report job',
  },
  {
    seed: '2884270310',
    pages: 12,
    defect: 'an invariant was too strict: by a fast clock, a job that was not known yet was given up',
  },
  {
    seed: '18',
    pages: 12,
    jobs: true,
    defect: 'a refused request for a report job was recorded before other slices knew of its Retry-After',
  },
  {
    seed: '96040',
    pages: 12,
    jobs: true,
    defect: 'a fault was too strict: another document for page 1 of a first run, whose job had reordered its files',
  },
  {
    seed: '98048',
    pages: 12,
    jobs: true,
    defect: 'an invariant was too strict: the last start met a run whose polls clocks minutes apart had delayed',
  },
  {
    seed: '600002463',
    pages: 12,
    defect: 'a start that began a slice again, whose pages had repeated, forgot their root',
  },
  {
    seed: '400000304',
    pages: 12,
    defect: 'a run that a slower invocation had started over, after its last page, had to be abandoned',
  },
];
