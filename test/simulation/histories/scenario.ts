/** The circumstances of one history, drawn from its seed: exports, report service, faults and their rates. */

import type { ExportProps } from '../../../lib/settings/props.ts';
import { exportSettingsSchema, type GivenExport } from '../../../lib/settings/settings.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';
import type { RateLimit } from '../../../lib/core/slots/request-rate.ts';
import { createFaultRates, type FaultRates } from '../world/faults.ts';
import { createRng } from '../world/rng.ts';
import { type JobForm, jobDescription, withParentInJob } from '../world/report-jobs.ts';
import type { UpperBounds } from '../world/report-service.ts';
import type { DescribedApi } from '../world/service-apis.ts';

const minute = 60_000;
const hour = 60 * minute;

export interface Scenario {
  readonly start: number;
  /** No fault occurs from this moment on. */
  readonly faultsEndAt: number;
  /** The last scheduled start. */
  readonly lastStartAt: number;
  /** Only these starts, and only until one of them has shown that the export is up to date. */
  readonly fewStarts?: FewStarts;
  /** By this moment every export must be complete. */
  readonly end: number;
  readonly rates: FaultRates;
  /** Whether a function continues after its timeout. */
  readonly timedOutFunctionsContinue: boolean;
  /** The largest difference between a function's clock and virtual time. */
  readonly maxFunctionSkewMs: number;
  /** Whether the clock of a function may be set while it runs. */
  readonly clocksJump: boolean;
  readonly table: { readonly returnsExisting: boolean; readonly maxBatch: number };
  readonly exports: readonly ExportScenario[];
  readonly deployment: DeploymentScenario;
  /** The most objects in one response to a listing of the bucket. */
  readonly maxListed: number;
  /** Exports of another deployment that has the same prefix in the same bucket by mistake; often none. */
  readonly otherExports: readonly ExportScenario[];
}

/** How the service is deployed, with all its exports. */
export interface DeploymentScenario {
  /** Set if the service is another API than the Report Export Service, which the settings describe. */
  readonly describedApi?: DescribedApi | undefined;
  /** Whether requests can have an upper bound. Without one, there are no slices, no lag and no bounded runs. */
  readonly hasUpperBound: boolean;
  /** The status of a response that is no page, and ends the pages of another API. Undefined: its last page does. */
  readonly endStatus?: number | undefined;
  /** Whether pages are counted, without a total, by an API with pages in the body. */
  readonly counts?: boolean | undefined;
  /** Whether requests have days instead of seconds: of an API with links. */
  readonly hasDays?: boolean;
  /** Whether each export has parents: a list of values, or the reports of the export `parents`, which has none. */
  readonly parents?: 'values' | 'export' | undefined;
  /** Named by the settings; undefined: learnt from the first run. */
  readonly rootElement?: string | undefined;
  readonly cursorIn: 'query' | 'body';
  /** Over all exports; undefined: no limit. */
  readonly maxConcurrentPages: number | undefined;
  /** Over all exports; undefined: no limit. */
  readonly rate?: RateLimit | undefined;
  /** Whether the service is reached through a proxy that demands credentials. */
  readonly hasProxy: boolean;
  /** The field of the secret that holds the API key; empty if the whole secret is the key. */
  readonly apiKeyField: string;
  readonly kmsKeyArn: string | undefined;
  /** Whether some of the versions that are deployed compress the pages of new runs. */
  readonly compresses: boolean;
  /** Pages in flight when an invocation exports several: 2 in a function, 8 in a local run. */
  readonly maxInFlight: number | undefined;
  /** Larger bodies are uploaded in parts of so many bytes; undefined: those of the exporter. */
  readonly partBytes: number | undefined;
}

export interface FewStarts {
  /** The scheduled starts, as numbers of intervals. */
  readonly ticks: readonly number[];
  /** Whether faults can begin at a start that meets nothing left by an earlier one. */
  readonly faultsInOrdinaryStarts: boolean;
  /** Milliseconds after each scheduled start at which an operator may act. */
  readonly operatorDelaysMs: readonly number[];
}

