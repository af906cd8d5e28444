/**
 * How long each part of AWS and of the service takes in the model, in milliseconds. They are parameters: whoever has
 * measured others sets them with BENCH_LOOP, as JSON, such as `BENCH_LOOP='{"s3PutMs":60}'`.
 */

export interface Latencies {
  /** From a request to the first byte of its answer. */
  readonly serviceFirstByteMs: number;
  /** From there to the last byte. */
  readonly serviceBodyMs: number;
  readonly s3PutMs: number;
  readonly s3HeadMs: number;
  readonly dynamoReadMs: number;
  readonly dynamoWriteMs: number;
  /** From one state to the next. */
  readonly transitionMs: number;
  /** What a call of Step Functions takes beyond the work itself: of a warm function, or to start an execution. */
  readonly invokeMs: number;
}

/**
 * - The service: an assumption; the contract says nothing of time.
 * - S3: "roughly 100-200 milliseconds" for small objects (Amazon S3 User Guide, "Performance design patterns"); the
 *   faster end, as whatever the loop adds weighs more against it. HEAD: an assumption, it carries no body.
 * - DynamoDB: GetItem and PutItem take "single-digit milliseconds" on average (AWS Knowledge Center, "How can I
 *   troubleshoot high latency on an Amazon DynamoDB table?").
 * - Step Functions: an assumption, AWS tells of none.
 * - Invocation: an assumption, for a warm function.
 */
const standard: Latencies = {
  serviceFirstByteMs: 400,
  serviceBodyMs: 100,
  s3PutMs: 100,
  s3HeadMs: 30,
  dynamoReadMs: 5,
  dynamoWriteMs: 8,
  transitionMs: 25,
  invokeMs: 20,
};

/** @throws Error where `json` names something else, or no duration */
export function latenciesFrom(json = '{}'): Latencies {
  const given = JSON.parse(json) as Readonly<Record<string, unknown>>;
  for (const [name, value] of Object.entries(given)) {
    if (!(name in standard))
      throw new Error(`BENCH_LOOP: there is no ${name}, but ${Object.keys(standard).join(', ')}`);
    if (typeof value !== 'number' || !(value >= 0)) throw new Error(`BENCH_LOOP: ${name} must be milliseconds`);
  }
  return { ...standard, ...given };
}

export const serviceMs = (given: Latencies): number => given.serviceFirstByteMs + given.serviceBodyMs;

/** A page's two writes, one behind the other. */
export const storeMs = (given: Latencies): number => given.s3PutMs + given.dynamoWriteMs;
