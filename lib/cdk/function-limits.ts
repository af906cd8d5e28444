/**
 * What a function is given, derived from what it may be asked to do: time, room for a page, and an environment.
 *
 * The order is the design's: the deadline of one request < the function's timeout < the state's timeout. Each leaves the
 * inner one time to end by itself and to say why.
 */

import { minUploadBytesPerSecond } from '../core/settings/environment.ts';
import type { ExportSettings, ServiceSettings } from '../core/settings/settings.ts';
import type { StepName } from '../core/state-machine/definition.ts';

const mebibyte = 1024 * 1024;

export interface FunctionLimits {
  /** Of each step's function. ExportPage: one request with the longest short wait before it, and the time to store. */
  readonly seconds: Readonly<Record<StepName, number>>;
  /** Of export-page: its /tmp, where a page lies until it is known to be whole. */
  readonly temporaryMebibytes: number;
  /** Of one execution, waits included. */
  readonly executionSeconds: number;
}

/** What Lambda allows at most. */
const maxFunctionSeconds = 900;
const maxTemporaryMebibytes = 10_240;
const environmentBytes = 4_096;

/** begin-run and fail-run read and write a few items. */
const bookkeepingSeconds = 60;

/** What a state waits beyond its function's timeout: to be told of it, and of a cold start. */
export const stateGraceSeconds = 30;

/** Its manifest lies in /tmp before it is uploaded: some 400 bytes a page, so room for ten million pages. */
export const finishRunTemporaryMebibytes = 4_096;

/** An execution that has not ended after a week and the longest wait is stuck; its run goes on with the next start. */
const executionSeconds = 7 * 86_400;

type Limiting = {
  readonly service: Pick<ServiceSettings, 'totalTimeout' | 'maxPageBytes'>;
  readonly settings: Pick<ExportSettings, 'maxInlineWait' | 'maxRetryAfter' | 'pagesPerInvocation'>;
};

export function functionLimits({ service, settings }: Limiting): FunctionLimits {
  const pageMebibytes = Math.ceil(service.maxPageBytes / mebibyte);
  // The upload, and a minute for everything else.
  const storingSeconds = 60 + Math.ceil((pageMebibytes * mebibyte) / minUploadBytesPerSecond);
  const pageSeconds = Math.ceil((service.totalTimeout + settings.maxInlineWait) / 1_000) + storingSeconds;
  // Another page is begun as long as there is time for a whole one, so all that is over is for them.
  const isWalk = settings.pagesPerInvocation > 1;
  return {
    seconds: {
      BeginRun: bookkeepingSeconds,
      ExportPage: isWalk ? Math.max(pageSeconds, maxFunctionSeconds) : pageSeconds,
      // Streams a manifest as long as the run: a million pages take minutes, so it gets all there is.
      FinishRun: maxFunctionSeconds,
      FailRun: bookkeepingSeconds,
    },
    // A quarter of a gibibyte above the page in hand, or the two, and never less than the half gibibyte that costs nothing.
    temporaryMebibytes: Math.max(512, pageMebibytes * (isWalk ? 2 : 1) + 256),
    executionSeconds: executionSeconds + Math.ceil(settings.maxRetryAfter / 1_000),
  };
}

/** Why Lambda could not run these settings, or nothing. */
export function problemsOfLimits(limiting: Limiting): string[] {
  const { seconds, temporaryMebibytes } = functionLimits(limiting);
  const problems = [];
  if (seconds.ExportPage > maxFunctionSeconds) {
    problems.push(
      `one page may take ${seconds.ExportPage} s (service.totalTimeout, maxInlineWait, and the time to store service.maxPageBytes), ` +
        `but a function may run for ${maxFunctionSeconds} s`,
    );
  }
  if (temporaryMebibytes > maxTemporaryMebibytes) {
    problems.push(
      `one page may take ${temporaryMebibytes} MiB of temporary storage (service.maxPageBytes), ` +
        `but a function has at most ${maxTemporaryMebibytes} MiB`,
    );
  }
  return problems;
}

/** The longest names the other variables may come to hold; what they are is known to CloudFormation alone. */
const otherVariables = 700;

/** Why these settings do not fit a function's environment, or nothing. */
export function problemOfEnvironment(variables: Readonly<Record<string, string>>): string | undefined {
  // Lambda measures the variables as one JSON object, so quotes inside a value count twice.
  const bytes = Buffer.byteLength(JSON.stringify(variables)) + otherVariables;
  return bytes <= environmentBytes
    ? undefined
    : `needs about ${bytes} bytes of a function's environment, which holds ${environmentBytes}: shorten its filter`;
}