/** Many exports of one service, all due at the same moments. */
export interface Crowd {
  readonly exports: number;
  readonly maxConcurrentPages: number;
}

/** The settings of an export as a user writes them. */
export type ExportInput = ExportProps;

export interface ExportScenario {
  readonly input: ExportInput;
  /** What the input means. */
  readonly settings: GivenExport;
  /** Time between scheduled starts. */
  readonly intervalMs: number;
  readonly service: {
    readonly skewMs: number;
    readonly hasDate: boolean;
    readonly maxDateLagMs: number;
    /** Whether a cursor is refused once it has been answered with a page. */
    readonly singleUseCursors: boolean;
    readonly snapshots: boolean;
    readonly cursors: 'contract' | 'long';
    readonly freshCursors: boolean;
    readonly framing: 'length' | 'chunked' | 'none';
    /** Whether it compresses pages. */
    readonly compresses: boolean;
    readonly paddingBytes: number;
    readonly maxLatencyMs: number;
    readonly pageSize: number;
    /** Until the faults end. Then it honors them. */
    readonly upperBounds: UpperBounds;
  };
  readonly reports: {
    readonly backlog: number;
    /** How many arrive, at random moments, or when they do: milliseconds since the start of the history. */
    readonly arriving: number | readonly number[];
    readonly maxBackdatingMs: number;
    readonly changing: boolean;
    /** Whether the dates of some reports change. */
    readonly redating: boolean;
    /** Whether many reports disappear while a run may be under way. */
    readonly leaving?: boolean;
    /** The parents that have reports, if requests have parents. */
    readonly parents?: readonly [string, ...string[]] | undefined;
    /** All reports, of an export whose reports are parents: its requests have no `since`. */
    readonly listed?: readonly ListedParent[] | undefined;
  };
  /** How report jobs have their result. Absent: there are none. */
  readonly jobForm?: JobForm | undefined;
  /** What requests for some of the parents are answered with for a time. */
  readonly missingParents?: readonly MissingParents[];
}

/** A parent while it is in the list. */
export interface ListedParent {
  /** Empty: the report has none. */
  readonly id: string;
  readonly from: number;
  readonly until: number;
}

export interface MissingParents {
  readonly parents: readonly string[];
  /** Statuses of the first request, with which they do not exist; or of each request, with which they fail. */
  readonly kind: 'gone' | 'failing';
  readonly from: number;
  readonly until: number;
}

/** What is chosen in place of what the seed brings. */
interface Choices {
  readonly crowd?: Crowd | undefined;
  readonly jobs?: boolean | undefined;
}

