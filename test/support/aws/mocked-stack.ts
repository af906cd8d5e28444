/** A deployed stack whose AWS services are mocked. Counts the requests. */

import {
  CloudFormationClient,
  DescribeStackResourceCommand,
  DescribeStacksCommand,
  type Stack,
} from '@aws-sdk/client-cloudformation';
import { DynamoDBClient, GetItemCommand, type GetItemCommandInput, QueryCommand } from '@aws-sdk/client-dynamodb';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { S3Client } from '@aws-sdk/client-s3';
import { ListSchedulesCommand, SchedulerClient, type ScheduleSummary } from '@aws-sdk/client-scheduler';
import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { SFNClient } from '@aws-sdk/client-sfn';
import { SNSClient } from '@aws-sdk/client-sns';
import { mockClient } from 'aws-sdk-client-mock';
import { vi } from 'vitest';
import { type Item, toStateItem } from '../../../lib/aws/dynamodb/items.ts';
import { openStack } from '../../../lib/aws/stack/stack.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import type { ExportState } from '../../../lib/core/model.ts';
import type { Runtime } from '../../../lib/core/ports.ts';
import {
  type ServiceMetadata,
  type ServiceOutput,
  serviceMetadataKey,
  settingsVersion,
} from '../../../lib/settings/deployed-settings.ts';
import type { ScheduleSettings } from '../../../lib/settings/schedule-settings.ts';
import type { ExportProps, ServiceProps } from '../../../lib/settings/props.ts';
import { aDeployment } from '../settings.ts';

export const stackName = 'ReportExporter';
export const arn = (kind: string, name: string) => `arn:aws:states:eu-central-1:123456789012:${kind}:${name}`;
export const awsError = (name: string, message = name) => Object.assign(new Error(message), { name });

type Schedules = Readonly<Record<string, ScheduleSettings>>;

/** A service as a test describes it. */
export interface AService {
  readonly name: string;
  readonly exports: readonly (string | ExportProps)[];
  readonly schedules?: Schedules;
  readonly settings?: Partial<ServiceProps>;
  readonly output?: Partial<ServiceOutput>;
  /** The version of the settings in the metadata. Absent: the one that this version reads. */
  readonly version?: number;
}

export function serviceOutput({ name, output }: AService): ServiceOutput {
  return {
    version: settingsVersion,
    service: name,
    stateMachineArn: arn('stateMachine', name),
    stateMachineId: `${name}StateMachine`,
    exportPageFunction: `arn:aws:lambda:eu-central-1:123456789012:function:${name}-ExportPage`,
    table: 'page-log',
    bucket: 'bucket',
    prefix: `reports/${name}/`,
    apiKeySecret: `arn:aws:secretsmanager:eu-central-1:123456789012:secret:${name}-AbCdEf`,
    scheduleGroup: `${name}-schedules`,
    ...output,
  };
}

/** The settings of the service as they are parsed from a file. */
export function parsedService({ name, exports, settings }: AService) {
  const given = {
    baseUrl: `https://${name}.example.com/`,
    ...(settings?.api === undefined && { vendor: 'ACME' }),
    ...settings,
  };
  return aDeployment(given, ...exports.map((each) => (typeof each === 'string' ? { name: each } : each)));
}

function serviceMetadata({ schedules = {}, version = settingsVersion, ...service }: AService): ServiceMetadata {
  const parsed = parsedService(service);
  return {
    version: version as typeof settingsVersion,
    service: parsed.service,
    exports: parsed.exports.map((each) => ({ ...each, schedule: schedules[each.name] })),
  };
}

/** A schedule that starts every night. */
export const nightly = (overrides: Partial<Schedules[string]> = {}): Schedules[string] => ({
  expression: 'cron(0 2 * * ? *)',
  timeZone: 'UTC',
  enabled: true,
  freshness: 26 * 3_600_000,
  ...overrides,
});

export const aStack = (services: readonly AService[], overrides: Partial<Stack> = {}): Stack => ({
  StackName: stackName,
  StackStatus: 'UPDATE_COMPLETE',
  CreationTime: new Date(0),
  Outputs: [
    { OutputKey: 'BucketName', OutputValue: 'bucket' },
    ...services.map((service) => ({
      OutputKey: `${service.name}Service`,
      OutputValue: JSON.stringify(serviceOutput(service)),
    })),
  ],
  ...overrides,
});

/** Sets what the SDK needs. Undo with `vi.unstubAllEnvs()`. */
export function stubAwsEnvironment(): void {
  vi.stubEnv('AWS_REGION', 'eu-central-1');
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'access-key');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'secret-key');
}

