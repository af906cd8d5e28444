/** Asks the service for one small page and throws it away: whether an export could run from here. */

import * as z from 'zod/mini';
import { assertRootOfProbe, rootOfFirstProbe } from '../core/document-root.ts';
import { ExportError } from '../core/errors.ts';
import type { ExportDefinition, Instant } from '../core/model.ts';
import type { PageLog, ReportService, Runtime } from '../core/ports.ts';
import { epochMsOf, instantOf, instantSchema } from '../core/timestamps.ts';

export interface ProbeResult {
  /** The number of reports on the page; null if they are not counted. */
  readonly reports: number | null;
  /** From the request to the response headers, in milliseconds. */
  readonly latencyMs: number;
  /** How far the service's clock is ahead of the local one, in milliseconds; null if the service sends no time. */
  readonly clockLeadMs: number | null;
}

interface ProbeDependencies {
  readonly definition: Pick<ExportDefinition, 'name' | 'request' | 'documentRoot'>;
  readonly service: ReportService;
  readonly log: Pick<PageLog, 'exportState'>;
  readonly runtime: Pick<Runtime, 'now'>;
}

/** A service that needs longer for one report would keep a person waiting. */
const timeoutMs = 30_000;

/**
 * Requests the reports since `since`, one per page, and reads the response to its end.
 * @throws what `fetchPage` throws; ServiceUnavailableError after 30 s
 */
export async function probeService(
  { definition, service, log, runtime }: ProbeDependencies,
  since: Instant,
): Promise<ProbeResult> {
  const request = { ...definition.request, size: 1 };
  const expectedRoot = await rootOfFirstProbe(definition, log);
  return await withProbeTimeout(async (signal) => {
    const requestedAt = runtime.now();
    const begunAt = instantOf(requestedAt);
    const page = await service.fetchPage({ request, since, begunAt, cursor: null, label }, signal);
    const latencyMs = Math.round(runtime.now() - requestedAt);
    for await (const _ of page.body);
    const received = page.received();
    assertRootOfProbe(label, received, expectedRoot);
    const { serviceTime, reports } = received;
    const clockLeadMs = serviceTime === null ? null : epochMsOf(serviceTime) - requestedAt;
    return { reports, latencyMs, clockLeadMs };
  });
}

/** @throws ServiceUnavailableError if `probe` takes longer than 30 s */
export async function withProbeTimeout<Result>(probe: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
  const timeout = new AbortController();
  const timer = setTimeout(() => {
    // Reading the API key may have taken the time, too.
    const message = `The health check took longer than ${timeoutMs / 1_000} s`;
    timeout.abort(new ExportError('ServiceUnavailableError', message));
  }, timeoutMs);
  try {
    return await probe(timeout.signal);
  } finally {
    clearTimeout(timer);
  }
}

const label = 'a health check page';

/** What the function of ExportPage is invoked with to do so. It touches no state. */
export const probeSchema = z.object({ export: z.string(), since: instantSchema });

export interface ProbeEvent {
  readonly probe: z.infer<typeof probeSchema>;
}

export const probeResultSchema = z.object({
  reports: z.nullable(z.number()),
  latencyMs: z.number(),
  clockLeadMs: z.nullable(z.number()),
});