/** `pages`: about how many pages the largest run has. */
export function createScenario(seed: string, pages: number, choices: Choices): Scenario {
  const { crowd = randomCrowd(seed), jobs } = choices;
  const rng = createRng(seed, 'scenario');
  const start = Date.UTC(2026, 10, 20) + rng.integerBelow(24) * hour;
  const faultsEndAt = start + rng.between(1, 6) * hour;
  // The leases of slots depend on clocks that agree within a minute (docs/guarantees.md).
  const maxFunctionSkewMs = Math.min(rng.pick([0, 0, 2_000, 5 * minute]), crowd === undefined ? Infinity : 25_000);
  const fewNames = rng.chance(0.15) ? ['daily', 'hourly'] : ['reports'];
  const exportNames =
    crowd === undefined ? fewNames : Array.from({ length: crowd.exports }, (_, index) => `reports-${index + 1}`);
  // Its own generator, as everywhere below: what is added later must not change the rest of the scenario.
  const hasUpperBound = createRng(seed, 'upper bound').chance(0.5);
  const inSlices = (each: ExportScenario) => (hasUpperBound ? addSlices(seed, each, start, pages, crowd) : each);
  const contractExports = exportNames.map((name) =>
    inSlices(createExportScenario(seed, name, pages, maxFunctionSkewMs, crowd)),
  );
  // Its table and state machine are its own, and so are its settings. The names of the exports are the same.
  const hasOther = crowd === undefined && createRng(seed, 'another deployment').chance(0.04);
  const otherContractExports = (hasOther ? exportNames : []).map((name) =>
    inSlices(createExportScenario(seed, name, pages, maxFunctionSkewMs, crowd, `other ${name}`)),
  );
  const api = drawApi(seed, [...contractExports, ...otherContractExports], jobs === true);
  const jobForm = api === undefined ? undefined : drawJobs(seed, jobs);
  const counts = api !== undefined && api !== 'link' && drawCounts(seed, jobForm);
  // Regression seeds were found when pages that are counted without a job had no list of parents.
  const isCountedOnly = counts && jobForm === undefined;
  const parents = api === undefined ? undefined : drawParents(seed, isCountedOnly || crowd !== undefined || hasOther);
  const ofApi = (each: ExportScenario) => (api === undefined ? each : ofDescribedApi(each, api));
  const withJob = (each: ExportScenario) =>
    api === undefined || jobForm === undefined ? each : addJob(seed, each, { api, jobForm, hasUpperBound });
  const described = (each: ExportScenario) => (counts ? withCountedPages(seed, ofApi(each)) : ofApi(each));
  const list =
    parents === 'export' && api !== undefined
      ? createParentList(
          seed,
          api,
          described(createExportScenario(seed, listName, pages, maxFunctionSkewMs, undefined)),
          { start, faultsEndAt, counts },
        )
      : undefined;
  const served = (each: ExportScenario) => {
    if (list !== undefined && api !== undefined)
      return withJob(addExportedParents(seed, described(each), { list, api, faultsEndAt }));
    return withJob(
      parents === 'values'
        ? addMissing(seed, addParents(seed, described(each), crowd), start, faultsEndAt)
        : described(each),
    );
  };
  const exports = [...(list === undefined ? [] : [list]), ...contractExports.map(served)];
  const otherExports = otherContractExports.map(served);
  const hasLargePages = [...exports, ...otherExports].some(({ service }) => service.paddingBytes > 100_000);
  const partsRng = createRng(seed, 'parts');
  const drawnRates = createFaultRates(rng, createRng(seed, 'later faults'));
  const rates = hasUpperBound ? withCursorFaults(seed, drawnRates) : drawnRates;
  return {
    start,
    faultsEndAt,
    lastStartAt: faultsEndAt + 4 * hour,
    end: faultsEndAt + 9 * hour,
    rates,
    timedOutFunctionsContinue: rng.chance(0.5),
    maxFunctionSkewMs,
    clocksJump:
      crowd === undefined &&
      // Without a Date the exporter uses its own clock, which must then be right.
      [...exports, ...otherExports].every(({ service }) => service.hasDate) &&
      createRng(seed, 'clocks').chance(0.5),
    table: { returnsExisting: rng.chance(0.5), maxBatch: rng.pick([2, 5, 500]) },
    exports,
    otherExports,
    maxListed: createRng(seed, 'listings').pick([2, 1_000, 1_000]),
    deployment: {
      ...createDeployment(seed, crowd, hasLargePages || !partsRng.chance(0.2) ? undefined : partsRng.pick([100, 300])),
      // Pages are decompressed in threads, which virtual time does not wait for.
      ...(counts || parents === 'export' ? { compresses: false } : {}),
      describedApi: api,
      endStatus: api === undefined || counts ? undefined : drawEndStatus(seed),
      counts,
      hasUpperBound,
      parents,
      rootElement: api !== 'json body' && createRng(seed, 'root element').chance(0.3) ? 'reports' : undefined,
    },
  };
}

/** Its own generator: what is added later must not change the rest of the scenario. */
function drawApi(seed: string, exports: readonly ExportScenario[], isRequired: boolean): DescribedApi | undefined {
  const rng = createRng(seed, 'described API');
  const isContract = exports.some(({ settings }) => settings.format !== 'XML');
  if ((!rng.chance(0.5) && !isRequired) || isContract) return undefined;
  return rng.pick(['link', 'xml body', 'json body']);
}

