import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import { describe, expect, it } from 'vitest';
import { deploymentSettings } from '../../../lib/cdk/settings/read-settings.ts';
import { parseExporterSettings } from '../../../lib/cdk/settings/exporter-settings.ts';
import { isExportError } from '../../../lib/core/errors.ts';
import { retentionDays } from '../../../lib/settings/deployment-settings.ts';
import { aSchedule, type SomeSettings, someSettings } from '../../support/aws/cdk-deployment.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

/** The problems, without what all begin with. */
function problemsOf(settings: unknown): string[] {
  try {
    deploymentSettings(settings);
    return [];
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError')) throw error;
    return error.message.split('\n').map((line) => line.replace(/^settings /, ''));
  }
}
const problems = (settings: SomeSettings) => problemsOf(someSettings(settings));

const baseUrl = 'https://a.example';
const service = { baseUrl };
const named = (...names: readonly string[]) => names.map((name) => ({ name }));

describe('the settings of a deployment', () => {
  it('are validated completely: one line per problem, with its path', () => {
    const lines = problemsOf({
      stackName: '1st',
      services: {
        acme: {
          baseUrl: 'http://reports.example.com',
          pageSize: 4,
          apiKeyEnv: 'sk-live/1',
          apiKeySecret: { existing: '' },
          memoryMebibytes: 128,
        },
        EU: { baseUrl: 'http://a.example' },
        none: 'none',
      },
      bucket: {
        existing: 'Not_A_Bucket',
        prefix: 'a/*/',
        kmsKeyArn: 'alias/ours',
        storageClass: 'GLACIER',
        objectTags: { 'aws:team': 'a', team: 'a;b', note: 'x'.repeat(257) },
      },
      kmsKeyArn: 'alias/mine',
      alarms: { email: 'me', runbookUrl: 'https://wiki.example.com/runbook#top' },
      network: { vpcId: 'my-vpc', subnetIds: [] },
      logRetentionDays: 4,
      exports: [
        { name: 'a', service: 'acme', schedule: { expression: 'cron(0 25 * *)', timeZone: 'Mars/Phobos' } },
        { name: 'A', service: 'acme', size: 11, schedule: { expression: 'daily', freshness: 'P9D' } },
        { name: 'b', service: 7 },
        'none',
      ],
    });
    // services.acme has an unknown field.
    const paths = `
      stackName kmsKeyArn logRetentionDays
      services.acme services.acme.baseUrl services.acme.apiKeyEnv services.acme.apiKeySecret.existing
      services.acme.memoryMebibytes
      services.EU.baseUrl services.none
      bucket.existing bucket.prefix bucket.kmsKeyArn bucket.storageClass
      bucket.objectTags["aws:team"] bucket.objectTags.team bucket.objectTags.note
      alarms.email alarms.runbookUrl network.vpcId network.subnetIds
      exports[0].schedule.expression exports[0].schedule.timeZone
      exports[1].schedule.expression exports[1].schedule.freshness exports[2].service exports[3]`;
    const found = lines.map((line) => line.split(': ')[0] ?? '');
    expect(found.sort()).toEqual(paths.trim().split(/\s+/).sort());
  });

  it('are validated by the rules between fields once each field is valid', () => {
    const lines = problemsOf({
      services: { acme: { baseUrl: 'https://a.example' }, EU: { baseUrl: 'https://a.example' } },
      exports: [
        { name: 'a', service: 'acme' },
        { name: 'A', service: 'acme', size: 11 },
        { name: 'b', service: 'other' },
      ],
    });
    const found = lines.map((line) => line.split(': ')[0] ?? '');
    expect(found.sort()).toEqual(['exports[1].name', 'exports[1].size', 'exports[2].service', 'services.EU']);
  });

  it.each([undefined, null, [], 7, '', ' '])('are required: %j', (value) => {
    expect(problemsOf(value)).toEqual([
      expect.stringMatching(/^(settings: must be an object with the settings|cdk\.json reportExporter: is missing)/),
    ]);
  });

  it('have defaults for everything but the service, the exports and the name of the stack', () => {
    expect(deploymentSettings({ services: { a: service }, exports: named('a') })).toMatchObject({
      bucket: { prefix: '' },
      alarms: {},
      logRetentionDays: 90,
      services: [
        {
          name: 'a',
          prefix: 'a/',
          service: { baseUrl, totalTimeout: 240_000, memoryMebibytes: 512 },
          exports: [{ name: 'a', since: {}, filter: {}, maxInlineWait: 20_000 }],
        },
      ],
    });
  });

  it('give each service its name, its prefix within that of the bucket, its secret, its variable and its exports', () => {
    const { services } = deploymentSettings({
      services: { eu: service, us: { ...service, apiKeySecret: { existing: 'us' }, apiKeyEnv: 'US_KEY' } },
      exports: [
        { name: 'first', service: 'us', size: 1 },
        { name: 'second', service: 'eu' },
        { name: 'third', service: 'us', since: { overlap: 'PT1H' }, schedule: aSchedule() },
      ],
      bucket: { prefix: 'all/' },
    });
    expect(services).toMatchObject([
      { name: 'eu', prefix: 'all/eu/', service, exports: named('second') },
      {
        name: 'us',
        prefix: 'all/us/',
        service: { ...service, apiKeySecret: { existing: 'us' }, apiKeyEnv: 'US_KEY' },
        exports: [
          { name: 'first', size: 1 },
          { name: 'third', since: { overlap: 3_600_000 }, schedule: { freshness: 93_600_000 } },
        ],
      },
    ]);
  });

  it('may keep logs as long as CDK accepts', () => {
    const ofCdk = Object.values(RetentionDays).filter((value) => typeof value === 'number');
    expect(new Set<number>(retentionDays)).toEqual(new Set(ofCdk));
  });
});

