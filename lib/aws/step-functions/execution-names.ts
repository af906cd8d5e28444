/**
 * The names of the executions that commands start. All exports of a service share a state machine, so each name begins with its export, as
 * do those that the state machines choose (`../../core/state-machine`).
 */

/** A start by an operator. `hex` are 16 hexadecimal digits. */
export const manualName = (exportName: string, hex: string): string => `${exportName}-manual-${hex}`;

/** Of the state machine of backfills. `hex` are 16 hexadecimal digits. */
export const backfillName = (exportName: string, hex: string): string => `${exportName}-backfill-${hex}`;

/** Whether `name` is a `backfillName` of this export, and not of another one whose name begins with it. */
export const isBackfillOf = (exportName: string, name: string): boolean =>
  name.startsWith(`${exportName}-backfill-`) && /^[0-9a-f]{16}$/.test(name.slice(`${exportName}-backfill-`.length));
