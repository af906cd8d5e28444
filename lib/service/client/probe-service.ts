/** Asks the service for pages and throws them away: whether an export could run from here, and what it would find. */

import { createHash } from 'node:crypto';
import * as z from 'zod/mini';
import { createRootCheck, expectedRoot, type RootCheck } from '../../core/document-root.ts';
import { ExportError, isExportError } from '../../core/errors.ts';
import type { Bounds, ExportDefinition } from '../../core/model.ts';
import type { Parent } from '../../core/parents/plan.ts';
import type { PageLog, PageRequest, ReportService, Runtime } from '../../core/ports.ts';
import { instantOf, instantSchema } from '../../core/timestamps.ts';

/** The event that has the function of ExportPage request a page. The function touches no state. */
export const probeSchema = z.object({ export: z.string(), since: instantSchema, until: z.optional(instantSchema) });

export interface ProbeEvent {
  readonly probe: z.infer<typeof probeSchema>;
}

export const probeResultSchema = z.union([
  z.object({
    /** The number of reports on the page; null if they are not counted. */
    reports: z.nullable(z.number()),
    /** From the request to the response headers, in milliseconds. */
    latencyMs: z.number(),
    /** What contradicts that the page is the last one. Absent: nothing does. */
    doubtfulEnd: z.optional(z.string()),
  }),
  /** The status of the response that says that the parent no longer exists, so that no page was seen. */
  z.object({ goneStatus: z.number() }),
]);
export type ProbeResult = z.infer<typeof probeResultSchema>;

interface ProbeDependencies {
  readonly definition: Pick<ExportDefinition, 'name' | 'request' | 'documentRoot'>;
  /** The one to request, if the export has parents. */
  readonly parent?: Parent | undefined;
  readonly service: ReportService;
  readonly log: Pick<PageLog, 'exportState'>;
  readonly runtime: Pick<Runtime, 'now' | 'sleep'>;
  /** Receives a line before each wait. */
  readonly notify?: (text: string) => void;
}

/** The period of a run. Without `until`, it has no upper bound. */
export type ProbedPeriod = Pick<Bounds, 'since'> & Partial<Pick<Bounds, 'until'>>;

/**
 * Requests page 1 of a run.
 * @throws as `probePage` does
 */
export async function probeService(
  { definition, parent, service, log, runtime, notify = () => {} }: ProbeDependencies,
  period: ProbedPeriod,
): Promise<ProbeResult> {
  const { request } = definition;
  const roots = createRootCheck(expectedRoot(definition, await log.exportState(definition.name)));
  const begunAt = instantOf(runtime.now());
  const ofParent = { parent: parent?.id, parentAlso: parent?.also };
  const page = { request, ...period, begunAt, ...ofParent, cursor: null, label: 'page 1 of the next run' };
  const { received } = await probePage(service, page, roots, { runtime, notify });
  if (received.kind === 'end') return { goneStatus: received.status };
  const { reports, timing } = received;
  return { reports, latencyMs: timing.latencyMs, doubtfulEnd: received.hints().doubtfulEnd };
}

/** A service that needs longer would keep a person waiting. */
const timeoutMs = 30_000;

/** For how long, in all, a probe waits for one page. A run waits for longer. */
const maxWaitSeconds = 60;

interface Waits {
  readonly runtime: Pick<Runtime, 'sleep'>;
  readonly notify: (text: string) => void;
  /** Whether the bytes of the body are kept. */
  readonly keepsBody?: boolean;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Requests a page, and reads the response to its end. Waits as a service says by Retry-After, for up to a minute.
 * @throws what `ReportService.fetch` throws; ContractError for another root than expected; ServiceUnavailableError
 *   after 30 s
 */
export async function probePage(
  service: ReportService,
  request: PageRequest,
  roots: RootCheck,
  { runtime, notify, ...options }: Waits,
) {
  for (let waitedSeconds = 0; ;) {
    try {
      return await requestPage(service, request, roots, options);
    } catch (error) {
      if (!isExportError(error, 'ServiceThrottledError') || error.retryAfterSeconds === undefined) throw error;
      const seconds = Math.max(1, Math.ceil(error.retryAfterSeconds));
      waitedSeconds += seconds;
      if (waitedSeconds > maxWaitSeconds) throw error;
      notify(`Waiting ${seconds} s before ${request.label} (Retry-After)`);
      await runtime.sleep(seconds * 1_000, options.signal);
    }
  }
}

async function requestPage(
  service: ReportService,
  request: PageRequest,
  roots: RootCheck,
  { keepsBody = false, signal }: Pick<Waits, 'keepsBody' | 'signal'>,
) {
  const timeout = new AbortController();
  const timer = setTimeout(() => {
    // Reading the API key may have taken the time, too.
    const message = `The request of ${request.label} took longer than ${timeoutMs / 1_000} s`;
    timeout.abort(new ExportError('ServiceUnavailableError', message));
  }, timeoutMs);
  try {
    let bytes = 0;
    const digest = createHash('sha256');
    const body: Uint8Array[] = [];
    const sink = async (chunks: AsyncIterable<Uint8Array>) => {
      for await (const chunk of chunks) {
        bytes += chunk.length;
        digest.update(chunk);
        if (keepsBody) body.push(chunk);
      }
    };
    const signals = [timeout.signal, ...(signal === undefined ? [] : [signal])];
    const received = await service.fetch(request, { sink, signal: AbortSignal.any(signals) });
    if (received.kind === 'page') roots.assertProbe(request.label, received);
    return { received, bytes, sha256: digest.digest('hex'), body };
  } finally {
    clearTimeout(timer);
  }
}
