/**
 * Deployments while executions are running. A deployment updates the four functions and the definition one after
 * another, within minutes, and while one is updated, Lambda and Step Functions use the old and the new for some
 * seconds. A rollback goes back to the version before, of all that the deployment has updated; a deployment that fails
 * updates only a part. One that changes what is requested fails before both BeginRun and ExportPage are updated: no run
 * may have its request.
 *
 * An execution keeps the definition that it was started with, but invokes the functions that are deployed at the time.
 */

import { functionLimits, stateGraceSeconds } from '../../../lib/cdk/function-limits.ts';
import type { FunctionSettings } from '../../../lib/settings/deployed-settings.ts';
import { exportSettingsSchema, type GivenExport } from '../../../lib/settings/settings.ts';
import type { StateMachine } from '../../../lib/core/state-machine/asl.ts';
import { byStep, type StepName, stateMachine, stepNames } from '../../../lib/core/state-machine/definition.ts';
import { type ExportInput, listName, operatorMoments, type Scenario } from '../histories/scenario.ts';
import { deployedSettings } from './functions.ts';
import { laterDefinition } from './later-release.ts';
import type { Rng } from './rng.ts';
import type { World } from './world.ts';

const second = 1_000;
const minute = 60_000;

/** What one deployment consists of. */
export interface Version {
  readonly number: number;
  readonly exports: readonly ExportInput[];
  /** The same, parsed. */
  readonly parsed: readonly GivenExport[];
  readonly settings: FunctionSettings;
  readonly timeoutSeconds: Readonly<Record<StepName, number>>;
  readonly definition: StateMachine<string>;
  /** Whether it is of a later release of the exporter, not only of other settings. */
  readonly isLaterRelease: boolean;
  /** A mark that only requests of this version contain. Absent: its requests are those of the scenario. */
  readonly requestMark?: string | undefined;
}

export interface Deployments {
  /** The version of the step's function that the invocation `id` gets, or a new container of it. */
  readonly functionVersion: (step: StepName, id: string) => Version;
  /** The mark of the version that the invocation `id` has got. */
  readonly requestMark: (id: string) => string | undefined;
  /** The definition that the execution is started with. */
  readonly definition: (execution: string) => StateMachine<string>;
  /** Every version that is deployed in this history, some of them only in part. */
  readonly versions: readonly Version[];
  /** From this moment on, no export expects reports any more (`expect`). */
  readonly reportsExpectedUntil: number;
  /** The settings of an export in each version. */
  settingsOf(exportName: string): readonly GivenExport[];
}

type Resource = StepName | 'definition';

interface Update {
  readonly at: number;
  readonly version: Version;
}

export function createDeployments(world: World, scenario: Scenario, label: string): Deployments {
  const { start, faultsEndAt, exports, deployment } = scenario;
  const createVersion = (
    number: number,
    inputs: readonly ExportInput[],
    isLaterRelease: boolean,
    requestMark?: string,
  ): Version => {
    const compresses = deployment.compresses && world.rng(`${label}compression of version ${number}`).chance(0.6);
    const parsed = inputs.map((each) => exportSettingsSchema.parse(each));
    const unmarked = deployedSettings(deployment, inputs, compresses ? 'gzip' : undefined);
    const changesParents = requestMark !== undefined && world.rng(`${requestMark}/parents`).chance(0.5);
    const settings =
      requestMark === undefined
        ? unmarked
        : changesParents && deployment.parents === 'values'
          ? changeParents(unmarked, requestMark)
          : markRequests(world.rng(requestMark), unmarked, requestMark);
    const { timeoutSeconds } = functionLimits(settings);
    const definition = stateMachine({
      functions: byStep((step: StepName) => step),
      eventBus: 'default',
      store: { bucket: 'reports', prefix: 'exports/' },
      partition: 'aws',
      stepTimeoutSeconds: byStep((step) => timeoutSeconds[step] + stateGraceSeconds),
      executionTimeoutSeconds: 86_400,
    });
    return {
      number,
      exports: inputs,
      parsed,
      settings,
      timeoutSeconds,
      definition: isLaterRelease ? laterDefinition(definition) : definition,
      isLaterRelease,
      requestMark,
    };
  };

  const first = createVersion(
    1,
    exports.map(({ input }) => input),
    false,
  );
  const versions = [first];
  const resources: readonly Resource[] = [...stepNames, 'definition'];
  const updates = new Map<Resource, Update[]>(
    resources.map((each) => [each, [{ at: Number.NEGATIVE_INFINITY, version: first }]]),
  );
  let current = first;
  const update = (resource: Resource, at: number, version: Version) => {
    updates.get(resource)?.push({ at, version });
    world.time.after(at - start, () => world.log('operator', () => `deploys ${resource} of version ${version.number}`));
  };

  // CloudFormation makes one update of a stack at a time, so each ends before the next one can begin.
  let endsAt = start;
  const period = { everyMs: 60 * minute, withinMs: 20 * minute };
  for (const { name: moment, at, withinMs } of operatorMoments(scenario, period)) {
    const name = `${label}deployment-${moment}`;
    if (at < endsAt || !world.injectFault('deployment', name)) continue;
    const rng = world.rng(name);
    const inputs = exports.map(({ input }) => changeSettings(rng, input));
    const requestMark = world.injectFault('request-changed', name) ? `other-request-${name}` : undefined;
    const next = createVersion(versions.length + 1, inputs, rng.chance(0.6), requestMark);
    versions.push(next);
    const order = shuffle(rng, resources);
    const isRolledBack = world.injectFault('rollback', name) || requestMark !== undefined;
    const begun = isRolledBack && rng.chance(0.5) ? order.slice(0, 1 + rng.integerBelow(order.length - 1)) : order;
    const last = order.findLast((each) => each === 'BeginRun' || each === 'ExportPage');
    const updated = requestMark === undefined ? begun : order.filter((each) => each !== last);
    let updateAt = at + rng.between(0, withinMs);
    for (const resource of updated) {
      updateAt += rng.pick([rng.between(1, 10) * second, rng.between(10, 60) * second]);
      update(resource, updateAt, next);
    }
    endsAt = updateAt;
    if (!isRolledBack) {
      current = next;
      continue;
    }
    const soon = rng.pick([rng.between(1, 60) * second, rng.between(1, 25) * minute]);
    // Long enough for a start.
    updateAt += requestMark === undefined ? soon : world.rng(`${requestMark}/rollback`).between(1, 50) * minute;
    for (const resource of shuffle(rng, updated)) {
      updateAt += rng.between(1, 30) * second;
      update(resource, updateAt, current);
    }
    endsAt = updateAt;
  }

  const reportsExpectedUntil = Math.max(faultsEndAt, endsAt) + minute;
  if (current.exports.some(({ expect }) => expect !== undefined)) {
    const inputs = current.exports.map((input) => ({ ...input, expect: undefined }));
    const last = createVersion(versions.length + 1, inputs, current.isLaterRelease);
    versions.push(last);
    for (const resource of resources) update(resource, reportsExpectedUntil, last);
  }

  /** For some seconds after an update, either version. */
  const versionOf = (resource: Resource, decision: string): Version => {
    const now = world.time.now();
    const done = (updates.get(resource) ?? []).filter(({ at }) => at <= now);
    const last = done.at(-1) ?? { at: 0, version: first };
    const isSpreading = now - last.at < 10 * second;
    const before = done.at(-2)?.version ?? first;
    return isSpreading && world.rng(decision).chance(0.5) ? before : last.version;
  };
  const requestMarks = new Map<string, string | undefined>();
  return {
    versions,
    reportsExpectedUntil,
    settingsOf: (exportName) => versions.flatMap(({ parsed }) => parsed.filter(({ name }) => name === exportName)),
    functionVersion(step, id) {
      const version = versionOf(step, `${id}/version`);
      requestMarks.set(id, version.requestMark);
      return version;
    },
    requestMark: (id) => requestMarks.get(id),
    definition: (execution) => versionOf('definition', `${execution}/definition`).definition,
  };
}

