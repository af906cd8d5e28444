/** The predicted size of a stack, compared with synthesized stacks. */

import { describe, expect, it } from 'vitest';
import { deploymentSettings } from '../../lib/cdk/settings/deployment-settings.ts';
import { type StackSize, stackSize } from '../../lib/cdk/settings/stack-size.ts';
import {
  anApp,
  aSchedule,
  deployWith,
  resourcesOf,
  someServices,
  someSettings,
} from '../support/aws/cdk-deployment.ts';
import { cases, fc, test } from '../support/property.ts';

const predictedSize = (settings: object): StackSize => stackSize(deploymentSettings(settings));

/** As CloudFormation receives the template: the CDK command line adds metadata. */
function synthesizedSize(settings: object): Omit<StackSize, 'settingsBytes'> {
  const app = anApp({ 'aws:cdk:enable-path-metadata': true, 'aws:cdk:enable-asset-metadata': true });
  const { template } = deployWith(settings, app);
  return {
    resources: Object.keys(resourcesOf(template)).length,
    templateBytes: Buffer.byteLength(JSON.stringify(template.toJSON())),
  };
}

/** The prediction relative to what was synthesized. */
function compareSizes(settings: object): { readonly resources: number; readonly bytes: number } {
  const [predicted, synthesized] = [predictedSize(settings), synthesizedSize(settings)];
  return {
    resources: predicted.resources - synthesized.resources,
    bytes: predicted.templateBytes / synthesized.templateBytes,
  };
}

/** The exact number of resources, and at most 30 percent too many bytes. */
const close = {
  resources: 0,
  bytes: expect.toSatisfy((ratio: number) => ratio >= 1 && ratio <= 1.3, 'is between 1 and 1.3'),
};

const numbered = (count: number, settings: object = {}) =>
  Array.from({ length: count }, (_, index) => ({ name: `export-${index}`, ...settings }));

/** Names of the given length, different for each index. */
const named = (index: number, length: number) => `${'abcdefghij'[index]}${'x'.repeat(Math.max(0, length - 1))}`;

const anyFreshness = fc.constantFrom('PT26H', 'P2D', 'none');
const anySchedule = fc.option(
  fc
    .record({
      freshness: anyFreshness,
      enabled: fc.boolean(),
      timeZone: fc.constantFrom('UTC', 'America/Argentina/Buenos_Aires'),
      flexibleWindow: fc.constantFrom('PT15M', undefined),
    })
    .map((overrides) => aSchedule(overrides)),
  { nil: undefined },
);
const anyFilter = fc.dictionary(
  fc.string({ maxLength: 10 }).map((key) => `k${key}`),
  fc.string({ unit: 'grapheme' }),
  { maxKeys: 20 },
);
const anyExport = fc.record({
  length: fc.integer({ min: 2, max: 39 }),
  schedule: anySchedule,
  filter: anyFilter,
  expect: fc.constantFrom(undefined, { minReports: 1, reportsEvery: 'P8D' }),
});
const longKeyArn = 'arn:aws-us-gov:kms:us-gov-west-1:123456789012:key/mrk-1234abcd12ab34cd56ef1234567890ab';
const accounts = (count: number) => Array.from({ length: count }, (_, index) => String(210_987_654_300 + index));
const ids = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${prefix}-0aaaaaaaaaaaaaa${10 + index}`);
const anyNetwork = fc.constantFrom(
  undefined,
  { vpcId: 'vpc-0aaaaaaaa', subnetIds: ids('subnet', 1) },
  { vpcId: 'vpc-0aaaaaaaa', subnetIds: ids('subnet', 16), securityGroupIds: ids('sg', 5) },
  {
    vpcId: 'vpc-0aaaaaaaa',
    subnetIds: ids('subnet', 3),
    createEndpoints: ['s3', 'dynamodb', 'secretsmanager', 'states'],
    routeTableIds: ids('rtb', 20),
    vpcCidrs: ['10.0.0.0/16', '100.64.0.0/16'],
  },
);
const anyLifecycle = fc.constantFrom(
  { expireAfterDays: 365 },
  {
    expireAfterDays: 3_650,
    deleteNoncurrentAfterDays: 90,
    transitions: ['STANDARD_IA', 'INTELLIGENT_TIERING', 'GLACIER_IR', 'GLACIER', 'DEEP_ARCHIVE'].map(
      (storageClass, index) => ({ storageClass, afterDays: 100 * (index + 1) }),
    ),
  },
);
const anyService = fc.record({
  length: fc.integer({ min: 2, max: 30 }),
  apiKeySecret: fc.constantFrom(
    {},
    { existing: 'our/key', field: 'the "field"' },
    { kmsKeyArn: longKeyArn },
    { existing: 'arn:aws:secretsmanager:eu-central-1:123456789012:secret:reports/key-AbCdEf' },
    { existing: 'k'.repeat(512) },
  ),
  readers: fc.constantFrom(undefined, 1, 50),
  filterUntil: fc.constantFrom(undefined, 'date.lt'),
  exports: fc.array(anyExport, { minLength: 1, maxLength: 8 }),
});
const anyDeployment = fc
  .record({
    stackName: fc.integer({ min: 1, max: 128 }).map((length) => 'S'.repeat(length)),
    bucket: fc.oneof(
      fc.constantFrom(
        {},
        { prefix: 'a/'.repeat(100) },
        { existing: 'b'.repeat(63), prefix: 'all/', kmsKeyArn: longKeyArn },
      ),
      anyLifecycle.map((lifecycle) => ({ lifecycle, prefix: 'all/' })),
    ),
    network: anyNetwork,
    permissionsBoundary: fc.constantFrom(undefined, 'Boundary', `arn:aws:iam::123456789012:policy/${'b'.repeat(100)}`),
    tracing: fc.constantFrom(undefined, false),
    env: fc.constantFrom(undefined, { account: '123456789012' }),
    kmsKeyArn: fc.constantFrom(undefined, longKeyArn),
    alarms: fc.constantFrom(
      {},
      { perExport: false, runbookUrl: `https://wiki.example.com/${'r'.repeat(150)}` },
      { email: 'operator@example.com', perExport: true },
      { existingTopicArn: `arn:aws:sns:eu-central-1:123456789012:${'t'.repeat(256)}` },
    ),
    services: fc.array(anyService, { minLength: 1, maxLength: 3 }),
  })
  .map(({ services, ...shared }) => ({
    ...shared,
    services: Object.fromEntries(
      services.map(({ length, apiKeySecret, readers, filterUntil }, service) => [
        named(service, length),
        {
          baseUrl: 'https://reports.example.com',
          apiKeySecret,
          ...(filterUntil === undefined ? {} : { filterUntil }),
          ...(readers === undefined || 'existing' in shared.bucket ? {} : { readerAccounts: accounts(readers) }),
        },
      ]),
    ),
    exports: services.flatMap(({ length, exports }, service) =>
      exports.map(({ length: nameLength, schedule, filter }, index) => ({
        name: `${'stu'[service]}${named(index, nameLength)}`,
        service: named(service, length),
        filter,
        ...(schedule === undefined ? {} : { schedule }),
      })),
    ),
  }));

