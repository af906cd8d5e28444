/**
 * The names of executions. All exports of a service share a state machine, so each name that we choose begins with its
 * export. EventBridge Scheduler and people choose names of other forms, which do not tell the export.
 */

/** A start by an operator. `hex` are 16 hexadecimal digits. */
export const manualName = (exportName: string, hex: string): string => `${exportName}-manual-${hex}`;

/** As the state ContinueInNewExecution names the executions of a run after its first. */
export const continuationName = (exportName: string, run: string, executionNumber: number): string =>
  `${exportName}-${run}-${executionNumber}`;

export interface ParsedName {
  readonly export: string;
  /** undefined in the name of an operator's start: it is named before it has a run. */
  readonly run?: string | undefined;
}

/**
 * What the name of an execution tells; undefined for a name of another form. The export is what precedes the rest, which has
 * an exact form: the name of an export may contain hyphens, and may begin with the name of another export.
 */
export function parseExecutionName(name: string): ParsedName | undefined {
  const manual = /^(.+)-manual-[0-9a-f]{16}$/.exec(name);
  if (manual?.[1] !== undefined) return { export: manual[1] };
  const continuation = /^(.+)-(\d{8}T\d{6}Z-[0-9a-f]{6})-\d+$/.exec(name);
  if (continuation?.[1] !== undefined) return { export: continuation[1], run: continuation[2] };
  return undefined;
}
