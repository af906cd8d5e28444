/**
 * Bounded runs: an operator names both bounds, for example of a year in the past, or the run whose reports are the
 * parents. Such a run has a state of its own, whose name says what was named, so that scheduled runs continue beside
 * it. It moves no watermark.
 */

import { ExportError } from './errors.ts';
import { selectionOf, selectsSame } from './filter.ts';
import {
  type Bounds,
  type ExportDefinition,
  type ExportRequest,
  type ExportState,
  type Instant,
  type RequestDates,
  type Run,
  type RunId,
  runIdPattern,
} from './model.ts';
import type { PageLog } from './ports.ts';
import { listNames, truncate } from './sanitize.ts';
import { minSliceMs } from './slices.ts';
import { instantAt, repeatedPeriodAt, startOfUnit, utcZone, wallClockOf } from './time/time-zones.ts';
import { epochMsOf, instantOf, instantSchema } from './timestamps.ts';

/**
 * The name of the state of a bounded run: `nightly/2020-01-01T00:00:00Z/2021-01-01T00:00:00Z`. The name of an export
 * has no slash. Inputs of steps name the run like this, too.
 */
export const boundedStateName = (exportName: string, { since, until }: Bounds): string =>
  `${exportName}/${since}/${until}`;

/** The name of the state of the run with the children of one run: `issues/parents/20261120T020000Z-1f3a5cb2d407`. */
const childrenStateName = (exportName: string, run: RunId): string => `${exportName}/parents/${run}`;

/** The beginning of the names of all states of bounded runs of the export, and of no other name. */
export const boundedStatePrefix = (exportName: string): string => `${exportName}/`;

/** Whose state it is: of a bounded run, if it has bounds or the run of the parents; else of the regular runs. */
interface NamedState {
  readonly export: string;
  readonly bounds?: Bounds;
  readonly parentRun?: RunId;
}

/** What the name of a state says. A name that no state has is taken for that of an export. */
export function parseStateName(name: string): NamedState {
  const [exportName = '', ...texts] = name.split('/');
  const [, run = ''] = texts;
  if (runIdPattern.test(run) && childrenStateName(exportName, run as RunId) === name) {
    return { export: exportName, parentRun: run as RunId };
  }
  const [since, until] = texts.map((text) => instantSchema.safeParse(text).data);
  if (since === undefined || until === undefined || epochMsOf(since) >= epochMsOf(until)) return { export: name };
  const bounds = { since, until };
  // Each run has one name: another spelling would be another state.
  return boundedStateName(exportName, bounds) === name ? { export: exportName, bounds } : { export: name };
}

export const stateNameOfRun = ({
  export: exportName,
  since,
  until,
  bounded,
  parents,
}: Pick<Run, 'export' | 'since' | 'until' | 'bounded' | 'parents'>): string => {
  if (parents?.isNamed && parents.run !== undefined) return childrenStateName(exportName, parents.run);
  return bounded && until ? boundedStateName(exportName, { since, until }) : exportName;
};

/** Whether it is the definition of a bounded run. */
export const isBounded = ({ name, stateName }: Pick<ExportDefinition, 'name' | 'stateName'>): boolean =>
  name !== stateName;

/** The definition of a bounded run of the export. `expect` and `maxPages` apply only to regular runs. */
function boundedDefinition(
  definition: ExportDefinition,
  changes: Pick<ExportDefinition, 'stateName'> & Partial<ExportDefinition>,
): ExportDefinition {
  const { maxPages: _, ...limits } = definition.limits;
  return { ...definition, ...changes, expect: undefined, limits };
}

const definitionOfBounds = (definition: ExportDefinition, bounds: Bounds): ExportDefinition =>
  boundedDefinition(definition, { stateName: boundedStateName(definition.name, bounds), bounds });

/** The definition of the run with the children of one run of the export of the parents. */
function definitionOfChildren(definition: ExportDefinition, run: RunId): ExportDefinition {
  const { name, parents } = definition;
  if (parents === undefined || !('export' in parents)) {
    throw invalid([`parents: export ${name} has no parents that are reports of another export`]);
  }
  return boundedDefinition(definition, { stateName: childrenStateName(name, run), parents: { ...parents, run } });
}

