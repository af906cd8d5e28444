/**
 * The sections of the README's chapter on trouble, as data: an alarm names the one that says what to do, and a test
 * holds the README to them.
 */

export const runbookChapter = 'When it fails';

export const runbookSections = {
  runFailed: 'A run failed',
  notFresh: 'No run completed in time',
  missedStart: 'A scheduled start was missed',
  throttled: 'AWS throttles the export',
  waiting: 'The service makes the export wait',
} as const;

export type RunbookSection = keyof typeof runbookSections;

/** The end of an alarm's description. */
export function whatToDo(section: RunbookSection): string {
  return `What to do: README, "${runbookChapter}", "${runbookSections[section]}".`;
}