describe('the predicted size of a stack', () => {
  it.each([
    ['one export', someSettings()],
    ['one export that is started manually', someSettings({ exports: [{ name: 'a' }] })],
    ['common alarms', someSettings({ alarms: { perExport: false } })],
    ['more exports than have alarms of their own', someSettings({ exports: numbered(40, { schedule: aSchedule() }) })],
    ['two services', someServices()],
    ['backfills', someSettings({ service: { baseUrl: 'https://reports.example.com', filterUntil: 'date.lt' } })],
    [
      'existing resources',
      someServices({
        bucket: { existing: 'our-bucket', prefix: 'all/' },
        alarms: { existingTopicArn: 'arn:aws:sns:eu-central-1:123456789012:our-alarms' },
        services: Object.fromEntries(
          Object.entries(someServices().services).map(([name, service]) => [
            name,
            { ...service, apiKeySecret: { existing: 'our/key' } },
          ]),
        ),
      }),
    ],
    [
      'a key and an email address',
      someSettings({
        kmsKeyArn: 'arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555',
        alarms: { email: 'operator@example.com' },
      }),
    ],
    [
      'a VPC with its endpoints, a boundary, a lifecycle and readers',
      someSettings({
        network: {
          vpcId: 'vpc-0aaaaaaaa',
          subnetIds: ids('subnet', 2),
          createEndpoints: ['s3', 'dynamodb', 'secretsmanager', 'states'],
          routeTableIds: ids('rtb', 2),
          vpcCidrs: ['10.0.0.0/16'],
        },
        permissionsBoundary: 'Boundary',
        bucket: { lifecycle: { expireAfterDays: 365 } },
        kmsKeyArn: 'arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555',
        service: { baseUrl: 'https://reports.example.com', readerAccounts: accounts(3) },
      }),
    ],
  ])('has the exact number of resources, and at most 30 percent too many bytes: %s', (_, settings) => {
    expect(compareSizes(settings)).toEqual(close);
  });

  it('is what the largest stack has', () => {
    const settings = someSettings({ exports: numbered(227, { schedule: aSchedule() }) });
    expect(compareSizes(settings)).toEqual(close);
    expect(predictedSize(settings)).toMatchObject({ resources: 499 });
    expect(predictedSize(settings).templateBytes).toBeLessThan(1_000_000);
  });

  // Each case synthesizes a stack, which takes seconds on a busy machine.
  const timeoutMs = 1_200_000;
  const isRight = (settings: object) => {
    expect(compareSizes(settings)).toEqual(close);
  };
  test.prop([anyDeployment], { numRuns: cases(50) })('is right for any settings', isRight, timeoutMs);
});
