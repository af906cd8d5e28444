/** The subset of the Amazon States Language (states-language.net) that the state machine uses: JSONPath, no variables. */

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
  /** Absent: the error replaces the whole input. The interpreter of the tests would treat an explicit `$` as a field name. */
  readonly ResultPath?: string;
  readonly Next: string;
}

export type Template = { readonly [key: string]: string | number | null | Template | readonly Template[] };

export interface TaskState {
  readonly Type: 'Task';
  readonly Comment: string;
  readonly Resource: string;
  readonly Parameters: Template;
  readonly ResultSelector?: Template;
  readonly ResultPath?: string | null;
  readonly OutputPath?: string;
  readonly TimeoutSeconds: number;
  readonly Retry: readonly Retrier[];
  readonly Catch: readonly Catcher[];
  readonly Next: string;
}

type ChoiceRule = {
  readonly Variable: string;
  readonly Next: string;
} & ({ readonly StringEquals: string } | { readonly IsNull: boolean });

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

type Test = { readonly Variable: string } & (
  | { readonly IsPresent: true }
  | { readonly StringEquals: string }
  | { readonly BooleanEquals: boolean }
);

/** A Choice that also tests for values that may be absent. `And` stops at the first test that is false. */
export interface TestingChoiceState {
  readonly Type: 'Choice';
  readonly Comment: string;
  readonly Choices: readonly ((Test | { readonly And: readonly Test[] }) & { readonly Next: string })[];
  readonly Default: string;
}

/** A Map state that starts an execution of its own for each item of an array in S3: a Distributed Map. */
export interface DistributedMapState<Name extends string, Each> {
  readonly Type: 'Map';
  readonly Comment: string;
  /** Part of the ARNs of these executions. */
  readonly Label: string;
  readonly ItemReader: {
    readonly Resource: string;
    readonly ReaderConfig: { readonly InputType: 'JSON' };
    readonly Parameters: Template;
  };
  readonly MaxConcurrencyPath: string;
  readonly ToleratedFailurePercentage: number;
  readonly ItemProcessor: {
    readonly ProcessorConfig: { readonly Mode: 'DISTRIBUTED'; readonly ExecutionType: 'STANDARD' };
    readonly StartAt: Name;
    readonly States: Readonly<Record<Name, Each>>;
  };
  readonly ResultSelector: Template;
  readonly Next: string;
}

/** Fails with an error that the definition states. */
export interface StatedFailState {
  readonly Type: 'Fail';
  readonly Comment: string;
  readonly Error: string;
  readonly Cause: string;
}
