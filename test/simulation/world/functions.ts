/** The four functions as they are deployed, with the platform that the simulation gives to each of their containers. */

// The client loads these when it needs them, which takes real time. Here, time passes only when nothing is left to do.
import '../../../lib/service/formats/json.ts';
import '../../../lib/service/formats/ndjson.ts';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';
import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { SFNClient } from '@aws-sdk/client-sfn';
import { Upload } from '@aws-sdk/lib-storage';
import { beginRunHandler } from '../../../functions/begin-run.ts';
import { exportPageHandler } from '../../../functions/export-page.ts';
import { failRunHandler } from '../../../functions/fail-run.ts';
import { finishRunHandler } from '../../../functions/finish-run.ts';
import { Readable } from 'node:stream';
import type { Platform } from '../../../lib/aws/lambda/platform.ts';
import type { StepHandler } from '../../../lib/aws/lambda/step-handler.ts';
import {
  environmentVariable,
  type FunctionEnvironment,
  type FunctionSettings,
  functionSettings,
  settingsVersion,
} from '../../../lib/settings/deployed-settings.ts';
import type { Compression } from '../../../lib/core/model.ts';
import type { SpoolFile } from '../../../lib/core/storage/spool.ts';
import type { StepName } from '../../../lib/core/state-machine/definition.ts';
import type { DeploymentScenario } from '../histories/scenario.ts';
import { aDeployment } from '../../support/settings.ts';
import { compressAtOnce } from '../../support/export/compress-at-once.ts';
import { gunzipAtOnce } from '../../support/service/gunzip-at-once.ts';
import type { RetryAfterChecks } from '../invariants/retry-after.ts';
import { createTelemetryOutput } from '../invariants/telemetry.ts';
import type { Container } from './container.ts';
import { laterDynamoDbClient, laterHandler } from './later-release.ts';
import { SimulatedNetwork } from './network.ts';
import type { Process } from './process.ts';
import type { SimulatedService } from './report-service.ts';
import {
  type Command,
  createDynamoDbClient,
  createS3Client,
  createSecretsClient,
  createSfnClient,
} from './sdk-clients.ts';
import { apiKeySecret, proxyCredentials, proxySecret } from './secrets.ts';
import { descriptionOf } from './service-apis.ts';
import type { ServiceTraffic } from './traffic.ts';
import type { World } from './world.ts';

export const vendor = 'ACME';
export const prefix = 'all/';
export const table = 'page-log';
export const bucket = 'bucket';
const baseUrl = 'https://reports.example.com';

// Parts of a few bytes make uploads in parts common, and cost no time.
Reflect.set(Upload, 'MIN_PART_SIZE', 1);

/** The servers that a process sends its requests to. */
export interface Endpoints {
  readonly world: World;
  readonly traffic: ServiceTraffic;
  readonly retryAfter: RetryAfterChecks;
  readonly s3: (process: Process, command: Command) => unknown;
  readonly dynamoDb: (process: Process, command: Command) => unknown;
  readonly stepFunctions: (process: Process, command: Command) => unknown;
  readonly secretsManager: (process: Process, command: Command) => unknown;
  /** The reports of the export that the process works on. */
  readonly serviceFor: (process: Process) => SimulatedService;
}

/** The content of the settings file, as the deployment writes it. */
export function deployedSettings(
  deployment: DeploymentScenario,
  exports: readonly object[],
  compression?: Compression,
): FunctionSettings {
  const parsed = aDeployment(writtenService(deployment), ...exports);
  return functionSettings(parsed, compression);
}

/** The settings of the service, as they are written. */
export function writtenService({
  describedApi,
  cursorIn,
  maxConcurrentPages,
  rate,
  hasProxy,
  apiKeyField,
  hasUpperBound,
  rootElement,
  hasDays,
  endStatus,
  parents,
  counts,
}: DeploymentScenario): object {
  const send = { [`X-${vendor}-API-KEY`]: apiKeyField === '' ? '{secret}' : `{secret.${apiKeyField}}` };
  return {
    baseUrl,
    ...(describedApi === undefined
      ? { vendor, send, cursorIn, ...(hasUpperBound ? { filterUntil: 'date.lt' } : {}) }
      : {
          api: descriptionOf(
            describedApi,
            { kind: 'key', send },
            { cursorIn, hasUpperBound, hasDays, endStatus, parents, counts },
          ),
        }),
    ...(maxConcurrentPages === undefined ? {} : { maxConcurrentPages }),
    ...(rate === undefined
      ? {}
      : { rate: { requests: rate.requests, per: `PT${rate.perMs / 1_000}S`, burst: rate.burst } }),
    ...(rootElement === undefined ? {} : { rootElement }),
    ...(hasProxy ? { proxyUrl: 'http://proxy.example.com:3128', proxyCredentialsSecret: proxySecret } : {}),
  };
}