/** Its own generator. With another deployment of the same prefix, the newest list may be that of the other. */
function drawParents(seed: string, isShared: boolean): DeploymentScenario['parents'] {
  const rng = createRng(seed, 'parents');
  if (rng.chance(0.3)) return 'values';
  return rng.chance(0.8) && !isShared ? 'export' : undefined;
}

/** In half of the histories of other APIs, so in a quarter of all. */
function drawJobs(seed: string, isChosen: boolean | undefined): JobForm | undefined {
  const rng = createRng(seed, 'report jobs');
  const hasJobs = isChosen ?? rng.chance(0.5);
  return hasJobs ? rng.pick(['pages', 'files']) : undefined;
}

/** Whether pages, or those of the results of jobs, are counted without a total. A file is a page by itself. */
const drawCounts = (seed: string, jobForm: JobForm | undefined): boolean =>
  jobForm !== 'files' && createRng(seed, jobForm === undefined ? 'counted pages' : 'counted results').chance(0.4);

/** A job before each chain, which needs no proof of its upper bound. */
function addJob(
  seed: string,
  { input, service, ...rest }: ExportScenario,
  {
    api,
    jobForm,
    hasUpperBound,
  }: { readonly api: DescribedApi; readonly jobForm: JobForm; readonly hasUpperBound: boolean },
): ExportScenario {
  const rng = createRng(seed, `report jobs of ${input.name}`);
  const described = jobDescription(jobForm, api, hasUpperBound, rng.pick(['PT5S', 'PT20S']));
  return {
    ...rest,
    jobForm,
    input: { ...input, api: input.parents === undefined ? described : withParentInJob(described) },
    service: { ...service, singleUseCursors: false, upperBounds: 'honored' },
  };
}

/** Its own generator, too. */
function drawEndStatus(seed: string): number | undefined {
  const rng = createRng(seed, 'end of pages');
  return rng.chance(0.2) ? rng.pick([204, 404]) : undefined;
}

function ofDescribedApi({ input, settings, service, ...rest }: ExportScenario, api: DescribedApi): ExportScenario {
  const { format: _format, filter, ...others } = input;
  // A query parameter cannot have the other conditions.
  const described = {
    ...others,
    filter: api === 'link' && filter?.type !== undefined ? { type: filter.type } : filter,
  };
  return api === 'json body'
    ? // Nothing but the end of the document shows that it is complete.
      { ...rest, input: described, settings: { ...settings, format: 'JSON' }, service: { ...service, framing: 'none' } }
    : { ...rest, input: described, settings, service };
}

/** Pages shift while reports come and go, so that passes differ. */
function withCountedPages(
  seed: string,
  { input, settings, service, reports, ...rest }: ExportScenario,
): ExportScenario {
  const rng = createRng(seed, `counted pages of ${settings.name}`);
  const maxCursorRestarts = 8;
  return {
    ...rest,
    input: { ...input, maxCursorRestarts },
    settings: { ...settings, maxCursorRestarts },
    service: { ...service, snapshots: false, singleUseCursors: false, maxLatencyMs: rng.pick([900, 20_000]) },
    reports: { ...reports, changing: rng.chance(0.5), redating: rng.chance(0.5), leaving: rng.chance(0.8) },
  };
}

/** A list of parents, of which some have no reports. Some reports have a parent that is not in the list. */
function addParents(seed: string, scenario: ExportScenario, crowd: Crowd | undefined): ExportScenario {
  const { input, settings, reports } = scenario;
  const rng = createRng(seed, `parents of ${settings.name}`);
  const count = rng.pick([1, 2, 3, 4]);
  const all = ['open', 'a/b & c', 'für später', 'closed'];
  const first = rng.integerBelow(all.length);
  const values = Array.from({ length: count }, (_, index) => all[(first + index) % all.length] ?? '');
  const others = values.slice(1).filter(() => rng.chance(0.7));
  const [most = ''] = values;
  const slices = { parallel: Math.min(rng.pick([1, 2, 3]), crowd?.maxConcurrentPages ?? 3) };
  const parents = { values };
  return {
    ...scenario,
    input: { ...input, slices, parents },
    settings: { ...settings, slices, parents },
    reports: { ...reports, parents: [most, ...others, 'not listed'] },
  };
}

