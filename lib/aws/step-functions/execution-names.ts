/**
 * The names of executions. All exports of a service share a state machine, so each name that we choose begins with its
 * export. EventBridge Scheduler and people choose names of other forms, which do not tell the export.
 */

/** A start by an operator. `hex` are 16 hexadecimal digits. */
export const manualName = (exportName: string, hex: string): string => `${exportName}-manual-${hex}`;

/** As the state ContinueInNewExecution names the executions of a run after its first. */
export const continuationName = (exportName: string, run: string, executionNumber: number): string =>
  `${exportName}-${run}-${executionNumber}`;

/** Of the state machine of backfills. `hex` are 16 hexadecimal digits. */
export const backfillName = (exportName: string, hex: string): string => `${exportName}-backfill-${hex}`;

/** Whether `name` is a `backfillName` of this export, and not of another one whose name begins with it. */
export const isBackfillOf = (exportName: string, name: string): boolean =>
  name.startsWith(`${exportName}-backfill-`) && /^[0-9a-f]{16}$/.test(name.slice(`${exportName}-backfill-`.length));

/** As the state ExportWindow names the executions of windows, whose start input tells the window. */
export const windowExecutionName = (exportName: string, uuid: string): string => `${exportName}-w-${uuid}`;

export interface ParsedName {
  readonly export: string;
  /** undefined in the name of a start by an operator or by a backfill: it is named before it has a run. */
  readonly run?: string | undefined;
  /** Whether it exports a window. Also unknown, and then undefined, of the execution that continues a run. */
  readonly isWindow?: true | undefined;
}

/**
 * What the name of an execution tells; undefined for a name of another form. The export is what precedes the rest, which has
 * an exact form: the name of an export may contain hyphens, and may begin with the name of another export.
 */
export function parseExecutionName(name: string): ParsedName | undefined {
  const manual = /^(.+)-manual-[0-9a-f]{16}$/.exec(name);
  if (manual?.[1] !== undefined) return { export: manual[1] };
  const continuation = /^(.+)-(\d{8}T\d{6}Z-[0-9a-f]{6}(?:[0-9a-f]{6})?)-\d+$/.exec(name);
  if (continuation?.[1] !== undefined) return { export: continuation[1], run: continuation[2] };
  const window = /^(.+)-w-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.exec(name);
  if (window?.[1] !== undefined) return { export: window[1], isWindow: true };
  return undefined;
}