/** The handler of a step's function in a new container. */
export function createHandler(
  endpoints: Endpoints,
  deployment: DeploymentScenario,
  { settings, isLaterRelease }: { readonly settings: FunctionSettings; readonly isLaterRelease: boolean },
  step: StepName,
  container: Container,
): StepHandler<unknown> {
  const env = environmentOf(deployment);
  // Read from the file in each container, so no container can change the settings of another.
  const loadSettings = () => JSON.parse(JSON.stringify(settings)) as FunctionSettings;
  const platform = createPlatform(endpoints, deployment, container, isLaterRelease);
  const handler = handlers[step](env, loadSettings, platform);
  return isLaterRelease ? laterHandler(endpoints.world, container, handler) : handler;
}

const handlers = {
  BeginRun: beginRunHandler,
  ExportPage: exportPageHandler,
  FinishRun: finishRunHandler,
  FailRun: failRunHandler,
} as const;

/** What the deployment gives to the functions. */
function environmentOf({ kmsKeyArn }: DeploymentScenario) {
  const environment: FunctionEnvironment = {
    version: settingsVersion,
    deployment: 'ReportExporter',
    service: 'acme',
    table,
    bucket,
    prefix,
    bucketKeyArn: kmsKeyArn,
    apiKeySecret,
  };
  return { [environmentVariable]: JSON.stringify(environment) };
}

function createPlatform(
  endpoints: Endpoints,
  { maxInFlight, partBytes, hasProxy }: DeploymentScenario,
  container: Container,
  isLaterRelease: boolean,
): Platform {
  const { world } = endpoints;
  const sendTo = (perform: (process: Process, command: Command) => unknown) => ({ world, container, perform });
  const createDynamoDb = () => createDynamoDbClient(sendTo(endpoints.dynamoDb));
  const clients = new Map<unknown, () => unknown>([
    [S3Client, () => createS3Client(sendTo(endpoints.s3))],
    [DynamoDBClient, () => (isLaterRelease ? laterDynamoDbClient(createDynamoDb()) : createDynamoDb())],
    [SFNClient, () => createSfnClient(sendTo(endpoints.stepFunctions))],
    [SecretsManagerClient, () => createSecretsClient(sendTo(endpoints.secretsManager))],
  ]);
  return {
    runtime: container.runtime,
    createClient<Client, Config>(type: new (config: Config) => Client) {
      const create = clients.get(type);
      if (create === undefined) throw new Error(`The simulation does not support ${type.name}`);
      return create() as Client;
    },
    telemetryOutput: createTelemetryOutput(world, container),
    createPool(base, timeouts, { proxy }) {
      const { username, password } = proxy?.credentials ?? {};
      const isRight = username === proxyCredentials.username && password === proxyCredentials.password;
      if (hasProxy && !isRight) world.violate('requests follow the service contract', 'a proxy rejects the connection');
      return new SimulatedNetwork(endpoints, container, timeouts, base);
    },
    createGunzip: gunzipAtOnce,
    openSpoolFile: openMemoryFile,
    compress: compressAtOnce(world.rng(`zlib of ${container.id}`).pick([0, 1, 6])),
    partBytes,
    maxInFlight,
  };
}

/** Keeps a body in memory until it is uploaded: virtual time cannot wait for a disk. */
function openMemoryFile(): SpoolFile {
  const blocks: Uint8Array[] = [];
  return {
    write: async (chunks) => void blocks.push(...chunks),
    read: () => Readable.from(blocks, { objectMode: false }),
    sync: async () => {},
    close: () => {},
  };
}
