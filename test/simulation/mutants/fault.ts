/**
 * Faults at ports and decisions. A fault replaces an exported function while its module is loaded: a step, whose
 * dependencies are the ports; a decision, which is a function of its arguments; or a client of the simulated AWS. No
 * fault knows what is inside a step.
 */

import type { ExportDefinition, ExportState, Instant, JobRecord } from '../../../lib/core/model.ts';
import type { Decision, decide } from '../../../lib/core/start/decide.ts';
import type { watermarkAfter } from '../../../lib/core/start/watermark.ts';
import type { createPageSlots } from '../../../lib/core/slots/page-slots.ts';
import type { StepName } from '../../../lib/core/state-machine/definition.ts';
import type {
  JobService,
  PageLog,
  PageSpool,
  PageIdentity,
  PageStore,
  ReportService,
  SharedRecord,
  StepDependencies,
} from '../../../lib/core/ports.ts';
import type { Command, Connection } from '../world/sdk-clients.ts';

export interface Fault {
  /** What is replaced: `lib/file.ts#name`, relative to the root of the repository. */
  readonly at: string;
  readonly replace: (real: never) => unknown;
}

/** What is known of the step that has the dependencies. */
export interface Call {
  readonly step: StepName;
  readonly execution: string;
}

const steps: Readonly<Record<StepName, string>> = {
  BeginRun: 'lib/core/steps/begin-run.ts#beginRun',
  ExportPage: 'lib/core/steps/export-page.ts#exportPage',
  FinishRun: 'lib/core/steps/finish-run.ts#finishRun',
  FailRun: 'lib/core/steps/fail-run.ts#failRun',
};
const allSteps = Object.keys(steps) as StepName[];
const decideFunction = 'lib/core/start/decide.ts#decide';

export type DecidedRun = Extract<Decision, { readonly state: ExportState }>;

type Step<StepCommand, Outcome> = (deps: StepDependencies, command: StepCommand) => Promise<Outcome>;

/** The step with other commands, or other outcomes. */
export const inStep = <StepCommand, Outcome>(
  step: StepName,
  replace: (real: Step<StepCommand, Outcome>) => Step<StepCommand, Outcome>,
): Fault => ({ at: steps[step], replace });

/** The named steps with other dependencies; without names, all steps. */
export const inPorts = (
  change: (deps: StepDependencies, call: Call) => Partial<StepDependencies>,
  names: readonly StepName[] = allSteps,
): readonly Fault[] =>
  names.map((step) =>
    inStep<{ readonly execution: string }, unknown>(
      step,
      (real) => (deps, command) => real({ ...deps, ...change(deps, { step, execution: command.execution }) }, command),
    ),
  );

export const inLog = (
  change: (log: PageLog, deps: StepDependencies, call: Call) => Partial<PageLog>,
  names?: readonly StepName[],
): readonly Fault[] => inPorts((deps, call) => ({ log: { ...deps.log, ...change(deps.log, deps, call) } }), names);

export const inStore = (
  change: (store: PageStore, deps: StepDependencies) => Partial<PageStore>,
  names: readonly StepName[] = ['ExportPage', 'FinishRun'],
): readonly Fault[] => inPorts((deps) => ({ store: { ...deps.store, ...change(deps.store, deps) } }), names);

export const inSpools = (change: (spool: PageSpool, identity: PageIdentity) => Partial<PageSpool>): readonly Fault[] =>
  inStore((store) => ({
    spool(identity) {
      const spool = store.spool(identity);
      return { ...spool, ...change(spool, identity) };
    },
  }));

export const inService = (replace: (fetch: ReportService['fetch']) => ReportService['fetch']): readonly Fault[] =>
  inPorts(
    ({ service }) => ({ service: { ...service, fetch: replace((...request) => service.fetch(...request)) } }),
    ['ExportPage'],
  );

/** Requests for report jobs. */
export const inPolls = (replace: (poll: JobService['poll']) => JobService['poll']): readonly Fault[] =>
  inPorts(
    ({ service }) => {
      const { jobs } = service;
      return jobs === undefined ? {} : { service: { ...service, jobs: { ...jobs, poll: replace(jobs.poll) } } };
    },
    ['ExportPage'],
  );