const partialArn = 'arn:aws:secretsmanager:eu-central-1:123456789012:secret:reports/api';
const notComplete = [
  expect.stringMatching(/^services\.acme\.apiKeySecret\.existing: must be the name of a secret, or/),
];
const secret = (existing: string) => ({ apiKeySecret: { existing } });
const tooSimilar = (name: string) =>
  `is too similar to ${name}: names must differ in more than case, hyphens and underscores`;
const network = { vpcId: 'vpc-0aaaaaaaaaaaaaaa1', subnetIds: ['subnet-0aaaaaaa'] };
const ids = (prefix: string, count: number) => Array.from({ length: count }, (_, n) => `${prefix}-0aaaaaaa${100 + n}`);
const tags = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`t${index}`, '']));
const tagged = (objectTags: object) => ({ bucket: { objectTags } });
const invalidTag = expect.stringMatching(/: must be a key of 1 to 128 characters, not beginning with aws:/);
const exportsLongerThan = (seconds: string) =>
  expect.stringMatching(new RegExp(`^exports\\[${seconds} may run for 900 s`));
const slices = (MiB: number, parallel: number) => ({
  service: { ...service, filterUntil: 'date.lt', totalTimeout: 'PT1M', maxPageBytes: MiB * 1024 ** 2 },
  exports: [{ name: 'a', pagesPerInvocation: 100, slices: { parallel } }],
});

it.each<[string, SomeSettings, unknown[]]>([
  ['the name of a secret', secret('reports/api'), []],
  ['the complete ARN of a secret', secret(`${partialArn}-AbCd12`), []],
  // The permission to read it would not match.
  ['a partial ARN of a secret', secret(partialArn), notComplete],
  ['an ARN that ends like a name', secret(`${partialArn}-key`), notComplete],
  [
    'an email address for an existing topic',
    { alarms: { email: 'a@example.com', existingTopicArn: 'arn:aws:sns:eu-central-1:123456789012:alarms' } },
    ['alarms.email: must not be set with existingTopicArn: subscribe the address to that topic yourself'],
  ],
  [
    'exports with the same name',
    { exports: named('a', 'a') },
    ['exports[1].name: is the same as exports[0].name: names must be unique'],
  ],
  [
    'exports that differ in case and a hyphen',
    { exports: named('a-b', 'A_B') },
    [`exports[1].name: ${tooSimilar('exports[0].name')}`],
  ],
  ['an export with the name of a property', { exports: named('constructor') }, ['exports[0].name: is reserved by CDK']],
  // A problem of all exports is reported once.
  [
    'pages that take longer than a function',
    { service: { ...service, totalTimeout: 'PT14M' }, exports: named('a', 'b', 'c') },
    [exportsLongerThan('0\\]: one page may take \\d+ s.* function')],
  ],
  [
    'pages that are larger than the storage',
    { service: { ...service, totalTimeout: 'PT1M', maxPageBytes: 10 * 1024 ** 3 } },
    [expect.stringContaining('but a Lambda function has at most 10240 MiB')],
  ],
  ['as large slices as fit', slices(1_024, 4), []],
  [
    'slices that take more time and storage than a function has',
    slices(1_024, 16),
    [
      expect.stringMatching(
        /exports\[0\]: a page of each of 16 slices may take 960 s \(80 s to fetch, 880 s to store\), but a Lambda function may run for 900 s: lower slices\.parallel, /,
      ),
      expect.stringMatching(
        /exports\[0\]: a page of each of 16 slices may need 33024 MiB of ephemeral storage \(32 × 1024 MiB in flight, and 256 MiB\), but .* 10240 MiB: lower slices\.parallel, or the service's maxPageBytes$/,
      ),
    ],
  ],
  ['ten tags', tagged(tags(10)), []],
  ['eleven tags', tagged(tags(11)), ['bucket.objectTags: must have 1 to 10 tags']],
  ['a tag of AWS', tagged({ 'AWS:a': '' }), [invalidTag]],
  ['a tag with another character', tagged({ a: 'x&y' }), [invalidTag]],
  [
    'more subnets and groups than Lambda allows',
    { network: { ...network, subnetIds: ids('subnet', 17), securityGroupIds: ids('sg', 6) } },
    ['network.subnetIds: must have at most 16', 'network.securityGroupIds: must have at most 5'],
  ],
])('%s', (_, settings, expected) => {
  expect(problems(settings)).toEqual(expected);
});

