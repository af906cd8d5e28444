/**
 * Where an alarm sends the person it wakes: `docs/runbook.md` has a section for each, by its id. A test holds the page to
 * this list, and the list to the alarms of a deployment.
 */

export const alarmIds = [
  'RunFailed',
  'RunTimedOut',
  'NotFresh',
  'MissedStart',
  'FunctionThrottled',
  'StateMachineThrottled',
  'Waiting',
  'TableReadsThrottled',
  'TableWritesThrottled',
] as const;

export type AlarmId = (typeof alarmIds)[number];

/** The page in the project, and the heading of its chapter on alarms. */
export const runbook = { page: 'docs/runbook.md', alarms: 'Alarms', errors: 'Errors' } as const;

/** The end of an alarm's description. */
export function whatToDo(id: AlarmId): string {
  return `What to do: ${runbook.page}#${id.toLowerCase()}`;
}