/** Parents that no longer exist for a time, and one that fails. One of several may be gone, and all never. */
function addMissing(seed: string, scenario: ExportScenario, start: number, faultsEndAt: number): ExportScenario {
  const rng = createRng(seed, `missing parents of ${scenario.settings.name}`);
  const values = scenario.settings.parents?.values ?? [];
  const during = (untilEnd: number) => {
    const from = start + rng.between(0, faultsEndAt - start);
    return { from, until: Math.min(from + rng.between(10 * minute, 4 * hour), untilEnd) };
  };
  const missing: MissingParents[] = [];
  const last = values.slice(-1);
  if (values.length > 1 && rng.chance(0.6)) {
    missing.push({ kind: 'gone', parents: last, ...during(rng.chance(0.3) ? Number.POSITIVE_INFINITY : faultsEndAt) });
    missing.push({ kind: 'gone', parents: last, ...during(faultsEndAt) });
  }
  if (rng.chance(0.3)) missing.push({ kind: 'gone', parents: values, ...during(faultsEndAt) });
  if (rng.chance(0.4)) missing.push({ kind: 'failing', parents: [rng.pick(values)], ...during(faultsEndAt) });
  return { ...scenario, missingParents: missing };
}

/** The export whose reports are the parents. */
export const listName = 'parents';
const listedIds = ['open', 'a/b', 'f\u00fcr sp\u00e4ter', 'closed', 'e', 'f'];

/** A full list of parents, of which some are removed, for good or for a time. One may lack its ID for a time. */
function createParentList(
  seed: string,
  api: DescribedApi,
  scenario: ExportScenario,
  { start, faultsEndAt, counts }: Pick<Scenario, 'start' | 'faultsEndAt'> & { readonly counts: boolean },
): ExportScenario {
  const rng = createRng(seed, 'list of parents');
  const moment = () => Math.floor(start + rng.between(0, faultsEndAt - start));
  const listed = listedIds.slice(0, rng.pick([1, 2, 3, 4, 6])).flatMap((id, index): readonly ListedParent[] => {
    const isThere = index === 0 || rng.chance(0.8);
    const from = isThere ? Number.NEGATIVE_INFINITY : moment();
    if (rng.chance(0.4)) return [{ id, from, until: Number.POSITIVE_INFINITY }];
    const until = Math.max(from, moment());
    const again = Math.floor(until + rng.between(1, 120) * minute);
    const isBack = index === 0 || rng.chance(0.7);
    return [{ id, from, until }, ...(isBack ? [{ id, from: again, until: Number.POSITIVE_INFINITY }] : [])];
  });
  const from = moment();
  const bad = { id: '', from, until: Math.min(Math.floor(from + rng.between(1, 90) * minute), faultsEndAt) };
  const { size } = scenario.input;
  const request =
    api === 'link' ? { query: { size: '{size}' } } : { body: { format: 'ANY', container: 'NONE', size: '{size}' } };
  const input: ExportInput = {
    ...scenario.input,
    since: {},
    filter: {},
    size: size ?? scenario.service.pageSize,
    publishEmptyRuns: true,
    expect: undefined,
    api: { request },
  };
  return {
    ...scenario,
    input,
    settings: { ...exportSettingsSchema.parse(input), format: scenario.settings.format },
    // Counted reports must have IDs: the page without one stays, and a person has to start with --restart.
    reports: { ...scenario.reports, listed: rng.chance(0.3) && !counts ? [...listed, bad] : listed },
  };
}

