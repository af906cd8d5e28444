/**
 * The limits of a service's functions and executions, derived from its settings and those of its exports, which share them:
 * timeouts and ephemeral storage. They suffice for the export that needs most.
 *
 * Timeouts are nested: request deadline < function timeout < state timeout. Each gives the inner one time to end by itself and
 * to report its error.
 */

import { minUploadBytesPerSecond } from '../settings/environment.ts';
import type { ExportSettings, ServiceSettings } from '../settings/settings.ts';
import type { StepName } from '../core/state-machine/definition.ts';
import { maxPollMs } from '../core/slots/page-slots.ts';

const mebibyte = 1024 * 1024;

export interface FunctionLimits {
  /** The timeout of each step's function. */
  readonly timeoutSeconds: Readonly<Record<StepName, number>>;
  /** The size of ExportPage's /tmp, which holds each page until it is complete. */
  readonly ephemeralStorageMebibytes: number;
  /** The timeout of one execution, including waits. */
  readonly executionTimeoutSeconds: number;
}

/** Lambda's own limits. */
const maxTimeoutSeconds = 900;
const maxEphemeralStorageMebibytes = 10_240;

/** BeginRun and FailRun read and write a few items. */
const bookkeepingTimeoutSeconds = 60;

/** How much longer than the function's timeout a state waits: time for a cold start and for the function's response. */
export const stateGraceSeconds = 30;

/** FinishRun's /tmp holds the manifest before the upload: all that Lambda offers is enough for two million pages with cursors of 4 KB. */
export const finishRunEphemeralStorageMebibytes = maxEphemeralStorageMebibytes;

/** An execution that takes longer than a week plus the longest wait hangs. The next start resumes its run. */
const minExecutionTimeoutSeconds = 7 * 86_400;

type ServiceLimits = Pick<ServiceSettings, 'totalTimeout' | 'maxPageBytes' | 'maxConcurrentPages'>;
type ExportLimits = Pick<ExportSettings, 'maxInlineWait' | 'maxRetryAfter' | 'pagesPerInvocation'>;

export interface FunctionLimitsInput {
  readonly service: ServiceLimits;
  readonly exports: readonly ExportLimits[];
}

export function functionLimits({ service, exports }: FunctionLimitsInput): FunctionLimits {
  const maxOf = (limit: keyof ExportLimits) => Math.max(...exports.map((settings) => settings[limit]));
  const pageMebibytes = Math.ceil(service.maxPageBytes / mebibyte);
  // The upload at the lowest expected throughput, and a minute for everything else.
  const storeSeconds = 60 + Math.ceil(service.maxPageBytes / minUploadBytesPerSecond);
  // A longer wait for a slot is a state of the execution.
  const slotWaitSeconds = service.maxConcurrentPages === undefined ? 0 : maxPollMs / 1_000;
  const fetchSeconds = slotWaitSeconds + Math.ceil((service.totalTimeout + maxOf('maxInlineWait')) / 1_000);
  const pageSeconds = fetchSeconds + storeSeconds;
  // The function begins another page while there is time for a whole one, so it uses whatever time is left.
  const hasSeveralPages = maxOf('pagesPerInvocation') > 1;
  return {
    timeoutSeconds: {
      BeginRun: bookkeepingTimeoutSeconds,
      ExportPage: hasSeveralPages ? Math.max(pageSeconds, maxTimeoutSeconds) : pageSeconds,
      // Its manifest has a line per page: a million pages take minutes.
      FinishRun: maxTimeoutSeconds,
      FailRun: bookkeepingTimeoutSeconds,
    },
    // The pages in flight, one or two, and 256 MiB on top. The first 512 MiB are free of charge.
    ephemeralStorageMebibytes: Math.max(512, pageMebibytes * (hasSeveralPages ? 2 : 1) + 256),
    executionTimeoutSeconds: minExecutionTimeoutSeconds + Math.ceil(maxOf('maxRetryAfter') / 1_000),
  };
}

/** Why Lambda cannot run an export with these settings; empty if it can. */
export function findLimitProblems(service: ServiceLimits, settings: ExportLimits): string[] {
  const { timeoutSeconds, ephemeralStorageMebibytes } = functionLimits({ service, exports: [settings] });
  const problems = [];
  if (timeoutSeconds.ExportPage > maxTimeoutSeconds) {
    problems.push(
      `one page may take ${timeoutSeconds.ExportPage} s, but a Lambda function may run for ${maxTimeoutSeconds} s: lower ` +
        "maxInlineWait, or the service's totalTimeout or maxPageBytes",
    );
  }
  if (ephemeralStorageMebibytes > maxEphemeralStorageMebibytes) {
    problems.push(
      `one page may need ${ephemeralStorageMebibytes} MiB of ephemeral storage, but a Lambda function has at most ` +
        `${maxEphemeralStorageMebibytes} MiB: lower the service's maxPageBytes`,
    );
  }
  return problems;
}
