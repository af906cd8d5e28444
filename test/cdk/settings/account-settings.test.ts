/** The settings with which a stack fits the rules of an AWS account: what is rejected, and how. */

import { describe, expect, it } from 'vitest';
import { deploymentSettings } from '../../../lib/cdk/settings/deployment-settings.ts';
import { parseExporterSettings } from '../../../lib/cdk/settings/exporter-settings.ts';
import { isExportError } from '../../../lib/core/errors.ts';
import { type SomeSettings, someSettings } from '../../support/aws/cdk-deployment.ts';

const service = { baseUrl: 'https://reports.example.com' };

/** The problems without what all begin with. */
function problemsOf(settings: object): string[] {
  try {
    deploymentSettings(settings);
    return [];
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError')) throw error;
    return error.message.split('\n').map((line) => line.replace('settings ', ''));
  }
}
const problems = (settings: SomeSettings) => problemsOf(someSettings(settings));

describe('the settings of an account', () => {
  it('are rejected with every problem, each with its path', () => {
    const lines = problems({
      service: {
        ...service,
        maxConcurrentPages: 8,
        exportPage: { memoryMebibytes: 128, reservedConcurrency: 4 },
        readerAccounts: ['1234', '210987654321'],
      },
      bucket: {
        existing: 'our-bucket',
        storageClass: 'GLACIER',
        objectTags: { 'aws:team': 'a', team: 'a;b', note: 'x'.repeat(257) },
        lifecycle: { expireAfterDays: 10, transitions: [{ storageClass: 'STANDARD_IA', afterDays: 20 }] },
      },
      network: { vpcId: 'my-vpc', subnetIds: [] },
      env: { account: 123, region: 'Frankfurt' },
      terminationProtection: 'yes',
      tracing: 1,
      logLevel: 'DEBUG',
    });
    const paths = lines.map((line) => line.split(': ')[0]);
    expect(paths).toHaveLength(15);
    expect(new Set(paths)).toEqual(
      new Set([
        'services.acme.exportPage.memoryMebibytes',
        'services.acme.readerAccounts[0]',
        'services.acme.readerAccounts',
        'bucket.storageClass',
        'bucket.objectTags["aws:team"]',
        'bucket.objectTags.team',
        'bucket.objectTags.note',
        'bucket.lifecycle',
        'network.vpcId',
        'network.subnetIds',
        'env.account',
        'env.region',
        'terminationProtection',
        'tracing',
        'logLevel',
      ]),
    );
  });

  it('reject what the stack cannot change in a bucket that it does not create', () => {
    const lifecycle = { expireAfterDays: 30 };
    const readerAccounts = ['210987654321'];
    expect(
      problems({ bucket: { existing: 'our-bucket', lifecycle }, service: { ...service, readerAccounts } }),
    ).toEqual([
      'bucket.lifecycle: must not be set with bucket.existing: the stack cannot change a bucket that it does not create, so add ' +
        'the rules to it yourself (docs/bucket.md, "Age of pages")',
      'services.acme.readerAccounts: must not be set with bucket.existing: the stack cannot change the policy of a bucket that it ' +
        'does not create, so add the statements to it yourself (docs/consumers.md, "Other accounts")',
    ]);
    // Each request to store an object has these.
    expect(
      problems({ bucket: { existing: 'our-bucket', storageClass: 'STANDARD_IA', objectTags: { a: 'b' } } }),
    ).toEqual([]);
  });
});

describe('a lifecycle', () => {
  const lifecycleProblems = (lifecycle: object) =>
    problems({ bucket: { lifecycle } }).map((line) => line.replace('bucket.lifecycle', ''));
  it('has an effect', () => {
    expect(lifecycleProblems({})).toEqual([': must have expireAfterDays or transitions']);
    expect(lifecycleProblems({ deleteNoncurrentAfterDays: 3 })).toEqual([
      ': must have expireAfterDays or transitions',
      '.deleteNoncurrentAfterDays: must not be set without expireAfterDays',
    ]);
    expect(lifecycleProblems({ transitions: [] })).toContainEqual('.transitions: must have at least one');
  });
});

describe('tags of objects', () => {
  const objectTags = (tags: object) => problems({ bucket: { objectTags: tags } });
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`t${index}`, '']));

  it('are within the limits of AWS', () => {
    expect(objectTags({ ['k'.repeat(128)]: 'v'.repeat(256), 'Größe +-=._:/@': 'ä 1' })).toEqual([]);
    expect(objectTags(many(10))).toEqual([]);
    expect(objectTags(many(11))).toEqual(['bucket.objectTags: must have at most 10 tags']);
    expect(objectTags({ '': 'a' })).toEqual([expect.stringMatching(/: the key must have 1 to 128 characters$/)]);
    expect(objectTags({ ['k'.repeat(129)]: '' })).toEqual([
      expect.stringMatching(/: the key must have 1 to 128 characters$/),
    ]);
    expect(objectTags({ a: 1 })).toEqual(['bucket.objectTags.a: must be a string']);
    expect(objectTags({ 'AWS:a': '' })).toEqual([
      expect.stringMatching(/: the key must not begin with aws:, which AWS reserves$/),
    ]);
    expect(objectTags({ a: 'x&y' })).toEqual([
      'bucket.objectTags.a: must have only letters, digits, spaces and + - = . _ : / @',
    ]);
  });
});

