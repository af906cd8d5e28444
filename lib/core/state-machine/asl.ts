/**
 * The subset of the Amazon States Language (states-language.net) that the state machine uses: JSONPath, no variables.
 */

export interface Retrier {
  readonly ErrorEquals: readonly string[];
  readonly IntervalSeconds?: number;
  readonly MaxAttempts: number;
  readonly BackoffRate?: number;
  readonly MaxDelaySeconds?: number;
  readonly JitterStrategy?: 'FULL';
}

export interface Catcher {
  readonly ErrorEquals: readonly string[];
  /**
   * Absent: the error replaces the whole input. The interpreter of the tests would treat an explicit `$` as a field
   * name.
   */
  readonly ResultPath?: string;
  readonly Next: string;
}

export type Template = { readonly [key: string]: string | number | null | Template | readonly Template[] };

export interface TaskState {
  readonly Type: 'Task';
  readonly Comment: string;
  readonly Resource: string;
  readonly Parameters: Template;
  readonly ResultPath?: string | null;
  readonly OutputPath?: string;
  readonly TimeoutSeconds: number;
  readonly Retry: readonly Retrier[];
  readonly Catch: readonly Catcher[];
  readonly Next: string;
}

export type ChoiceRule = { readonly Variable: string; readonly Next: string } & (
  | { readonly StringEquals: string }
  | { readonly IsNull: boolean }
);

export type State =
  | TaskState
  | {
      readonly Type: 'Choice';
      readonly Comment?: string;
      readonly Choices: readonly ChoiceRule[];
      readonly Default: string;
    }
  | { readonly Type: 'Wait'; readonly Comment: string; readonly SecondsPath: string; readonly Next: string }
  | {
      readonly Type: 'Pass';
      readonly Comment: string;
      readonly Parameters: Template;
      /** Absent: the result replaces the input. */
      readonly ResultPath?: string;
      readonly Next: string;
    }
  | { readonly Type: 'Succeed'; readonly Comment: string }
  | { readonly Type: 'Fail'; readonly Comment: string; readonly ErrorPath: string; readonly CausePath: string };

export interface StateMachine<Name extends string, Each = State> {
  readonly Comment: string;
  readonly StartAt: string;
  readonly TimeoutSeconds: number;
  readonly States: Readonly<Record<Name, Each>>;
}