/** The children of what is in the list. Most requests for a parent that is not are refused. */
function addExportedParents(
  seed: string,
  scenario: ExportScenario,
  {
    list,
    api,
    faultsEndAt,
  }: { readonly list: ExportScenario; readonly api: DescribedApi; readonly faultsEndAt: number },
): ExportScenario {
  const { input, settings, reports } = scenario;
  const rng = createRng(seed, `parents of ${settings.name}`);
  const slices = { parallel: rng.pick([1, 2, 3]) };
  const parents = { export: listName, id: api === 'json body' ? '/id' : '/@id' };
  const listed = (list.reports.listed ?? []).filter(({ id }) => id !== '');
  const ids = [...new Set(listed.map(({ id }) => id))];
  const [most = '', ...others] = ids;
  const gone = listed.flatMap(({ id, until }): readonly MissingParents[] => {
    const next = listed.find((other) => other.id === id && other.from >= until);
    const isRefused = Number.isFinite(until) && rng.chance(0.7);
    return isRefused
      ? [{ kind: 'gone', parents: [id], from: until, until: next?.from ?? Number.POSITIVE_INFINITY }]
      : [];
  });
  const from = faultsEndAt - rng.between(1, 4) * hour;
  const failing: readonly MissingParents[] = rng.chance(0.3)
    ? [{ kind: 'failing', parents: [rng.pick(ids)], from, until: faultsEndAt }]
    : [];
  return {
    ...scenario,
    input: { ...input, slices, parents },
    settings: { ...settings, slices, parents },
    reports: { ...reports, parents: [most, ...others, 'not listed'] },
    missingParents: [...gone, ...failing],
  };
}

const lengths = { PT17M: 17 * minute, PT30M: 30 * minute, PT1H: hour, PT3H: 3 * hour, PT7H: 7 * hour } as const;

/** Only some of the slices have a second page, so that cursors fail more often. */
function withCursorFaults(seed: string, rates: FaultRates): FaultRates {
  const rng = createRng(seed, 'cursors of slices');
  if (!rng.chance(0.4)) return rates;
  const kinds = ['cursor-rejected', 'cursor-repeated', 'cursor-cycle'] as const;
  return { ...rates, ...Object.fromEntries(kinds.map((kind) => [kind, rng.pick([rates[kind], 0.1, 0.3])])) };
}

/** An export with slices, a lag or neither, late or changing reports, and a service that may ignore upper bounds. */
function addSlices(
  seed: string,
  scenario: ExportScenario,
  start: number,
  pages: number,
  crowd: Crowd | undefined,
): ExportScenario {
  const { service, reports } = scenario;
  const rng = createRng(seed, `slices of ${scenario.settings.name}`);
  const parallel = rng.chance(0.85) ? rng.pick([1, 2, 2, 3, 4, 8]) : undefined;
  // Most slices are long, so that they have several pages.
  const length =
    parallel !== undefined && (parallel === 1 || rng.chance(0.7))
      ? rng.pick([...(Object.keys(lengths) as (keyof typeof lengths)[]), 'PT7H', 'PT7H', 'PT7H'] as const)
      : undefined;
  const { lookbackWindow, overlap } = scenario.settings.since;
  const lag = rng.pick([undefined, undefined, 'PT10M', lookbackWindow === 1_800_000 ? 'PT20M' : 'PT1H30M'] as const);
  const { lag: lagMs = 0 } = exportSettingsSchema.parse({ name: 'lag', since: lag && { lag } }).since;
  // A run from the beginning of time has one slice. Few enough slices for a short history, and no date that a wrong
  // clock takes for the future.
  const sinceMs = Math.min(rng.pick([5, 26, 26]) * hour, 24 * (length === undefined ? hour : lengths[length]));
  const initial =
    lookbackWindow === undefined && rng.chance(0.8)
      ? { initial: instantOf(Math.floor(start + Math.min(0, service.skewMs) - Math.max(sinceMs, 5 * hour))) }
      : {};
  const input: ExportInput = {
    ...scenario.input,
    since: { ...scenario.input.since, ...initial, ...(lag === undefined ? {} : { lag }) },
    slices: {
      ...(parallel === undefined ? {} : { parallel: Math.min(parallel, crowd?.maxConcurrentPages ?? parallel) }),
      ...(length === undefined ? {} : { length }),
    },
  };
  const maxBackdatingMs = lagMs === 0 ? reports.maxBackdatingMs : rng.pick([0, lagMs + (overlap ?? 0) - minute]);
  // Else most slices have one page.
  const isDense = rng.chance(0.6) && service.paddingBytes < 100_000;
  const backlog = isDense ? pages * service.pageSize : reports.backlog;
  return {
    ...scenario,
    input,
    settings: exportSettingsSchema.parse(input),
    service: {
      ...service,
      upperBounds: rng.pick([
        ...Array.from({ length: 7 }, () => 'honored' as const),
        'empty rejected',
        'ignored',
        'included',
      ]),
    },
    reports: { ...reports, backlog, maxBackdatingMs, redating: rng.chance(0.3) },
  };
}