describe('the settings of several services', () => {
  const [here, there] = [{ baseUrl: 'https://a.example/v1' }, { baseUrl: 'https://b.example' }];
  const oauth2 = (tokenUrl: string) => ({ api: { auth: { kind: 'oauth2', tokenUrl, clientId: 'me' } } });
  const shared = { apiKeyEnv: 'REPORT_EXPORT_API_KEY' };
  const both = (
    eu: object,
    us: object,
    exports: readonly object[] = ['eu', 'us'].map((name) => ({ name, service: name })),
  ) => problemsOf({ services: { eu, us }, exports });

  it.each<[string, object, object, string?]>([
    ['the variable that both have by default', here, there, 'us'],
    ['the default and the same name', { ...here, ...shared }, there, 'us'],
    ['variables of their own', here, { ...there, apiKeyEnv: 'US_KEY' }],
    [
      'no variable of an authorization whose address is none: that is another problem',
      here,
      { ...there, api: { auth: { kind: 'oauth', tokenUrl: 'x' } } },
    ],
    ['a service without a secret', here, { ...there, api: { auth: { kind: 'none' } } }],
    [
      'one authorization server',
      { ...here, ...oauth2('https://c.example/a') },
      { ...there, ...oauth2('https://c.example/b') },
    ],
    [
      'two authorization servers',
      { ...here, ...oauth2('https://c.example') },
      { ...here, ...oauth2('https://d.example') },
      'us',
    ],
  ])('name the variable of each key that would go to two vendors: %s', (_, eu, us, unnamed) => {
    expect(/services\.(\w+)\.apiKeyEnv: is required/.exec(both(eu, us).join())?.[1]).toBe(unnamed);
  });

  it('name a secret with a refresh token for one service only', () => {
    const service = (existing?: string, grant?: string) => ({
      ...there,
      api: { auth: { ...oauth2('https://login.example/token').api.auth, grant } },
      apiKeySecret: { existing },
    });
    const problemsWith = (...services: readonly [object, object]) =>
      both(...services).filter((problem) => problem.includes('apiKeySecret'));
    const shared = service('acme/token', 'refresh_token');
    expect(problemsWith(shared, shared)).toEqual([
      'services.us.apiKeySecret.existing: is already used by another service: two services cannot share a refresh token',
    ]);
    expect(problemsWith(shared, service('other', 'refresh_token'))).toEqual([]);
    expect(problemsWith(service('acme/secret'), service('acme/secret'))).toEqual([]);
  });

  it('say which key would be sent where', () => {
    expect(both(here, { ...there, ...oauth2('https://login.example/token') })).toContain(
      'services.us.apiKeyEnv: is required: without it, the key of services.eu for https://a.example, in ' +
        'REPORT_EXPORT_API_KEY, would also be sent to https://login.example. Name a variable for each service, or the same one for both',
    );
  });

  it.each<[string, object[], string[]]>([
    [
      'an export whose service is unknown or left out',
      [{ name: 'a', service: 'asia' }, { name: 'b' }, { name: 'c', service: 'eu' }, { name: 'd', service: 'us' }],
      [
        'exports[0].service: there is no such service. The services: eu, us',
        'exports[1].service: must name one of the services: eu, us',
      ],
    ],
    [
      'a service without exports',
      [{ name: 'a', service: 'us' }],
      ['services.eu: has no export: add one, or remove the service'],
    ],
    [
      // Operators find an export by its name alone.
      'exports of two services with the same name',
      ['eu', 'us'].map((each) => ({ name: 'daily', service: each })),
      ['exports[1].name: is the same as exports[0].name: names must be unique'],
    ],
  ])('reject %s', (_, exports, expected) => expect(both(service, service, exports)).toEqual(expected));

  it.each(['', 'Eu', '1eu', 'e/u', 'e'.repeat(31), 'constructor'])('reject the name %j', (name) => {
    expect(problemsOf({ services: { [name]: service }, exports: named('a') })).toEqual([
      expect.stringMatching(/^services\S+: the name (must be 1 to 30 lower-case|is reserved)/),
    ]);
  });
  it.each(['e', 'e'.repeat(30)])('accept the name %j', (name) => {
    expect(problemsOf({ services: { [name]: service }, exports: named('a') })).toEqual([]);
  });
  it('reject the name of a prototype, which JSON allows', () => {
    const text = `{"services":{"a":${JSON.stringify(service)},"__proto__":{}},"exports":[{"name":"a","service":"a"}]}`;
    expect(problemsOf(text)).toContainEqual(expect.stringMatching(/services\.__proto__: the name must be 1 to 30/));
  });

  it('reject similar names', () => {
    const exports = ['eu-1', 'eu1'].map((each, index) => ({ name: `a${index}`, service: each }));
    expect(problemsOf({ services: { 'eu-1': service, eu1: service }, exports })).toEqual([
      `services.eu1: ${tooSimilar('services.eu-1')}`,
    ]);
  });
});

