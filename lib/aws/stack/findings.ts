/** What `doctor` finds, of a target as a whole or of an export. */

export interface Finding {
  /** Such as `alarms`, `settings` or `service`: docs/command-line.md#doctor. */
  readonly check: string;
  /** null for a check of the whole deployment, or of a service that several exports use. */
  readonly export: string | null;
  readonly state: 'ok' | 'warning' | 'problem';
  readonly message: string;
  /** What to do; null if there is nothing to do. */
  readonly remedy: string | null;
}

/** The result of one check, which knows neither its name nor its export. */
export type Outcome = Omit<Finding, 'check' | 'export'>;

export const ok = (message: string): Outcome => ({ state: 'ok', message, remedy: null });

export const warning = (message: string, remedy: string): Outcome => ({ state: 'warning', message, remedy });

/** `error` is what was thrown, or its name and message. */
export function problem(error: unknown, remedy: string): Outcome {
  const known = typeof error === 'object' && error !== null && 'message' in error ? error : new Error(String(error));
  const { name, message } = known as Error;
  return { state: 'problem', message: `${name}: ${message}`, remedy };
}