/** What may change while a run is unfinished. Another filter or size may not: the next start would be refused. */
function changeSettings(rng: Rng, input: ExportInput): ExportInput {
  const hasWatermark = input.since === undefined || !('lookbackWindow' in input.since);
  const limits = {
    publishEmptyRuns: rng.chance(0.5),
    iterationsPerExecution: rng.pick([1, 2, 3, 5, 150]),
    pagesPerInvocation: rng.pick([1, 1, 2, 3, 25]),
    maxRetryAfter: rng.pick(['PT30M', 'PT1H', 'PT1H30M']),
  } as const;
  // A decision that is no longer drawn must not change the rest of the scenario.
  rng.next();
  const changed = {
    ...input,
    ...limits,
    // A shorter overlap would miss reports that the service dates back.
    since: { ...input.since, ...(hasWatermark && rng.chance(0.3) ? { overlap: 'PT15M' } : {}) },
    // A run that has begun keeps its cuts.
    ...(input.slices === undefined
      ? {}
      : { slices: rng.pick([input.slices, { ...input.slices, length: 'PT2H' }, { length: 'PT40M' }]) }),
  } as const;
  // Parents are slices without a length. Fewer at the same time than at first are within maxConcurrentPages, too.
  const parallel = Math.min(rng.pick([1, 2]), input.slices?.parallel ?? 1);
  if (input.parents !== undefined) return { ...changed, slices: { parallel } };
  // Of an export whose reports are parents, each run is published.
  return input.name === listName ? { ...changed, since: {}, publishEmptyRuns: true } : changed;
}

/** Puts the mark into a header, the filter, or the description of the API. */
function markRequests(rng: Rng, settings: FunctionSettings, mark: string): FunctionSettings {
  const { service, exports } = settings;
  const change = rng.pick(['headers', 'filter', 'description']);
  if (change === 'filter') {
    return { ...settings, exports: exports.map((each) => ({ ...each, filter: { ...each.filter, type: mark } })) };
  }
  if (change === 'headers' || exports.some(({ api }) => api.pagination === undefined)) {
    return { ...settings, service: { ...service, headers: { 'X-Tenant': mark } } };
  }
  const marked = exports.map((each) => {
    const { job } = each.api;
    if (job !== undefined) {
      const create = { ...job.create, body: { ...job.create.body, tenant: mark } };
      return { ...each, api: { ...each.api, job: { ...job, create } } };
    }
    const { query, body } = each.api.request;
    const own = body === undefined ? { query: { ...query, tenant: mark } } : { body: { ...body, tenant: mark } };
    return { ...each, api: { ...each.api, request: { ...each.api.request, ...own } } };
  });
  return { ...settings, exports: marked };
}

/** The mark comes first in the list, so that each value is that of another slice. */
const changeParents = ({ exports, ...settings }: FunctionSettings, mark: string): FunctionSettings => ({
  ...settings,
  exports: exports.map((each) => ({ ...each, parents: { values: [mark, ...(each.parents?.values ?? [])] } })),
});

function shuffle<Item>(rng: Rng, items: readonly Item[]): Item[] {
  return items
    .map((item) => ({ item, order: rng.next() }))
    .sort((one, other) => one.order - other.order)
    .map(({ item }) => item);
}