/** The records of report jobs. */
export const inJobRecords = (
  change: (record: SharedRecord<JobRecord>, key: string) => Partial<SharedRecord<JobRecord>>,
): readonly Fault[] =>
  inLog(
    (log) => ({
      job(...chain) {
        const record = log.job(...chain);
        return { ...record, ...change(record, chain.join()) };
      },
    }),
    ['ExportPage'],
  );

/** What the named steps read of the export state. */
export const inReads = (
  change: (state: ExportState, deps: StepDependencies, call: Call) => ExportState,
  names?: readonly StepName[],
): readonly Fault[] =>
  inLog(
    (log, deps, call) => ({
      async exportState(name) {
        const state = await log.exportState(name);
        return state && change(state, deps, call);
      },
    }),
    names,
  );

/** What the named steps write of the export state. */
export const inWrites = (change: (state: ExportState) => ExportState, names?: readonly StepName[]): readonly Fault[] =>
  inLog((log) => ({ replaceState: (state) => log.replaceState(change(state)) }), names);

/** The settings that the step has. */
export const inSettings = (
  change: (settings: ExportDefinition) => Partial<ExportDefinition>,
  step: StepName,
): readonly Fault[] => inPorts(({ definition }) => ({ definition: { ...definition, ...change(definition) } }), [step]);

/** What the status of an execution seems to be when a run begins. `isOwn`: it is the one that begins it. */
export const inStatuses = (
  change: (isOwn: boolean) => Awaited<ReturnType<StepDependencies['executions']['status']>> | undefined,
): readonly Fault[] =>
  inPorts(
    ({ executions }, { execution }) => ({
      executions: { status: async (each) => change(each === execution) ?? (await executions.status(each)) },
    }),
    ['BeginRun'],
  );

export const inDecision = {
  /** What a start decides by. */
  before: (change: (...given: Parameters<typeof decide>) => Parameters<typeof decide>): Fault => ({
    at: decideFunction,
    replace:
      (real: typeof decide) =>
      (...given: Parameters<typeof decide>) =>
        real(...change(...given)),
  }),
  /** What a start decides, if it begins or resumes a run. */
  after: (
    change: (decided: DecidedRun, ...given: Parameters<typeof decide>) => Partial<Pick<DecidedRun, 'run' | 'state'>>,
  ): Fault => ({
    at: decideFunction,
    replace:
      (real: typeof decide) =>
      (...given: Parameters<typeof decide>): Decision => {
        const decision = real(...given);
        if (!('state' in decision)) return decision;
        const changed = { ...decision, ...change(decision, ...given) };
        return { ...changed, state: { ...changed.state, active: changed.run } };
      },
  }),
};

/** The watermark after a run: a function of the real one, and of what it depends on. */
export const inWatermark = (
  change: (real: typeof watermarkAfter, ...given: Parameters<typeof watermarkAfter>) => Instant | undefined,
): Fault => ({
  at: 'lib/core/start/watermark.ts#watermarkAfter',
  replace:
    (real: typeof watermarkAfter) =>
    (...given: Parameters<typeof watermarkAfter>) =>
      change(real, ...given),
});

export const inSlots = (replace: (real: typeof createPageSlots) => typeof createPageSlots): Fault => ({
  at: 'lib/core/slots/page-slots.ts#createPageSlots',
  replace,
});

/** Requests to S3 or DynamoDB: `perform` carries one out. */
export const inRequests = (
  service: 'S3' | 'DynamoDb',
  change: (command: Command, perform: (changed: Command) => unknown) => unknown,
): Fault => ({
  at: `test/simulation/world/sdk-clients.ts#create${service}Client`,
  replace: (real: (connection: Connection) => unknown) => (connection: Connection) =>
    real({
      ...connection,
      perform: (process, command) => change(command, (changed) => connection.perform(process, changed)),
    }),
});

/** The command without these fields of its input. */
export function without(command: Command, ...fields: readonly string[]): Command {
  const input = Object.fromEntries(Object.entries(command.input).filter(([field]) => !fields.includes(field)));
  return Object.assign(Object.create(Object.getPrototypeOf(command) as object) as Command, { input });
}