/** The definition of the runs whose state has this name; undefined if they are not of the export. */
export function definitionOfState(definition: ExportDefinition, stateName: string): ExportDefinition | undefined {
  if (stateName === definition.stateName) return definition;
  const { export: name, bounds, parentRun } = parseStateName(stateName);
  if (name !== definition.name) return undefined;
  if (parentRun !== undefined) return definitionOfChildren(definition, parentRun);
  return bounds && definitionOfBounds(definition, bounds);
}

/** The bounds that a start names, or the run whose reports are the parents. */
interface NamedRun extends Partial<Bounds> {
  readonly parents?: string | undefined;
}

/**
 * The definition of the run that a start begins or resumes: of a bounded run, if the start names two bounds, or the run
 * of the parents.
 * @throws ConfigurationError if the parents are not reports of another export
 */
export function definitionOfStart(definition: ExportDefinition, { since, until, parents }: NamedRun): ExportDefinition {
  if (isBounded(definition)) return definition;
  if (parents !== undefined) return definitionOfChildren(definition, parents as RunId);
  return since !== undefined && until !== undefined ? definitionOfBounds(definition, { since, until }) : definition;
}

type BoundableDefinition = Pick<ExportDefinition, 'name' | 'dates' | 'lagMs' | 'slicing' | 'parents'>;

/** The bounds and slices that a start names. `slice` is in milliseconds. */
interface NamedBounds extends Partial<Bounds> {
  readonly slice?: number | undefined;
  readonly parallel?: number | undefined;
  readonly skipParent?: readonly string[] | undefined;
}

/**
 * Checks what a start says about bounds and slices. Fields are named as the start input has them.
 * @throws ConfigurationError that names every problem
 */
export function assertBoundable(definition: BoundableDefinition, start: NamedBounds, now: number): void {
  const { since, until, slice, parallel = 1 } = start;
  if (until !== undefined) assertHasBounds(definition, 'runs with an upper bound');
  else if (definition.parents === undefined && (slice !== undefined || parallel > 1))
    assertHasBounds(definition, 'slices');
  const dates = until === undefined ? { slice } : { since, until, slice };
  const problems = [
    ...Object.entries(dates).flatMap(([field, value]) => {
      const problem = value === undefined ? undefined : findDateProblem(definition.dates, value);
      return problem === undefined ? [] : [`${field}: ${problem}`];
    }),
    ...(definition.parents !== undefined && slice !== undefined ? [noSliceOfParents] : []),
    ...problemsOfParallel(definition, parallel),
    ...problemsOfSkipped(definition, start.skipParent),
    ...(until === undefined ? [] : problemsOfEnd(definition, { since, until }, now)),
  ];
  if (problems.length > 0) throw invalid(problems);
}

const noSliceOfParents = 'slice: has no meaning for an export with parents, each of which is a slice';

function problemsOfParallel({ slicing }: BoundableDefinition, parallel: number): readonly string[] {
  const { maxConcurrentPages } = slicing;
  if (maxConcurrentPages === undefined || parallel <= maxConcurrentPages) return [];
  const limit = `must be at most ${maxConcurrentPages}, the maxConcurrentPages of the service`;
  return [`parallel: ${limit}: more are never requested at the same time`];
}

function problemsOfSkipped({ parents }: BoundableDefinition, skipped: readonly string[] = []): readonly string[] {
  if (skipped.length > 0 && parents === undefined) return ['skipParent: the export has no parents'];
  // Which reports another export has is known only to the plan of the run.
  const values = parents !== undefined && 'values' in parents ? parents.values : skipped;
  const unknown = skipped.filter((value) => !values.includes(value));
  return unknown.map(
    (value) =>
      `skipParent: the export has no parent ${JSON.stringify(truncate(value, 150))}. It has ${truncate(listNames(values), 300)}`,
  );
}

function problemsOfEnd(
  { lagMs }: BoundableDefinition,
  { since, until }: { readonly since: Instant | undefined; readonly until: Instant },
  now: number,
): readonly string[] {
  const end = epochMsOf(until);
  const latest = now - lagMs;
  const moment = lagMs === 0 ? 'now' : 'now less the lag of the export';
  const late = `until: must not be after ${instantOf(latest)}, which is ${moment}: later reports would never be exported`;
  return [
    ...(since !== undefined && epochMsOf(since) >= end ? ['until: must be after since'] : []),
    ...(end > latest ? [late] : []),
  ];
}