function createDeployment(seed: string, crowd: Crowd | undefined, partBytes: number | undefined): DeploymentScenario {
  const rng = createRng(seed, 'deployment');
  const cursorIn = rng.pick(['query', 'body'] as const);
  const hasProxy = rng.chance(0.2);
  const apiKeyField = rng.pick(['', 'apiKey']);
  const kmsKeyArn = rng.chance(0.3) ? 'arn:aws:kms:us-east-1:123456789012:key/simulated' : undefined;
  // Regression seeds were found when two further settings were drawn here.
  rng.next();
  rng.next();
  return {
    hasUpperBound: false,
    cursorIn,
    maxConcurrentPages: crowd?.maxConcurrentPages,
    rate: drawRate(seed),
    hasProxy,
    apiKeyField,
    kmsKeyArn,
    compresses: createRng(seed, 'compression').chance(0.5),
    maxInFlight: rng.pick([undefined, undefined, 4]),
    partBytes,
  };
}

/** Its own generator, as everywhere. Slow enough to be felt, and fast enough for runs to end. */
function drawRate(seed: string): RateLimit | undefined {
  const rng = createRng(seed, 'rate');
  if (!rng.chance(0.33)) return undefined;
  return rng.pick([
    { requests: 20, perMs: minute, burst: 1 },
    { requests: 30, perMs: minute, burst: 10 },
    { requests: 300, perMs: hour, burst: 30 },
  ]);
}

/** Its own generator: what is added later must not change the rest of the scenario. */
function randomCrowd(seed: string): Crowd | undefined {
  const rng = createRng(seed, 'crowd');
  if (!rng.chance(0.08)) return undefined;
  return { exports: rng.pick([1, 2, 3, 5]), maxConcurrentPages: rng.pick([1, 1, 2, 4]) };
}

