/**
 * The names of the executions that commands start. All exports of a service share a state machine, so each name begins with its export, as
 * do those that the state machine chooses (`../../core/state-machine`).
 */

/** A start by an operator. `hex` are 16 hexadecimal digits. */
export const manualName = (exportName: string, hex: string): string => `${exportName}-manual-${hex}`;
