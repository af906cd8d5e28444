/**
 * Computes what each start leads to, and what each run must contain, from the settings and from what operators did.
 * What matters is in no store: up to which date all reports are in completed runs.
 *
 * | of a run | what it must be |
 * |---|---|
 * | `since` | that of the start; else the end of what is exported, less the overlap; else `initial`, or a window ago |
 * | `until` | when it began less the lag, rounded down to what requests can say; none without a lag |
 * | no page | a later start begins another run, with the same `since` and a later `until` |
 * | completed | what it requested is exported. It counts if it leaves no gap after what was exported before |
 *
 * Clocks may be wrong, and several versions of the settings may be deployed: a moment is a range, and a run may follow
 * any version.
 */

import type { GivenExport } from '../../../lib/settings/settings.ts';
import type { ExecutionEvent } from '../step-functions/step-functions.ts';
import type { Process } from '../world/process.ts';
import type { World } from '../world/world.ts';
import {
  type ActiveRun,
  entriesOf,
  isBounded,
  type Observations,
  type ObservedExport,
  type StateItem,
} from './observations.ts';

export interface Oracle {
  /** Compares a state of an export, before it is stored, with what must become of its runs. */
  onState(observed: ObservedExport, state: StateItem, previous: StateItem | undefined): void;
  onEvent(event: ExecutionEvent, exportName: string): void;
  /** At the end, all is exported up to the last start. */
  checkEnd(observed: ObservedExport, lastStartAt: number): void;
}

interface StartInput {
  readonly since?: string;
  readonly scheduledTime?: string;
  readonly restart?: boolean;
  readonly continues?: string;
}

type Range = readonly [earliest: number, latest: number];

/** The oracle's knowledge of an export. */
interface Ledger {
  /** Everything dated before this is in completed runs, from where the first one began; undefined before it. */
  exportedUntil: number | undefined;
  /** When the first start of an export with a lookback window was, until a run has exported its window. */
  firstStart: Range | undefined;
  /** When the first invocation that can have begun the active run began. */
  begunAfter: number;
}

const minute = 60_000;
/** A `Date` has whole seconds, and the latency of its response is subtracted from it. */
const dateSlackMs = 5_000;
/** By how much more a first page may seem to be requested too early, because its response was slow on its way. */
const maxLatencyMs: Readonly<Record<string, number>> = { 'request-slow': 4 * minute, 'process-frozen': 45 * minute };
const never = Number.POSITIVE_INFINITY;

