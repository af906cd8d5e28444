/** Asks the service for empty intervals, as a run with an upper bound does, and stores nothing. */

import { findDateProblem } from '../../core/bounded-runs.ts';
import { isExportError } from '../../core/errors.ts';
import type { RootCheck } from '../../core/document-root.ts';
import type { Instant, Run } from '../../core/model.ts';
import type { ReportService, Runtime } from '../../core/ports.ts';
import { needsProofOfBounds, proveBounds } from '../../core/steps/upper-bound.ts';
import { epochMsOf, instantOf } from '../../core/timestamps.ts';
import { probePage } from '../../service/client/probe-service.ts';
import { isOutage } from '../run-view.ts';
import type { PlannedRun } from '../plan-run.ts';
import type { ExportTarget } from '../target.ts';

export interface BoundsProof {
  /** Whether a page without reports, as a night without reports has it, is a page by the description. */
  readonly quiet: 'accepted' | 'refused' | 'not seen';
  /** The error with which the service rejects an empty interval. Absent: it does not. */
  readonly rejection?: string | undefined;
  /** The error of a run with an upper bound, or without reports. Absent: there is none. */
  readonly note?: string;
}

interface ProofOptions {
  /** A digest of the reports of page 1. undefined: it has none, or its format has no digest. */
  readonly firstReports: string | undefined;
  readonly roots: RootCheck;
  readonly notify: (text: string) => void;
  readonly runtime: Runtime;
}

/**
 * The proof of `run`; of one without an upper bound, that of both its ends. undefined: requests have no upper bound.
 * @throws what the run would fail with, if it needs the proof
 */
export async function planProof(
  { definition }: Pick<ExportTarget, 'definition'>,
  client: ReportService,
  { run, parentOf }: PlannedRun,
  { firstReports, roots, notify, runtime }: ProofOptions,
): Promise<BoundsProof | undefined> {
  const needsProof = needsProofOfBounds(run);
  const intervals = needsProof ? undefined : endsOf(run, definition.dates);
  // Without a zone, the bounds of an empty interval are a day apart.
  if (definition.dates.upperBound === undefined || definition.dates.zone === undefined) return undefined;
  if (intervals?.length === 0) return undefined;
  let quiet: BoundsProof['quiet'] = 'not seen';
  let rejection: string | undefined;
  let hasFirstReports = false;
  const service: ReportService = {
    async fetch(request, { signal }) {
      const isEmptyInterval = request.since === request.until;
      const waits = { notify, runtime, signal };
      const { received } = await probePage(client, request, roots, waits).catch((error: unknown) => {
        if (isEmptyInterval && isExportError(error, 'RequestRejectedError')) rejection = error.message;
        throw error;
      });
      if (!isEmptyInterval || received.kind !== 'page') return received;
      const { reports, nextCursor, reportsDigest } = received;
      if (reports === 0 && nextCursor === null) quiet = 'accepted';
      hasFirstReports ||= request.since !== run.since && reports !== 0 && reportsDigest === firstReports;
      return received;
    },
  };
  const deps = { definition, service, runtime, emit: () => {} };
  const { signal } = new AbortController();
  try {
    await proveBounds(deps, run, roots, { backoff: { until: 0 }, signal, intervals, parentOf });
    return { quiet, rejection };
  } catch (error) {
    if (needsProof) throw error;
    if (hasFirstReports && firstReports !== undefined) {
      const note =
        'the API seems to ignore {since}: for an empty interval at the end, it sent the reports of page 1. Then every run exports everything, and slices and runs with an upper bound would fail. Check the names and the form of the dates';
      return { quiet, note };
    }
    if (isExportError(error, 'ConfigurationError'))
      return { quiet, note: `slices and runs with an upper bound would fail: ${error.message}` };
    if (isExportError(error, 'ContractError'))
      return { quiet: 'refused', note: `a run without reports would fail: ${error.message}` };
    if (isExportError(error) && isOutage(error.name))
      return {
        quiet,
        note: `an empty interval was not tried, as it failed: ${error.message}. Run plan --request again`,
      };
    throw error;
  }
}

/** Where a run without an upper bound ends and begins, as dates of requests. */
function endsOf({ since, startedAt }: Run, dates: ExportTarget['definition']['dates']): readonly Instant[] {
  const rounded = [startedAt, since].map((at) => instantOf(Math.floor(epochMsOf(at) / dates.unitMs) * dates.unitMs));
  return [...new Set(rounded)].filter((at) => findDateProblem(dates, at) === undefined);
}
