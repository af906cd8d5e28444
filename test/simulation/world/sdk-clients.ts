/**
 * AWS SDK clients whose `send` goes to the simulated services over an unreliable network. Like the SDK, they retry a
 * failed request a few times, so that a retry meets the effect of the request before it.
 */

import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';
import type { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import type { SFNClient } from '@aws-sdk/client-sfn';
import { sdkConfig } from '../../../lib/aws/sdk-config.ts';
import type { Container } from './container.ts';
import { connectionError, isConnectionError, type Latency, type Process } from './process.ts';
import { s3Error } from './s3.ts';
import type { World } from './world.ts';

export interface Command {
  readonly input: object;
}

/** The container that sends the requests, and what the server does with one. */
export interface Connection {
  readonly world: World;
  readonly container: Container;
  readonly perform: (process: Process, command: Command) => unknown;
}

interface Endpoint {
  readonly name: string;
  readonly latency: Latency;
  readonly throttlingError: () => Error;
}

export function createS3Client(connection: Connection): S3Client {
  const endpoint: Endpoint = {
    name: 'S3',
    latency: [10, 120],
    throttlingError: () => s3Error('SlowDown', 503),
  };
  return Object.assign(Object.create(realS3Client), { send: createSend(connection, endpoint) }) as S3Client;
}

/** `Upload` of @aws-sdk/lib-storage reads the configuration of its client. */
const realS3Client = new S3Client({
  region: 'us-east-1',
  credentials: { accessKeyId: 'simulated', secretAccessKey: 'simulated' },
});

export function createDynamoDbClient(connection: Connection): DynamoDBClient {
  const throttlingError = () => serviceError('ProvisionedThroughputExceededException', 400);
  const endpoint: Endpoint = { name: 'DynamoDB', latency: [2, 15], throttlingError };
  return { send: createSend(connection, endpoint) } as unknown as DynamoDBClient;
}

export function createSfnClient(connection: Connection): SFNClient {
  const throttlingError = () => serviceError('ThrottlingException', 400);
  const endpoint: Endpoint = { name: 'StepFunctions', latency: [5, 60], throttlingError };
  return { send: createSend(connection, endpoint) } as unknown as SFNClient;
}

export function createSecretsClient(connection: Connection): SecretsManagerClient {
  const throttlingError = () => serviceError('ThrottlingException', 400);
  const endpoint: Endpoint = { name: 'SecretsManager', latency: [5, 60], throttlingError };
  return { send: createSend(connection, endpoint) } as unknown as SecretsManagerClient;
}

function createSend({ world, container, perform }: Connection, { name, latency, throttlingError }: Endpoint) {
  return async (command: Command, options?: { readonly abortSignal?: AbortSignal }): Promise<unknown> => {
    const process = await container.process();
    const operation = `${command.constructor.name.replace(/Command$/, '')} ${resourceOf(command)}`;
    if (isBetweenParts(command) && world.injectFault('upload-interrupted', `${process.id}/${operation}`)) {
      process.kill(`between the parts of an upload, before ${operation}`);
    }
    for (let attempt = 1; ; attempt += 1) {
      options?.abortSignal?.throwIfAborted();
      try {
        return await process.request(name, operation, () => respond(process, operation, command), latency);
      } catch (error) {
        if (!isRetryable(error) || attempt === sdkConfig.maxAttempts) throw error;
        const delayMs = world
          .rng(`${process.id}/${operation}/${attempt}/${world.time.now()}`)
          .between(20, 100 * 2 ** attempt);
        await process.runtime.sleep(delayMs);
      }
    }
  };

  function respond(process: Process, operation: string, command: Command): unknown {
    const site = `${process.id}/${operation}@${world.time.now()}`;
    if (world.injectFault('throttled', site)) throw throttlingError();
    if (world.injectFault('server-error', site)) throw serviceError('InternalError', 500);
    const isConditional = name === 'S3' && /IfNoneMatch|IfMatch/.test(Object.keys(command.input).join());
    if (isConditional && world.injectFault('write-conflict', site)) throw s3Error('ConditionalRequestConflict', 409);
    const uploadSite = `${process.id}/${operation}`;
    if (isCommand(command, 'AbortMultipartUpload') && world.injectFault('abort-fails', uploadSite)) {
      throw serviceError('InternalError', 500);
    }
    if (isCommand(command, 'CompleteMultipartUpload')) return completeUpload(process, site, uploadSite, command);
    return perform(process, command);
  }

  /** The last request of an upload in parts: it can arrive twice, or after its sender has given up waiting for it. */
  function completeUpload(process: Process, site: string, uploadSite: string, command: Command): unknown {
    const rng = world.rng(`${site}/complete`);
    const performLater = (ms: number) => {
      world.time.after(ms, () => {
        try {
          perform(process, command);
          world.log(process.id, () => 'S3 CompleteMultipartUpload, which arrives late: ok');
        } catch (error) {
          world.log(process.id, () => `S3 CompleteMultipartUpload, which arrives late: ${(error as Error).name}`);
        }
      });
    };
    const delayMs = rng.pick([rng.between(0, 500), rng.between(0, 60_000)]);
    if (world.injectFault('upload-completed-late', uploadSite)) {
      performLater(delayMs);
      throw connectionError('S3 did not respond in time');
    }
    if (world.injectFault('upload-completed-twice', uploadSite)) performLater(delayMs);
    // S3 may send status 200 before it knows the result. The SDK turns an error in the body into one with status 503.
    if (world.injectFault('upload-ends-in-error', site)) {
      if (rng.chance(0.5)) perform(process, command);
      throw serviceError('InternalError', 503);
    }
    return perform(process, command);
  }
}

const isCommand = ({ constructor }: Command, name: string): boolean => constructor.name === `${name}Command`;

/** A request of an upload that S3 already has a part of. */
const isBetweenParts = (command: Command): boolean =>
  isCommand(command, 'CompleteMultipartUpload') ||
  (isCommand(command, 'UploadPart') && (command.input as { PartNumber?: number }).PartNumber !== 1);

/** What the SDK retries: lost connections, throttling, and server errors. */
function isRetryable(error: unknown): boolean {
  if (isConnectionError(error)) return true;
  const { $metadata } = error as { $metadata?: { httpStatusCode?: number } };
  return (
    ($metadata?.httpStatusCode ?? 0) >= 500 ||
    (error instanceof Error && /Throttl|Throughput|SlowDown/.test(error.name))
  );
}

function serviceError(name: string, httpStatusCode: number): Error {
  return Object.assign(new Error(name), { name, $metadata: { httpStatusCode } });
}

/** What the names of faults call a key: the same in both forms of a page, so that a seed has the same faults. */
export const siteOf = (key: string): string => key.replace(/\.gz$/, '');

/** The key, prefix, secret or execution that a command is about. */
function resourceOf({ input }: Command): string {
  const { Key, Item, ExpressionAttributeValues, executionArn, PartNumber, Prefix, SecretId } = input as Record<
    string,
    unknown
  >;
  const item = (typeof Key === 'object' ? Key : undefined) ?? Item ?? ExpressionAttributeValues;
  const part = typeof PartNumber === 'number' ? ` part ${PartNumber}` : '';
  if (typeof Key === 'string') return `${siteOf(Key)}${part}`;
  if (typeof Prefix === 'string') return Prefix;
  if (typeof SecretId === 'string') return SecretId;
  if (typeof executionArn === 'string') return executionArn.split(':').at(-1) ?? '';
  const { sk, ':prefix': prefix } = (item ?? {}) as { sk?: { S?: string }; ':prefix'?: { S?: string } };
  return sk?.S ?? prefix?.S ?? '';
}
