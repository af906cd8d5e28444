/**
 * The limits of a service's functions and executions, derived from its settings and those of its exports, which share
 * them: timeouts and ephemeral storage. They suffice for the export that needs most.
 *
 * Timeouts are nested: request deadline < function timeout < state timeout. Each gives the inner one time to end by
 * itself and to report its error.
 */

import { minUploadBytesPerSecond } from '../settings/deployed-settings.ts';
import { renewsSecret } from '../service/api/auth/kinds.ts';
import { requestDates } from '../service/api/description.ts';
import { type ExportSettings, maxInlineWaitSeconds, type ServiceSettings } from '../settings/settings.ts';
import { maxParallel } from '../core/slices.ts';
import type { StepName } from '../core/state-machine/definition.ts';
import { maxPollMs } from '../core/slots/page-slots.ts';

const mebibyte = 1024 * 1024;

export interface FunctionLimits {
  /** The timeout of each step's function. */
  readonly timeoutSeconds: Readonly<Record<StepName, number>>;
  /** The size of ExportPage's /tmp, which holds each page until it is stored. */
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

/** FinishRun's /tmp holds the manifest before the upload: enough for two million pages with cursors of 4 KB. */
export const finishRunEphemeralStorageMebibytes = maxEphemeralStorageMebibytes;

/** An execution that takes longer than a week plus the longest wait hangs. The next start resumes its run. */
const minExecutionTimeoutSeconds = 7 * 86_400;

type ServiceLimits = Pick<ServiceSettings, 'auth' | 'totalTimeout' | 'maxPageBytes' | 'maxConcurrentPages'>;
type ExportLimits = Pick<ExportSettings, 'api' | 'maxRetryAfter' | 'pagesPerInvocation' | 'slices' | 'parents'>;

export interface FunctionLimitsInput {
  readonly service: ServiceLimits;
  readonly exports: readonly ExportLimits[];
}

const maxOf = (exports: readonly ExportLimits[], limit: keyof Omit<ExportLimits, 'api' | 'slices' | 'parents'>) =>
  Math.max(...exports.map((settings) => settings[limit]));

export function functionLimits({ service, exports }: FunctionLimitsInput): FunctionLimits {
  const one = needsOf(service, exports, 1);
  // An operator may start a run with as many slices at the same time, whatever the settings of the export say.
  const isSliceable = exports.some(
    ({ api, parents }) => parents !== undefined || requestDates(api).upperBound !== undefined,
  );
  const { storageMebibytes } = needsOf(service, exports, isSliceable ? maxParallel : 1);
  // The function begins another page while there is time for a whole one, so it uses whatever time is left.
  const hasSeveralPages = isSliceable || maxOf(exports, 'pagesPerInvocation') > 1;
  return {
    timeoutSeconds: {
      BeginRun: bookkeepingTimeoutSeconds,
      ExportPage: hasSeveralPages ? Math.max(one.seconds, maxTimeoutSeconds) : one.seconds,
      // Its manifest has a line per page: a million pages take minutes.
      FinishRun: maxTimeoutSeconds,
      FailRun: bookkeepingTimeoutSeconds,
    },
    ephemeralStorageMebibytes: Math.max(one.storageMebibytes, Math.min(storageMebibytes, maxEphemeralStorageMebibytes)),
    executionTimeoutSeconds: minExecutionTimeoutSeconds + Math.ceil(maxOf(exports, 'maxRetryAfter') / 1_000),
  };
}

/** The needs of an invocation of ExportPage for the largest pages of `parallel` slices. */
function needsOf(service: ServiceLimits, exports: readonly ExportLimits[], parallel: number) {
  const { maxPageBytes, totalTimeout, maxConcurrentPages } = service;
  // The pages in flight: each waits in /tmp until it is stored, and the next one is requested meanwhile.
  const pages = parallel * (maxOf(exports, 'pagesPerInvocation') > 1 ? 2 : 1);
  const pageMebibytes = Math.ceil(maxPageBytes / mebibyte);
  // The uploads at the lowest expected throughput, and a minute for everything else.
  const storeSeconds = 60 + Math.ceil((parallel * maxPageBytes) / minUploadBytesPerSecond);
  // A longer wait for a slot is a state of the execution.
  const slotWaitSeconds = maxConcurrentPages === undefined ? 0 : maxPollMs / 1_000;
  // A refresh token: wait for another process, read the newest secret, exchange it, and store the result.
  const tokenSeconds = renewsSecret(service) ? 120 : 0;
  const fetchSeconds = tokenSeconds + slotWaitSeconds + Math.ceil(totalTimeout / 1_000) + maxInlineWaitSeconds;
  return {
    pages,
    pageMebibytes,
    fetchSeconds,
    storeSeconds,
    seconds: fetchSeconds + storeSeconds,
    // 256 MiB on top. The first 512 MiB are free of charge.
    storageMebibytes: Math.max(512, pages * pageMebibytes + 256),
  };
}

/** Why Lambda cannot run an export with these settings; empty if it can. */
export function findLimitProblems(service: ServiceLimits, settings: ExportLimits): string[] {
  const { parallel } = settings.slices;
  const needs = needsOf(service, [settings], parallel);
  const { pages, pageMebibytes, fetchSeconds, storeSeconds, seconds, storageMebibytes } = needs;
  const [subject, remedy] =
    parallel === 1 ? ['one page', ''] : [`a page of each of ${parallel} slices`, 'slices.parallel, '];
  const problems = [];
  if (seconds > maxTimeoutSeconds) {
    problems.push(
      `${subject} may take ${seconds} s (${fetchSeconds} s to fetch, ${storeSeconds} s to store), but a Lambda function may run for ` +
        `${maxTimeoutSeconds} s: lower ${remedy}the service's totalTimeout or maxPageBytes`,
    );
  }
  if (storageMebibytes > maxEphemeralStorageMebibytes) {
    problems.push(
      `${subject} may need ${storageMebibytes} MiB of ephemeral storage (${pages} × ${pageMebibytes} MiB in flight, and 256 MiB), but a ` +
        `Lambda function has at most ${maxEphemeralStorageMebibytes} MiB: lower ${parallel === 1 ? '' : 'slices.parallel, or '}the service's maxPageBytes`,
    );
  }
  return problems;
}
