/**
 * The limits of the functions and of an execution, derived from the settings: timeouts, ephemeral storage, environment size.
 *
 * Timeouts are nested: request deadline < function timeout < state timeout. Each gives the inner one time to end by itself and
 * to report its error.
 */

import { minUploadBytesPerSecond } from '../core/settings/environment.ts';
import type { ExportSettings, ServiceSettings } from '../core/settings/settings.ts';
import type { StepName } from '../core/state-machine/definition.ts';

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
const maxEnvironmentBytes = 4_096;

/** BeginRun and FailRun read and write a few items. */
const bookkeepingTimeoutSeconds = 60;

/** How much longer than the function's timeout a state waits: time for a cold start and for the function's response. */
export const stateGraceSeconds = 30;

/** FinishRun's /tmp holds the manifest before the upload: about 400 bytes per page, so enough for ten million pages. */
export const finishRunEphemeralStorageMebibytes = 4_096;

/** An execution that takes longer than a week plus the longest wait hangs. The next start resumes its run. */
const minExecutionTimeoutSeconds = 7 * 86_400;

export interface FunctionLimitsInput {
  readonly service: Pick<ServiceSettings, 'totalTimeout' | 'maxPageBytes'>;
  readonly settings: Pick<ExportSettings, 'maxInlineWait' | 'maxRetryAfter' | 'pagesPerInvocation'>;
}

export function functionLimits({ service, settings }: FunctionLimitsInput): FunctionLimits {
  const pageMebibytes = Math.ceil(service.maxPageBytes / mebibyte);
  // The upload at the lowest expected throughput, and a minute for everything else.
  const storeSeconds = 60 + Math.ceil(service.maxPageBytes / minUploadBytesPerSecond);
  const pageSeconds = Math.ceil((service.totalTimeout + settings.maxInlineWait) / 1_000) + storeSeconds;
  // The function begins another page while there is time for a whole one, so it uses whatever time is left.
  const hasSeveralPages = settings.pagesPerInvocation > 1;
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
    executionTimeoutSeconds: minExecutionTimeoutSeconds + Math.ceil(settings.maxRetryAfter / 1_000),
  };
}

/** Why Lambda cannot run a function with these settings; empty if it can. */
export function findLimitProblems(input: FunctionLimitsInput): string[] {
  const { timeoutSeconds, ephemeralStorageMebibytes } = functionLimits(input);
  const problems = [];
  if (timeoutSeconds.ExportPage > maxTimeoutSeconds) {
    problems.push(
      `one page may take ${timeoutSeconds.ExportPage} s, but a Lambda function may run for ${maxTimeoutSeconds} s: lower ` +
        'service.totalTimeout, maxInlineWait or service.maxPageBytes',
    );
  }
  if (ephemeralStorageMebibytes > maxEphemeralStorageMebibytes) {
    problems.push(
      `one page may need ${ephemeralStorageMebibytes} MiB of ephemeral storage, but a Lambda function has at most ` +
        `${maxEphemeralStorageMebibytes} MiB: lower service.maxPageBytes`,
    );
  }
  return problems;
}

/** For the other variables, whose values only CloudFormation knows, at their longest. */
const reservedEnvironmentBytes = 700;

/** Why these variables do not fit into a function's environment; undefined if they do. */
export function findEnvironmentProblem(variables: Readonly<Record<string, string>>): string | undefined {
  // Lambda measures the variables as one JSON object, so a quote inside a value counts twice.
  const bytes = Buffer.byteLength(JSON.stringify(variables)) + reservedEnvironmentBytes;
  return bytes <= maxEnvironmentBytes
    ? undefined
    : `needs about ${bytes} bytes of a Lambda function's environment, which holds ${maxEnvironmentBytes}: shorten the filter`;
}