export function createOracle(observations: Observations, maxClockErrorMs: number): Oracle {
  const { world, writer, dateUnitMs } = observations;
  /** Runs with a lag end at multiples of it. */
  const stepMs = Math.max(minute, dateUnitMs);
  const ledgers = new Map<string, Ledger>();
  const ledgerOf = ({ name }: Pick<ObservedExport, 'name'>): Ledger => {
    const ledger = ledgers.get(name) ?? { exportedUntil: undefined, firstStart: undefined, begunAfter: 0 };
    ledgers.set(name, ledger);
    return ledger;
  };
  const hasPages = (name: string, { run }: ActiveRun) => entriesOf(observations, name, run).length > 0;
  const endOf = (now: number, lagMs: number) => Math.floor((now - lagMs) / stepMs) * stepMs;

  /** Where a run begins that nothing but these settings and the runs before decide. `now`: when its window ends. */
  function sinceOf(policy: Policy, now: Range, { exportedUntil, firstStart }: Ledger): Range {
    const { initialMs, overlapMs, windowMs } = policy;
    if (windowMs === undefined) {
      const since = exportedUntil === undefined ? initialMs : Math.max(0, exportedUntil - overlapMs);
      return [since, since];
    }
    const window = (ms: number, firstMs = never) =>
      Math.max(0, Math.min(ms - windowMs, exportedUntil ?? firstMs - windowMs));
    return [window(now[0], firstStart?.[0]), window(now[1], firstStart?.[1])];
  }

  function checkBegin(
    observed: ObservedExport,
    input: StartInput,
    run: ActiveRun,
    replaced: ActiveRun | undefined,
  ): void {
    const { name } = observed;
    const ledger = ledgerOf(observed);
    const clock = clockRange(writer(), world);
    const now = input.scheduledTime === undefined ? clock : exactly(Date.parse(input.scheduledTime));
    // What is exported belongs to a request. A version that requests something else begins from the start.
    const isOther = observed.requestMark(writer().id) !== undefined;
    const known = isOther ? { ...ledger, exportedUntil: undefined } : ledger;
    const mayKeep = replaced !== undefined && input.since === undefined && input.restart !== true;
    const policies = observed.versions.map(policyOf);
    const expected =
      input.since === undefined
        ? policies.map((policy) => sinceOf(policy, now, known))
        : [exactly(Date.parse(input.since))];
    if (mayKeep) expected.push(exactly(Date.parse(replaced.since)));
    const since = Date.parse(run.since);
    if (!expected.some(([earliest, latest]) => since >= earliest && since <= latest)) {
      const ranges = expected.map((range) => range.map(instant).join(' to ')).join(', or ');
      world.violate(
        'a run begins where its start says',
        `${name}: ${run.run} begins at ${run.since} instead of ${ranges}`,
      );
    }
    const isEndOf = ({ lagMs }: Policy) => lagMs === run.lagMs;
    const until = run.lagMs === 0 ? undefined : endOf(Date.parse(run.startedAt), run.lagMs);
    if ((run.until && Date.parse(run.until)) !== until || !policies.some(isEndOf)) {
      world.violate(
        'a run ends where its start says',
        `${name}: ${run.run} ends at ${run.until} instead of ${instant(until)}`,
      );
    }
    ledger.begunAfter = writer().startedAt;
    // An operator who names a `since` says what is wanted.
    const hasWindow = policies.some(({ windowMs }) => windowMs !== undefined);
    if (hasWindow && input.since === undefined && known.exportedUntil === undefined) {
      ledger.firstStart ??= [Math.min(clock[0], now[0]), Math.min(clock[1], now[1])];
    }
  }

  /** Whether the run counts: it began where the next one would have begun, or before. */
  function counts(
    { initialMs, overlapMs, windowMs }: Policy,
    since: number,
    { exportedUntil, firstStart }: Ledger,
    asOf: 0 | 1,
  ): boolean {
    if (exportedUntil !== undefined) return since <= Math.max(0, exportedUntil - overlapMs);
    if (windowMs !== undefined) return firstStart === undefined || since <= Math.max(0, firstStart[asOf] - windowMs);
    // Without `initial`, an operator may say where the first run begins.
    return initialMs === 0 || since <= initialMs;
  }

  function checkCompletion(observed: ObservedExport, run: ActiveRun, { watermark }: StateItem): void {
    const { name, service, scenario } = observed;
    const ledger = ledgerOf(observed);
    const since = Date.parse(run.since);
    const until = run.until === undefined ? never : Date.parse(run.until);
    const { maxDateLagMs, skewMs } = scenario.service;
    // The first request of a list whose pages are counted looks like any other.
    const first = service.jobs === undefined ? 'first page' : 'new job';
    const isFirst = (site: string) => site.includes(service.counts ? '/service ' : `/service ${first}`);
    const delays = world.injectedFaults.map(({ kind, site }) => (isFirst(site) ? (maxLatencyMs[kind] ?? 0) : 0));
    // The earlier one of both clocks counts, so a wrong `Date` can only be too early.
    const hasWrongDate = world.injectedFaults.some(({ kind }) => kind === 'wrong-date');
    const begunAt = Math.min(
      Date.parse(run.startedAt),
      ledger.begunAfter + Math.min(0, skewMs) - maxDateLagMs - maxClockErrorMs,
    );
    const now = Math.max(service.now(), world.time.now() + maxClockErrorMs);
    // With a slow clock, a first run may seem to end before it begins.
    const least = Math.max(
      ledger.exportedUntil ?? -never,
      hasWrongDate ? -never : Math.min(until, begunAt - dateSlackMs - Math.max(0, ...delays) - run.lagMs),
    );
    const most = Math.max(ledger.exportedUntil ?? since, Math.min(until, now - run.lagMs));
    const actual = watermark === undefined ? undefined : Date.parse(watermark.instant);
    const answers = new Set(
      observed.versions.flatMap((version) =>
        ([0, 1] as const).map((asOf) => counts(policyOf(version), since, ledger, asOf)),
      ),
    );
    const moves = actual !== undefined && actual >= least && actual <= most;
    const stays = actual === ledger.exportedUntil;
    if (!(answers.has(true) && moves) && !(answers.has(false) && stays)) {
      const expected = answers.has(true)
        ? `from ${instant(least)} to ${instant(most)}`
        : `${instant(ledger.exportedUntil)}: the run leaves a gap`;
      world.violate(
        'the watermark is where the exported dates end',
        `${name}: after ${run.run}, it is ${instant(actual)}, not ${expected}`,
      );
    }
    if (actual === ledger.exportedUntil) return;
    ledger.exportedUntil = actual;
    ledger.firstStart = undefined;
  }

  /** Another pass is resumed without a page, too: the one before would be in vain. And so is a run with jobs. */
  const isResumed = ({ execution, passes }: ActiveRun, before: ActiveRun): boolean =>
    execution !== before.execution && passes === undefined;

  return {
    onState(observed, state, previous) {
      const { step, payload } = writer();
      const { service } = observed;
      const input = (payload.input ?? {}) as StartInput;
      const [before, run] = [previous?.active, state.active];
      // Nothing of a run that was abandoned counts.
      const isCompleted =
        before !== undefined && run?.run !== before.run && state.lastCompleted?.result.run === before.run;
      if (isCompleted) checkCompletion(observed, before, state);
      if (run === undefined) return;
      if (step !== 'BeginRun') {
        // It starts over, because its cursor was rejected.
        if (before !== undefined && (run.since !== before.since || run.until !== before.until)) {
          world.violate(
            'a run begins where its start says',
            `${observed.name}: ${run.run} has other bounds than ${before.run}, which it replaces`,
          );
        }
      } else if (run.run !== before?.run) checkBegin(observed, input, run, before);
      else if (
        service.jobs === undefined &&
        isResumed(run, before) &&
        input.continues === undefined &&
        !hasPages(observed.name, run)
      ) {
        world.violate(
          'a run without a page is replaced',
          `${observed.name}: ${run.run} has no page, and is resumed with its old bounds`,
        );
      }
    },

    onEvent(event, exportName) {
      const { execution } = event;
      const observed = observations.exports.get(exportName);
      if (event.type !== 'entered' || event.state !== 'HasWork' || isBounded(execution.input)) return;
      const { next, reason = '' } = event.data as { readonly next: string; readonly reason?: string };
      if (next !== 'skip' || observed === undefined || !/nothing to export/.test(reason)) return;
      const { since, scheduledTime } = execution.input as StartInput;
      const now: Range =
        scheduledTime === undefined ? exactly(world.time.now() + maxClockErrorMs) : exactly(Date.parse(scheduledTime));
      const isDue = observed.versions.map(policyOf).every((policy) => {
        const [, latest] = since === undefined ? sinceOf(policy, now, ledgerOf(observed)) : exactly(Date.parse(since));
        return latest < endOf(execution.startedAt - maxClockErrorMs, policy.lagMs) || policy.lagMs === 0;
      });
      if (isDue) {
        world.violate(
          'a start exports nothing only if nothing is due',
          `${exportName}: ${execution.name} exports nothing, although reports are to be exported`,
        );
      }
    },

    checkEnd(observed, lastStartAt) {
      if (world.violation() !== undefined) return;
      const { name, scenario, service, versions } = observed;
      const { exportedUntil } = ledgerOf(observed);
      const { skewMs, maxDateLagMs } = scenario.service;
      const lagMs = Math.max(...versions.map((version) => policyOf(version).lagMs));
      const latest = lastStartAt - scenario.intervalMs - lagMs + Math.min(0, skewMs) - maxDateLagMs - maxClockErrorMs;
      const due = Math.floor(latest / service.dateUnitMs) * service.dateUnitMs - minute;
      if (exportedUntil !== undefined && exportedUntil >= due) return;
      world.violate(
        'what settings and operators ask for is exported',
        `${name} is exported up to ${instant(exportedUntil)}, and could be up to ${instant(due)}`,
      );
    },
  };
}

type Policy = ReturnType<typeof policyOf>;

/** How far before the end of what is exported the next run begins, and where the first one does. */
function policyOf({ since: { initial, overlap = 0, lookbackWindow, lag = 0 } }: Pick<GivenExport, 'since'>) {
  return {
    initialMs: initial === undefined ? 0 : Date.parse(initial),
    overlapMs: Number(overlap),
    windowMs: lookbackWindow === undefined ? undefined : Number(lookbackWindow),
    lagMs: Number(lag),
  };
}

const exactly = (ms: number): Range => [ms, ms];

/** What the clock of the process can have been since its start. It may have been set meanwhile, also twice. */
function clockRange({ startedAt, clockOffsets }: Process, { time }: World): Range {
  return [startedAt + Math.min(...clockOffsets) - 1, time.now() + Math.max(...clockOffsets) + 1];
}

const instant = (ms: number | undefined): string =>
  ms === undefined || !Number.isFinite(ms) ? 'none' : new Date(ms).toISOString();