function createExportScenario(
  seed: string,
  name: string,
  pages: number,
  maxFunctionSkewMs: number,
  crowd: Crowd | undefined,
  label = name,
): ExportScenario {
  const rng = createRng(seed, `scenario of ${label}`);
  const pageSize = 1 + rng.integerBelow(3);
  const size = rng.chance(0.7) ? pageSize : undefined;
  const maxReports = 1 + rng.integerBelow(pages * pageSize);
  const overlap = rng.pick(['PT0S', 'PT0S', 'PT10M']);
  const lookbackWindow = rng.chance(0.15) ? { lookbackWindow: rng.pick(['PT30M', 'PT3H']) } : undefined;
  const initial = rng.chance(0.3) ? { initial: '2026-11-19T12:00:00Z' } : {};
  // Rarely, pages large enough for a multipart upload. Not as XML: checking them would take too long here.
  const hasLargePages = rng.chance(0.004);
  const format = hasLargePages || rng.chance(0.05) ? 'CSV' : 'XML';
  const hasDate = maxFunctionSkewMs > 0 || rng.chance(0.9);
  // Its own generator, as above. A last deployment no longer expects them, so that the export can complete.
  const expectRng = createRng(seed, `expected reports of ${label}`);
  const expectsReports = format === 'XML' && crowd === undefined && expectRng.chance(0.08);
  const input: ExportInput = {
    name,
    since: lookbackWindow ?? { ...initial, overlap },
    filter: rng.chance(0.3) ? { type: 'invoice', amount: { gt: 1.5 } } : {},
    format,
    ...(size === undefined ? {} : { size }),
    publishEmptyRuns: !createRng(seed, `empty runs of ${label}`).chance(0.3),
    ...(expectsReports ? { expect: { minReports: expectRng.pick([1, 2, 4]) } } : {}),
    iterationsPerExecution: rng.pick([1, 2, 3, 5, 150]),
    // Its own generator: what is added later must not change the rest of the scenario.
    pagesPerInvocation: createRng(seed, `pages per invocation of ${label}`).pick([1, 1, 2, 3, 25]),
    maxCursorRestarts: rng.integerBelow(3),
    // Far more than a run here needs, and few enough that one that never ends is noticed soon.
    maxPages: 1_000,
    maxRetryAfter: 'PT1H',
  };
  const intervalMs = crowd === undefined ? rng.pick([30 * minute, hour, hour]) : rng.pick([hour]);
  // A decision that is no longer drawn must not change the rest of the scenario.
  rng.next();
  return {
    input,
    settings: exportSettingsSchema.parse(input),
    intervalMs,
    service: {
      // Without a Date header the exporter uses its own clock, so the two clocks must agree.
      skewMs: hasDate ? Math.round(rng.pick([0, 0, -30_000, 30_000, 2 * hour, -2 * hour, 72 * hour])) : 0,
      hasDate,
      maxDateLagMs: rng.pick([0, 0, 0, 70 * minute]),
      singleUseCursors: createRng(seed, `single-use cursors of ${name}`).chance(0.15),
      snapshots: rng.chance(0.3),
      cursors: rng.chance(0.1) ? 'long' : 'contract',
      freshCursors: rng.chance(0.3),
      framing: format === 'XML' ? rng.pick(['length', 'chunked', 'none']) : rng.pick(['length', 'chunked']),
      compresses: createRng(seed, `compression of the service of ${name}`).chance(0.4),
      paddingBytes: hasLargePages ? 8_500_000 : rng.pick([0, 0, 1_000]),
      maxLatencyMs: Math.min(rng.pick([50, 900, 900, 20_000]), crowd === undefined ? Infinity : 2_000),
      pageSize,
      upperBounds: 'honored',
    },
    reports: {
      backlog: hasLargePages ? 3 : rng.integerBelow(maxReports + 1),
      arriving: hasLargePages ? 3 : rng.integerBelow(maxReports * 2 + 1),
      maxBackdatingMs: overlap === 'PT10M' && lookbackWindow === undefined ? rng.pick([0, 9 * minute]) : 0,
      changing: rng.chance(0.3),
      redating: false,
    },
  };
}

/** When an operator may do something: at any time within each period, or shortly after few starts. */
export function operatorMoments(
  { start, faultsEndAt, fewStarts, exports }: Pick<Scenario, 'start' | 'faultsEndAt' | 'fewStarts' | 'exports'>,
  { everyMs, withinMs }: { readonly everyMs: number; readonly withinMs: number },
): readonly { readonly name: string; readonly at: number; readonly withinMs: number }[] {
  const intervalMs = exports[0]?.intervalMs ?? hour;
  const moments =
    fewStarts === undefined
      ? Array.from({ length: Math.ceil((faultsEndAt - start) / everyMs) }, (_, index) => {
          const at = start + index * everyMs;
          return { name: String(Math.round((at - start) / minute)), at, withinMs };
        })
      : fewStarts.ticks.flatMap((tick) =>
          fewStarts.operatorDelaysMs.map((ms) => {
            const at = start + tick * intervalMs + ms;
            return { name: `${tick}-${ms / 1_000}s`, at, withinMs: 0 };
          }),
        );
  return moments.filter(({ at }) => at < faultsEndAt);
}