/** @throws ConfigurationError if requests cannot exclude exactly the reports from a date on, as `wanted` requires */
function assertHasBounds({ name, dates }: BoundableDefinition, wanted: string): void {
  const { upperBound, zone } = dates;
  if (upperBound === undefined) {
    throw invalid([
      `Export ${name} cannot have ${wanted}: its requests do not exclude reports from a date on. Set filterUntil of the service ` +
        'in the settings file, or use {until} in its api',
    ]);
  }
  if (zone === undefined) {
    throw invalid([
      `Export ${name} cannot have ${wanted}: it is not known in which time zone the API reads dates, so that reports would be in ` +
        'two of them. Set dates.zone in its api',
    ]);
  }
}

/**
 * The problem of a bound, or of a length in milliseconds, that requests would round; undefined if they can express it.
 */
export function findDateProblem(dates: RequestDates, value: Instant | number): string | undefined {
  const { unitMs, zone = utcZone } = dates;
  if (typeof value === 'number') {
    const isMultiple = value % unitMs === 0 && (zone === utcZone || value % minSliceMs(dates) === 0);
    return isMultiple ? undefined : wholeUnits(minSliceMs(dates), '');
  }
  if (wallClockOf(epochMsOf(value), zone) % unitMs !== 0) {
    const before = instantOf(startOfUnit(epochMsOf(value), unitMs, zone));
    return wholeUnits(unitMs, ` (${zone}), such as ${before}`);
  }
  // Requests have the begin or the end of such a period instead.
  const repeated = repeatedPeriodAt(epochMsOf(value), zone);
  if (repeated === undefined) return undefined;
  const [begin, end] = [repeated.begin, repeated.end].map((wallMs) => instantOf(instantAt(wallMs, zone)));
  return `the clocks of ${zone} show this time twice, so requests cannot have it as a bound. Choose ${begin} or ${end}`;
}

const unitNames: readonly (readonly [unitMs: number, name: string])[] = [
  [86_400_000, 'days'],
  [3_600_000, 'hours'],
  [60_000, 'minutes'],
];

function wholeUnits(unitMs: number, example: string): string {
  const [, name = 'seconds'] = unitNames.find(([ms]) => ms <= unitMs) ?? [];
  return `must be in whole ${name}${example}: requests have no finer dates, so slices or runs would overlap`;
}

/** The completed run of this state, if `request` selects the same reports. */
const completedWith = ({ lastCompleted }: ExportState, request: ExportRequest): ExportState['lastCompleted'] =>
  lastCompleted && selectsSame(lastCompleted.selection, request) ? lastCompleted : undefined;

/** The run that has exported the bounds of this state with the same selection; undefined if none has. */
export const exportedBy = (state: ExportState, request: ExportRequest): ExportState['lastCompleted'] =>
  state.active === undefined ? completedWith(state, request) : undefined;

/**
 * Makes sure that no report is in two runs. A run that was abandoned has exported nothing, and a run with another
 * selection has other reports. `own` are the names of the states that may overlap.
 * @throws ConfigurationError if a bounded run of the export overlaps `bounds`
 */
export async function assertNoOverlap(
  log: Pick<PageLog, 'boundedStates'>,
  { name, request }: Pick<ExportDefinition, 'name' | 'request'>,
  bounds: Bounds,
  own: ReadonlySet<string>,
): Promise<void> {
  for await (const state of log.boundedStates(name)) {
    const other = parseStateName(state.export).bounds;
    if (other === undefined || own.has(state.export) || !overlaps(bounds, other)) continue;
    const { active } = state;
    const isUnfinished = active !== undefined && selectsSame(selectionOf(active.request), request);
    const run = isUnfinished ? active.run : completedWith(state, request)?.result.run;
    if (run === undefined) continue;
    const remedy = isUnfinished
      ? 'Start with its bounds to complete it, or abandon it. Or choose bounds beside it, or start with --again'
      : 'Choose bounds beside it, or start with --again to export them again';
    throw new ExportError(
      'ConfigurationError',
      `The bounds overlap the bounded run ${run} of export ${name}, from ${other.since} to ${other.until}` +
        `${isUnfinished ? ', which is unfinished' : ''}, so reports would be in two runs. ${remedy}`,
    );
  }
}

/** Half-open intervals that touch do not overlap. */
const overlaps = (one: Bounds, other: Bounds): boolean =>
  epochMsOf(one.since) < epochMsOf(other.until) && epochMsOf(other.since) < epochMsOf(one.until);

const invalid = (problems: readonly string[]): ExportError =>
  new ExportError('ConfigurationError', problems.join('; '));
