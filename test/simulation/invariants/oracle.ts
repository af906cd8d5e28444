/**
 * Computes what each run of an export must contain from its settings and from what operators did, and compares it with
 * the runs that began and completed. What matters is in no store: up to which date all reports are in completed runs.
 *
 * | of a run | what it must be |
 * |---|---|
 * | `since` | that of the start; else the end of what is exported, less the overlap; else `initial`, or a window ago |
 * | `until` | when it began less the lag, rounded down to what requests can say; none without a lag |
 * | no page | a later start begins another run, with the same `since` and a later `until` |
 * | completed | what it requested is exported. It counts if it leaves no gap after what was exported before |
 *
 * Clocks are right, within what a `Date` says.
 */

import type { ExecutionEvent } from '../step-functions/step-functions.ts';
import type { SimulatedReport } from '../world/reports.ts';
import {
  type ActiveRun,
  type Bounds,
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
  checkEnd(observed: ObservedExport, lastStartAt: number, published: ReadonlySet<SimulatedReport>): void;
}

interface StartInput {
  readonly since?: string;
  readonly scheduledTime?: string;
  readonly restart?: boolean;
  readonly continues?: string;
}

/** The oracle's knowledge of an export. */
interface Ledger {
  /** Everything dated from `since` to `until` is in completed runs; undefined before the first one that counts. */
  exported: Bounds | undefined;
  /** Where the lookback window of the first start began, until a run has exported it. */
  owedSince: number | undefined;
}

const minute = 60_000;
/** A `Date` has whole seconds, and the latency of its response is subtracted from it. */
const dateSlackMs = 5_000;
const never = Number.POSITIVE_INFINITY;

