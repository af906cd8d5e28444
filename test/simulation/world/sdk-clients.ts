/**
 * The SDK's clients, simulated at the door through which all commands go: each is a request over a network that breaks, and
 * is repeated by the client a few times, as the SDK does, so that a repetition meets what the first has left.
 */

import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';
import type { SFNClient } from '@aws-sdk/client-sfn';
import { sdkConfig } from '../../../lib/aws/sdk-config.ts';
import { isConnectionError, type Latency, type Process } from './process.ts';
import { s3Error } from './s3.ts';
import type { World } from './world.ts';

export interface Command {
  readonly input: object;
}

interface Endpoint {
  readonly name: string;
  readonly latency: Latency;
  readonly perform: (command: Command) => unknown;
  /** What it says when it is asked too much. */
  readonly throttle: () => Error;
}

const failing = (name: string, httpStatusCode: number) => () =>
  Object.assign(new Error(name), { name, $metadata: { httpStatusCode } });

/** What the SDK tries again: broken connections, throttling, and faults of the server. */
function isTransient(error: unknown): boolean {
  if (isConnectionError(error)) return true;
  const { $metadata } = error as { $metadata?: { httpStatusCode?: number } };
  return (
    ($metadata?.httpStatusCode ?? 0) >= 500 ||
    (error instanceof Error && /Throttl|Throughput|SlowDown/.test(error.name))
  );
}

function sending(world: World, process: Process, { name, latency, perform, throttle }: Endpoint) {
  return async (command: Command): Promise<unknown> => {
    const what = `${command.constructor.name.replace(/Command$/, '')} ${subjectOf(command)}`;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await process.request(name, what, () => answer(what, command), latency);
      } catch (error) {
        if (!isTransient(error) || attempt === sdkConfig.maxAttempts) throw error;
        const pause = world
          .dice(`${process.id}/${what}/${attempt}/${world.time.now()}`)
          .between(20, 100 * 2 ** attempt);
        await process.runtime.sleep(pause);
      }
    }
  };

  function answer(what: string, command: Command): unknown {
    const about = `${process.id}/${what}@${world.time.now()}`;
    if (world.strikes('throttled', about)) throw throttle();
    if (world.strikes('server-error', about)) throw failing('InternalError', 500)();
    const conditional = name === 'S3' && /IfNoneMatch|IfMatch/.test(Object.keys(command.input).join());
    if (conditional && world.strikes('conflict', about)) throw s3Error('ConditionalRequestConflict', 409);
    return perform(command);
  }
}

function subjectOf({ input }: Command): string {
  const { Key, Item, ExpressionAttributeValues, executionArn, PartNumber, Prefix } = input as Record<string, unknown>;
  const key = (typeof Key === 'object' ? Key : undefined) ?? Item ?? ExpressionAttributeValues;
  const part = typeof PartNumber === 'number' ? ` part ${PartNumber}` : '';
  if (typeof Key === 'string') return `${Key}${part}`;
  if (typeof Prefix === 'string') return Prefix;
  if (typeof executionArn === 'string') return executionArn.split(':').at(-1) ?? '';
  const { sk, ':pages': pages } = (key ?? {}) as { sk?: { S?: string }; ':pages'?: { S?: string } };
  return sk?.S ?? pages?.S ?? '';
}

/** `Upload` asks a client for its settings, so there is a real one behind it. */
const realS3 = new S3Client({
  region: 'us-east-1',
  credentials: { accessKeyId: 'anyone', secretAccessKey: 'anything' },
});

export function s3ClientOf(world: World, process: Process, perform: Endpoint['perform']): S3Client {
  const endpoint = { name: 'S3', latency: [10, 120], perform, throttle: () => s3Error('SlowDown', 503) } as const;
  return Object.assign(Object.create(realS3), { send: sending(world, process, endpoint) }) as S3Client;
}

export function dynamoDbClientOf(world: World, process: Process, perform: Endpoint['perform']): DynamoDBClient {
  const throttle = failing('ProvisionedThroughputExceededException', 400);
  const endpoint = { name: 'DynamoDB', latency: [2, 15], perform, throttle } as const;
  return { send: sending(world, process, endpoint) } as unknown as DynamoDBClient;
}

export function sfnClientOf(world: World, process: Process, perform: Endpoint['perform']): SFNClient {
  const endpoint = {
    name: 'StepFunctions',
    latency: [5, 60],
    perform,
    throttle: failing('ThrottlingException', 400),
  } as const;
  return { send: sending(world, process, endpoint) } as unknown as SFNClient;
}