describe('the network', () => {
  const network = { vpcId: 'vpc-0aaaaaaaaaaaaaaa1', subnetIds: ['subnet-0aaaaaaa'] };

  it('has as many subnets and groups as Lambda allows, each once', () => {
    const ids = (prefix: string, count: number) =>
      Array.from({ length: count }, (_, n) => `${prefix}-0aaaaaaa${100 + n}`);
    expect(problems({ network: { ...network, subnetIds: ids('subnet', 17), securityGroupIds: ids('sg', 6) } })).toEqual(
      ['network.subnetIds: must have at most 16', 'network.securityGroupIds: must have at most 5'],
    );
    const [twice] = network.subnetIds;
    expect(problems({ network: { ...network, subnetIds: [twice, twice] } })).toEqual([
      'network.subnetIds: must not have a value twice',
    ]);
    expect(problems({ network: { subnetIds: network.subnetIds } })).toEqual(['network.vpcId: is required']);
  });
});

describe('account and region', () => {
  it('must be those of the resources that the stack is given', () => {
    const key = 'arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555';
    const elsewhere = {
      env: { account: '123456789012', region: 'eu-central-1' },
      kmsKeyArn: key,
      bucket: { kmsKeyArn: key },
      service: {
        ...service,
        proxyUrl: 'http://proxy.example.com:3128',
        proxyCredentialsSecret: 'arn:aws:secretsmanager:us-east-1:123456789012:secret:reports/proxy-AbCdEf',
        tls: { clientCertificateSecret: 'arn:aws:secretsmanager:us-east-1:123456789012:secret:reports/client-AbCdEf' },
      },
      alarms: { existingTopicArn: 'arn:aws:sns:us-east-1:123456789012:our-alarms' },
      apiKeySecret: {
        existing: 'arn:aws:secretsmanager:us-east-1:123456789012:secret:reports/key-AbCdEf',
        kmsKeyArn: key,
      },
    };
    const region = 'is in another region than the stack, for which env.region is eu-central-1';
    expect(problems(elsewhere)).toEqual([
      `kmsKeyArn: ${region}`,
      `alarms.existingTopicArn: ${region}`,
      `bucket.kmsKeyArn: ${region}`,
      `services.acme.apiKeySecret.existing: ${region}`,
      `services.acme.apiKeySecret.kmsKeyArn: ${region}`,
      `services.acme.tls.clientCertificateSecret: ${region}`,
      `services.acme.proxyCredentialsSecret: ${region}`,
    ]);
    expect(problems({ ...elsewhere, env: {} })).toEqual([]);
    // A key, topic or secret of another account may be shared.
    const shared = { account: '210987654321', region: 'us-east-1' };
    expect(problems({ ...elsewhere, env: shared })).toEqual([]);
    const names = {
      proxyUrl: 'http://proxy.example.com',
      proxyCredentialsSecret: 'a',
      tls: { clientCertificateSecret: 'b' },
    };
    expect(problems({ env: shared, service: { ...service, ...names } })).toEqual([]);
    expect(problems({ env: shared, apiKeySecret: { existing: 'our/key' } })).toEqual([]);
  });
});

describe('limits that concern several settings', () => {
  it('reserve an invocation for each export of the service, however many pages may be requested at the same time', () => {
    const withConcurrency = (reservedConcurrency: number, maxConcurrentPages?: number) =>
      problemsOf({
        services: {
          acme: {
            ...service,
            exportPage: { reservedConcurrency },
            ...(maxConcurrentPages === undefined ? {} : { maxConcurrentPages }),
          },
          other: { ...service, exportPage: { reservedConcurrency: 1 } },
        },
        exports: [...['a', 'b', 'c'].map((name) => ({ name, service: 'acme' })), { name: 'd', service: 'other' }],
      });
    for (const maxConcurrentPages of [undefined, 1, 8]) {
      expect(withConcurrency(2, maxConcurrentPages)).toEqual([
        'services.acme.exportPage.reservedConcurrency: must be at least 3: the number of exports of the service, each of which may ' +
          'need an invocation at the same time, also while it waits because of maxConcurrentPages',
      ]);
      expect(withConcurrency(3, maxConcurrentPages)).toEqual([]);
    }
  });

  it('are the same for the construct, which names every problem', () => {
    const construct = { name: 'reports', path: 'Stack/Reports' };
    const parse = () =>
      parseExporterSettings(
        {
          name: 'reports',
          service,
          exports: [{ name: 'nightly' }, { name: 'hourly' }],
          exportPage: { reservedConcurrency: 1 },
          lifecycle: { expireAfterDays: 3 },
          bucket: {},
        } as Parameters<typeof parseExporterSettings>[0],
        construct,
      );
    expect(parse).toThrow(
      [
        'Stack/Reports exportPage.reservedConcurrency: must be at least 2: the number of exports of the service, each of which may ' +
          'need an invocation at the same time, also while it waits because of maxConcurrentPages',
        'Stack/Reports lifecycle: must not be set with bucket: add the rules to that bucket (docs/bucket.md, "Age of pages")',
      ].join('\n'),
    );
    expect(() =>
      parseExporterSettings(
        {
          name: 'reports',
          service,
          exports: [{ name: 'a b' }, { name: 'b', size: 11 }],
          objectTags: { 'aws:a': '' },
          readerAccounts: ['1'],
        } as Parameters<typeof parseExporterSettings>[0],
        construct,
      ),
    ).toThrow(
      /exports\[0\]\.name: .*objectTags\["aws:a"\]: the key must not begin.*readerAccounts\[0\]: must be an account ID of 12 digits.*exports\[1\]\.size: must be 1 to 10/s,
    );
  });
});