export type MockedAws = ReturnType<typeof mockAws>;

/** Mocks the stack. Every other request fails until the test mocks it. */
export function mockAws(services: readonly AService[]) {
  const clients = {
    cloudFormation: mockClient(CloudFormationClient),
    scheduler: mockClient(SchedulerClient),
    stepFunctions: mockClient(SFNClient),
    dynamoDb: mockClient(DynamoDBClient),
    s3: mockClient(S3Client),
    secretsManager: mockClient(SecretsManagerClient),
    lambda: mockClient(LambdaClient),
    sns: mockClient(SNSClient),
  };
  const all = Object.entries(clients) as [string, typeof clients.s3][];
  for (const [name, client] of all) {
    client.onAnyCommand().rejects(new Error(`a request to ${name} that the test does not expect`));
  }
  clients.cloudFormation.on(DescribeStacksCommand, { StackName: stackName }).resolves({ Stacks: [aStack(services)] });
  for (const service of services) {
    clients.cloudFormation
      .on(DescribeStackResourceCommand, { StackName: stackName, LogicalResourceId: `${service.name}StateMachine` })
      // The deployment writes text within the metadata, because CloudFormation rejects a null.
      .resolves(resourceWith({ [serviceMetadataKey]: JSON.stringify(serviceMetadata(service)), 'aws:cdk:path': 'x' }));
  }
  return {
    ...clients,
    /** The requests so far: the name of each command, and how often it was sent. */
    requests(): Readonly<Record<string, number>> {
      const counts: Record<string, number> = {};
      for (const [, client] of all) {
        for (const { args } of client.calls()) {
          const name = args[0].constructor.name.replace(/Command$/, '');
          counts[name] = (counts[name] ?? 0) + 1;
        }
      }
      return counts;
    },
    restore() {
      for (const [, client] of all) client.restore();
    },
  };
}

/** The response to DescribeStackResource. */
export const resourceWith = (metadata: unknown) => ({
  StackResourceDetail: {
    LogicalResourceId: 'x',
    ResourceType: 'AWS::StepFunctions::StateMachine',
    LastUpdatedTimestamp: new Date(0),
    ResourceStatus: 'CREATE_COMPLETE' as const,
    Metadata: typeof metadata === 'string' ? metadata : JSON.stringify(metadata),
  },
});

export const openMockedStack = (runtime: Runtime = systemRuntime, name = stackName) =>
  openStack({ stackName: name, env: {}, runtime });

/** What a stack has. */
export interface StackContent {
  readonly services: readonly AService[];
  /** By service. */
  readonly states?: Readonly<Record<string, readonly ExportState[]>>;
  /** Changes the schedules as they are listed. */
  readonly schedules?: ((schedules: ScheduleSummary[]) => ScheduleSummary[]) | undefined;
}

/** Mocks the stack with its states and schedules. Nothing runs. */
export function mockStack({ services, states = {}, schedules }: StackContent): MockedAws {
  const idOf = ({ pk, sk }: Item) => `${pk?.S} ${sk?.S}`;
  const stored = Object.entries(states).flatMap(([service, list]) => list.map((state) => toStateItem(service, state)));
  const items = new Map(stored.map((item) => [idOf(item), item]));
  const mocked = mockAws(services);
  mocked.dynamoDb.on(GetItemCommand).callsFake(({ Key = {} }: GetItemCommandInput) => ({ Item: items.get(idOf(Key)) }));
  mocked.dynamoDb.on(QueryCommand).resolves({ Items: [] });
  mockSchedules(mocked, services, schedules);
  return mocked;
}

/** Mocks the lists of schedules as they were deployed, or changed since. */
export function mockSchedules(
  { scheduler }: Pick<MockedAws, 'scheduler'>,
  services: readonly AService[],
  change: (schedules: ScheduleSummary[]) => ScheduleSummary[] = (each) => each,
): void {
  for (const { name, schedules = {} } of services) {
    const list = Object.keys(schedules).map((Name): ScheduleSummary => ({
      Name,
      State: schedules[Name]?.enabled === false ? 'DISABLED' : 'ENABLED',
      CreationDate: new Date('2026-11-01T00:00:00Z'),
      LastModificationDate: new Date('2026-11-01T00:00:00Z'),
    }));
    scheduler.on(ListSchedulesCommand, { GroupName: `${name}-schedules` }).resolves({ Schedules: change(list) });
  }
}