export function createOracle(observations: Observations): Oracle {
  const { world, writer, dateUnitMs: unitMs } = observations;
  const ledgers = new Map<string, Ledger>();
  const ledgerOf = ({ name }: Pick<ObservedExport, 'name'>): Ledger => {
    const ledger = ledgers.get(name) ?? { exported: undefined, owedSince: undefined };
    ledgers.set(name, ledger);
    return ledger;
  };
  /** How far before `exported.until` the next run begins, and where the first one does. */
  const policyOf = ({ scenario }: ObservedExport) => {
    const { initial, overlap = 0, lookbackWindow, lag = 0 } = scenario.settings.since;
    return {
      initialMs: initial === undefined ? 0 : Date.parse(initial),
      overlapMs: Number(overlap),
      windowMs: lookbackWindow === undefined ? undefined : Number(lookbackWindow),
      lagMs: Number(lag),
    };
  };

  /** Where a new run begins that nothing but the settings and the runs before decide. `now`: when its window ends. */
  function sinceOfSettings(observed: ObservedExport, now: number): number {
    const { initialMs, overlapMs, windowMs } = policyOf(observed);
    const { exported, owedSince = never } = ledgerOf(observed);
    if (windowMs !== undefined) return Math.max(0, Math.min(now - windowMs, exported?.until ?? owedSince));
    return exported === undefined ? initialMs : Math.max(0, exported.until - overlapMs);
  }

  function checkBegin(
    observed: ObservedExport,
    input: StartInput,
    run: ActiveRun,
    replaced: ActiveRun | undefined,
  ): void {
    const { name } = observed;
    const begunAt = Date.parse(run.startedAt);
    const isKept = replaced !== undefined && !hasPages(name, replaced) && input.since === undefined && !input.restart;
    const now = input.scheduledTime === undefined ? begunAt : Date.parse(input.scheduledTime);
    const since = input.since ?? (isKept ? replaced.since : instant(sinceOfSettings(observed, now)));
    if (Date.parse(run.since) !== Date.parse(since)) {
      world.violate(
        'a run has the bounds that follow from settings and operators',
        `${name}: ${run.run} begins at ${run.since}, and everything since ${since} is to be exported`,
      );
    }
    noteWindow(observed, input, Math.min(begunAt, now));
    const until = untilOf(observed, begunAt);
    if ((run.until === undefined ? never : Date.parse(run.until)) !== until) {
      world.violate(
        'a run has the bounds that follow from settings and operators',
        `${name}: ${run.run} ends at ${run.until}, and could end at ${instant(until)}`,
      );
    }
  }

  /** An operator who names a `since` says what is wanted. */
  function noteWindow(observed: ObservedExport, input: StartInput, end: number): void {
    const ledger = ledgerOf(observed);
    const { windowMs } = policyOf(observed);
    if (windowMs === undefined || input.since !== undefined || ledger.exported !== undefined) return;
    ledger.owedSince ??= end - windowMs;
  }

  const hasPages = (name: string, { run }: ActiveRun) => entriesOf(observations, name, run).length > 0;

  function untilOf(observed: ObservedExport, now: number): number {
    const { lagMs } = policyOf(observed);
    const step = Math.max(minute, unitMs);
    return lagMs === 0 ? never : Math.floor((now - lagMs) / step) * step;
  }

  /** A run counts if it began where the next one would have begun, or before. */
  function checkCompletion(observed: ObservedExport, run: ActiveRun, { watermark }: StateItem): void {
    const { name } = observed;
    const { initialMs, overlapMs, windowMs, lagMs } = policyOf(observed);
    const ledger = ledgerOf(observed);
    const { exported, owedSince } = ledger;
    const since = Date.parse(run.since);
    const isFirst = exported === undefined;
    // Without `initial`, an operator may say where the first run begins.
    const first = windowMs === undefined && initialMs > 0 ? initialMs : (owedSince ?? since);
    const counts = since <= (isFirst ? first : Math.max(0, exported.until - overlapMs));
    const before = exported?.until ?? since;
    const until = run.until === undefined ? never : Date.parse(run.until);
    const least = Math.max(before, Math.min(until, Date.parse(run.startedAt) - dateSlackMs - lagMs));
    const most = Math.max(before, Math.min(until, world.time.now() - lagMs));
    const actual = watermark === undefined ? undefined : Date.parse(watermark.instant);
    if (!counts && actual !== exported?.until) {
      world.violate(
        'the watermark is where the exported dates end',
        `${name}: ${run.run} leaves a gap, but the watermark moves from ${instant(exported?.until)} to ${instant(actual)}`,
      );
    }
    if (counts && !(actual !== undefined && actual >= least && actual <= most)) {
      world.violate(
        'the watermark is where the exported dates end',
        `${name}: after ${run.run}, the watermark is ${instant(actual)}, not from ${instant(least)} to ${instant(most)}`,
      );
    }
    if (!counts) return;
    ledger.exported = { since: Math.min(since, exported?.since ?? never), until: actual ?? least };
    ledger.owedSince = undefined;
  }

  return {
    onState(observed, state, previous) {
      const { step, payload } = writer();
      const input = (payload.input ?? {}) as StartInput;
      const [before, run] = [previous?.active, state.active];
      if (before !== undefined && run?.run !== before.run) {
        // Nothing of a run that was abandoned counts.
        if (state.lastCompleted?.result.run === before.run) checkCompletion(observed, before, state);
      }
      if (run === undefined || step !== 'BeginRun') {
        // It starts over, because its cursor was rejected.
        if (run !== undefined && before !== undefined && (run.since !== before.since || run.until !== before.until)) {
          world.violate(
            'a run has the bounds that follow from settings and operators',
            `${observed.name}: ${run.run} has other bounds than ${before.run}, which it replaces`,
          );
        }
        return;
      }
      if (run.run !== before?.run) checkBegin(observed, input, run, before);
      else if (run.execution !== before.execution && input.continues === undefined && !hasPages(observed.name, run)) {
        world.violate(
          'a run without a page is replaced',
          `${observed.name}: ${run.run} has no page, and is resumed with its old bounds`,
        );
      }
    },

    onEvent(event, exportName) {
      const { execution } = event;
      if (event.type !== 'entered' || event.state !== 'HasWork' || isBounded(execution.input)) return;
      const { next, reason = '' } = event.data as { readonly next: string; readonly reason?: string };
      const observed = observations.exports.get(exportName);
      if (next !== 'skip' || observed === undefined || !/nothing to export/.test(reason)) return;
      const { since, scheduledTime } = execution.input as StartInput;
      const { windowMs, initialMs } = policyOf(observed);
      const { exported } = ledgerOf(observed);
      const begins =
        since === undefined
          ? sinceOfSettings(observed, scheduledTime === undefined ? world.time.now() : Date.parse(scheduledTime))
          : Date.parse(since);
      // All that could be exported has been; or it is not wanted, as an operator or `initial` says.
      const until = untilOf(observed, execution.startedAt);
      const isExported = exported !== undefined && exported.until >= until;
      const isUnwanted = since !== undefined || (windowMs === undefined && initialMs > 0 && exported === undefined);
      if (!(isExported || isUnwanted) || begins < until) {
        world.violate(
          'a start exports nothing only if nothing is due',
          `${exportName}: ${execution.name} exports nothing, although reports since ${instant(begins)} are to be exported`,
        );
      }
    },

    checkEnd(observed, lastStartAt, published) {
      if (world.violation() !== undefined) return;
      const { name, scenario, timeline } = observed;
      const { exported } = ledgerOf(observed);
      const { initialMs, windowMs, lagMs } = policyOf(observed);
      const due = Math.floor((lastStartAt - scenario.intervalMs - lagMs) / unitMs) * unitMs - minute;
      if (exported === undefined || exported.until < due) {
        world.violate(
          'what settings and operators ask for is exported',
          `${name} is exported up to ${instant(exported?.until)}, and could be up to ${instant(due)}`,
        );
        return;
      }
      const from = windowMs === undefined && initialMs > 0 ? Math.min(initialMs, exported.since) : exported.since;
      const missed = timeline.reports.filter(
        (report) => report.date >= from && report.date < exported.until && !published.has(report),
      );
      if (missed.length > 0)
        world.violate(
          'what settings and operators ask for is exported',
          `${name} lacks ${missed.map(({ id }) => id).join(', ')} since ${instant(from)}`,
        );
    },
  };
}

const instant = (ms: number | undefined): string =>
  ms === undefined || !Number.isFinite(ms) ? 'none' : new Date(ms).toISOString();