describe('the settings of a construct', () => {
  const parse = (props: object) => () =>
    parseExporterSettings({ service, ...props } as unknown as Parameters<typeof parseExporterSettings>[0], {
      name: 'reports',
      path: 'Stack/Reports',
    });

  it('are validated by the same rules, also those of several settings, and named as its props', () => {
    const lines = (...problems: readonly string[]) =>
      new RegExp(problems.map((line) => `^Stack/Reports ${line}.*`).join('\n'), 'm');
    const invalid = { prefix: '/a', objectTags: { 'aws:a': '' }, service: { ...service, memoryMebibytes: 1 } };
    expect(parse({ exports: [{ name: 'a b' }], ...invalid })).toThrow(
      lines(
        'service.memoryMebibytes: must be at least 512',
        'exports\\[0\\].name: must be',
        'prefix: must end with a slash',
        'objectTags\\["aws:a"\\]: must be a key',
      ),
    );
    const exports = [{ name: 'a' }, { name: 'b', size: 11 }, { name: 'B', maxInlineWait: 'PT15M' }];
    expect(parse({ name: 'A', exports })).toThrow(
      lines(
        'name: the name must be 1 to 30',
        'exports\\[2\\].name: is too similar',
        'exports\\[1\\].size: must be 1 to 10',
        'exports\\[2\\]: one page may take',
      ),
    );
    expect(parse({})).toThrow('Stack/Reports exports: must be a list');
    expect(parse({ service: undefined, exports: named('a') })).toThrow('Stack/Reports service: is required');
  });
});

describe('a settings file', () => {
  const repositoryFile = join(import.meta.dirname, '../../../report-exporter.json');

  it('in the repository is what cdk.json names, and is valid', () => {
    const { context } = JSON.parse(readFileSync(join(import.meta.dirname, '../../../cdk.json'), 'utf8'));
    expect(context.reportExporter).toBe('report-exporter.json');
    expect(deploymentSettings(repositoryFile)).toEqual(deploymentSettings(readFileSync(repositoryFile, 'utf8')));
  });

  it('has a line for each problem, also for those that only AWS has', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'prod.json');
    const write = (settings: SomeSettings) => writeFileSync(file, JSON.stringify(someSettings(settings), null, 2));
    write({ service: { ...service, pageSize: 4 }, exports: [{ name: 'a' }] });
    expect(problemsOf(file)).toEqual([
      expect.stringContaining(`${file}:5 services.acme: unknown field: "pageSize". There are baseUrl`),
    ]);
    write({ exports: [{ name: 'a', size: 11 }] });
    expect(problemsOf(file)).toEqual([`${file}:11 exports[0].size: must be 1 to 10, unless the service has api`]);
    write({ exports: [{ name: 'a', maxInlineWait: 'PT15M' }] });
    expect(problemsOf(file)).toEqual([
      expect.stringMatching(/:9 exports\[0\]: one page may take \d+ s \(.*\), but a Lambda/),
    ]);
  });
});
