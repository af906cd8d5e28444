/**
 * The latencies of the model, in milliseconds. BENCH_LOOP replaces some of them, as JSON:
 * `BENCH_LOOP='{"s3PutMs":60}' npm run bench -- aws-loop`.
 */

export interface Latencies {
  /** From the request to the first byte of the response. */
  readonly serviceFirstByteMs: number;
  /** From the first byte to the last. */
  readonly serviceBodyMs: number;
  readonly s3PutMs: number;
  readonly s3HeadMs: number;
  readonly dynamoReadMs: number;
  readonly dynamoWriteMs: number;
  /** From one state to the next. */
  readonly transitionMs: number;
  /** What Step Functions adds to the work itself: invoking a warm function, or starting an execution. */
  readonly invokeMs: number;
  /** From a Distributed Map to its first child executions. */
  readonly mapStartMs: number;
  /** From the end of an execution to the end of the state that waits for it. */
  readonly syncEndMs: number;
}

/**
 * - Service: an assumption; the contract states no times.
 * - S3: "roughly 100-200 milliseconds" for small objects (Amazon S3 User Guide, "Performance design patterns"). The lower end,
 *   as the overhead of the loop then weighs more. HEAD: an assumption; it has no body.
 * - DynamoDB: GetItem and PutItem take "single-digit milliseconds" on average (AWS Knowledge Center, "How can I
 *   troubleshoot high latency on an Amazon DynamoDB table?").
 * - Step Functions: assumptions; AWS states none.
 * - Invocation: an assumption, for a warm function.
 */
const defaults: Latencies = {
  serviceFirstByteMs: 400,
  serviceBodyMs: 100,
  s3PutMs: 100,
  s3HeadMs: 30,
  dynamoReadMs: 5,
  dynamoWriteMs: 8,
  transitionMs: 25,
  invokeMs: 20,
  mapStartMs: 2_000,
  syncEndMs: 1_000,
};

/**
 * The defaults, replaced by `changes`, replaced by `json`.
 * @throws Error if `json` has an unknown name, or a value that is not a duration
 */
export function parseLatencies(json = '{}', changes: Partial<Latencies> = {}): Latencies {
  const given = JSON.parse(json) as Readonly<Record<string, unknown>>;
  for (const [name, value] of Object.entries(given)) {
    if (!(name in defaults)) {
      throw new Error(`BENCH_LOOP: unknown latency ${name}; known are ${Object.keys(defaults).join(', ')}`);
    }
    if (typeof value !== 'number' || !(value >= 0)) {
      throw new Error(`BENCH_LOOP: ${name} must be a number of milliseconds`);
    }
  }
  return { ...defaults, ...changes, ...given };
}

export const serviceMs = (latencies: Latencies): number => latencies.serviceFirstByteMs + latencies.serviceBodyMs;

/** The two writes of a page, one after the other. */
export const storeMs = (latencies: Latencies): number => latencies.s3PutMs + latencies.dynamoWriteMs;
