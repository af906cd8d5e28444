import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import { describe, expect, it } from 'vitest';
import { deploymentSettings } from '../../../lib/cdk/settings/deployment-settings.ts';
import { isExportError } from '../../../lib/core/errors.ts';
import { retentionDays } from '../../../lib/settings/deployment-settings.ts';
import { aSchedule, someServices, someSettings } from '../../support/aws/cdk-deployment.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

/** The lines of the ConfigurationError; rethrows any other error. */
function problemsOf(settings: unknown): string[] {
  try {
    deploymentSettings(settings);
    return [];
  } catch (error) {
    if (isExportError(error, 'ConfigurationError')) return error.message.split('\n');
    throw error;
  }
}

function onlyServiceOf(settings: unknown) {
  const [only, ...others] = deploymentSettings(settings).services;
  if (only === undefined || others.length > 0) throw new Error('not one service');
  return only;
}

const tooSimilar = 'is too similar to exports[0].name: names must differ in more than case, hyphens and underscores';

describe('the settings of a deployment', () => {
  it('are validated completely: one line per problem, with its path', () => {
    const lines = problemsOf({
      stackName: '1st',
      services: {
        acme: {
          baseUrl: 'http://reports.example.com',
          pageSize: 4,
          apiKeyEnv: 'sk-live/1',
          apiKeySecret: { kmsKeyArn: 'key' },
        },
      },
      bucket: { existing: 'Not_A_Bucket', prefix: 'a/*/', kmsKeyArn: 'alias/ours' },
      kmsKeyArn: 'alias/mine',
      alarms: { email: 'me', perExport: 'yes', runbookUrl: 'https://wiki.example.com/runbook#top' },
      logRetentionDays: 4,
      exports: [
        { name: 'nightly', schedule: { expression: 'cron(0 25 * *)', timeZone: 'Mars/Phobos' } },
        { name: 'Nightly', size: 11, schedule: { expression: 'daily', freshness: 'P9D', flexibleWindow: 'PT30S' } },
      ],
    });
    const paths = lines.map((line) => /^settings (\S+): ./.exec(line)?.[1]);
    expect(new Set(paths)).toEqual(
      new Set([
        'stackName',
        'services.acme.baseUrl',
        'services.acme.apiKeyEnv',
        'services.acme',
        'bucket.existing',
        'bucket.prefix',
        'bucket.kmsKeyArn',
        'services.acme.apiKeySecret.kmsKeyArn',
        'kmsKeyArn',
        'alarms.email',
        'alarms.perExport',
        'alarms.runbookUrl',
        'logRetentionDays',
        'exports[0].schedule.expression',
        'exports[0].schedule.timeZone',
        'exports[1].name',
        'exports[1].size',
        'exports[1].schedule.expression',
        'exports[1].schedule.freshness',
        'exports[1].schedule.flexibleWindow',
      ]),
    );
    expect(lines).toHaveLength(20);
  });

  it('name a secret, or its complete ARN: the permission to read it would not match another', () => {
    const parse = (existing: string) =>
      onlyServiceOf(someSettings({ apiKeySecret: { existing } })).apiKeySecret.existing;
    const partial = 'arn:aws:secretsmanager:eu-central-1:123456789012:secret:reports/api';
    for (const valid of ['reports/api', `${partial}-AbCd12`]) expect(parse(valid)).toBe(valid);
    for (const invalid of [partial, `${partial}-key`, `${partial}-AbC_12`]) {
      expect(() => parse(invalid)).toThrow(
        'apiKeySecret.existing: must be the name of a secret, or its complete ARN, which ends with a hyphen and six random characters',
      );
    }
  });

  it.each([undefined, null, [], 7, '', ' '])('are required: %j', (value) => {
    expect(problemsOf(value)).toEqual([
      expect.stringMatching(/^(settings: must be an object with the settings|cdk\.json reportExporter: is missing)/),
    ]);
  });

  it('can be JSON text, as passed on the CDK command line', () => {
    expect(deploymentSettings(JSON.stringify(someSettings()))).toEqual(deploymentSettings(someSettings()));
  });

  it('have defaults for everything but the service, the exports and the name of the stack', () => {
    expect(
      deploymentSettings({ services: { a: { baseUrl: 'https://a.example' } }, exports: [{ name: 'a' }] }),
    ).toMatchObject({
      bucket: { prefix: '' },
      alarms: {},
      logRetentionDays: 90,
      services: [
        {
          name: 'a',
          prefix: 'a/',
          service: { baseUrl: 'https://a.example', vendor: 'SERVICE', totalTimeout: 240_000 },
          apiKeySecret: {},
          apiKeyEnv: 'REPORT_EXPORT_API_KEY',
          exports: [{ name: 'a', since: {}, filter: {}, maxInlineWait: 20_000 }],
        },
      ],
    });
  });

  it('have durations in milliseconds', () => {
    const written = { name: 'nightly', since: { overlap: 'PT15M' }, maxInlineWait: 'PT5S', schedule: aSchedule() };
    expect(onlyServiceOf(someSettings({ exports: [written] })).exports).toMatchObject([
      { name: 'nightly', since: { overlap: 900_000 }, maxInlineWait: 5_000, schedule: { freshness: 93_600_000 } },
    ]);
  });

  it('give the only service its prefix within that of the bucket, and the secret', () => {
    const apiKeySecret = { existing: 'our/key', field: 'key' };
    expect(onlyServiceOf(someSettings({ bucket: { prefix: 'all/' }, apiKeySecret }))).toMatchObject({
      name: 'acme',
      prefix: 'all/acme/',
      service: { baseUrl: 'https://reports.example.com', vendor: 'ACME' },
      apiKeySecret,
    });
  });

  it.each([
    ['nightly', 'nightly', 'is the same as exports[0].name: names must be unique'],
    ['nightly', 'NIGHTLY', tooSimilar],
    ['daily-reports', 'daily_reports', tooSimilar],
    ['ab', 'a-b', tooSimilar],
  ])('reject two exports with the names %s and %s', (one, other, problem) => {
    expect(problemsOf(someSettings({ exports: [{ name: one }, { name: other }] }))).toEqual([
      `settings exports[1].name: ${problem}`,
    ]);
  });

  it('report similar names along with other problems', () => {
    const lines = problemsOf(someSettings({ exports: [{ name: 'a', size: 0 }, { name: 'a' }] }));
    expect(lines).toHaveLength(2);
    expect(lines).toContainEqual(expect.stringContaining('settings exports[1].name: is the same as exports[0].name'));
  });

  it('may have filters of any size that a template holds', () => {
    const filter = { type: '"'.repeat(20_000) };
    expect(problemsOf(someSettings({ exports: [{ name: 'small' }, { name: 'large', filter }] }))).toEqual([]);
  });

  it('must not let a page take more time or storage than a function has', () => {
    // A problem of all exports is reported once.
    const exports = ['a', 'b', 'c'].map((name) => ({ name }));
    expect(
      problemsOf(someSettings({ service: { baseUrl: 'https://a.example', totalTimeout: 'PT14M' }, exports })),
    ).toEqual([expect.stringMatching(/settings exports\[0\]: .*but a Lambda function may run for 900 s/)]);
    const patient = { name: 'patient', maxInlineWait: 'PT14M' };
    expect(problemsOf(someSettings({ exports: [...exports, patient] }))).toEqual([
      expect.stringMatching(/settings exports\[3\]: .*but a Lambda function may run for 900 s/),
    ]);
    const maxPageBytes = 10 * 1024 ** 3;
    expect(
      problemsOf(someSettings({ service: { baseUrl: 'https://a.example', totalTimeout: 'PT1M', maxPageBytes } })),
    ).toEqual([expect.stringContaining('but a Lambda function has at most 10240 MiB')]);
  });

  it('must not let the slices of a run take more time or storage than a function has', () => {
    const problems = (maxPageMebibytes: number, parallel: number) =>
      problemsOf(
        someSettings({
          service: {
            baseUrl: 'https://a.example',
            filterUntil: 'date.lt',
            totalTimeout: 'PT1M',
            maxPageBytes: maxPageMebibytes * 1024 ** 2,
          },
          exports: [{ name: 'a', pagesPerInvocation: 100, slices: { parallel } }],
        }),
      );
    expect(problems(256, 16)).toEqual([]);
    expect(problems(1_024, 4)).toEqual([]);
    expect(problems(1_024, 16)).toEqual([
      expect.stringMatching(
        /exports\[0\]: a page of each of 16 slices may take 960 s \(80 s to fetch, 880 s to store\), but a Lambda function may run for 900 s: lower slices\.parallel, /,
      ),
      expect.stringMatching(
        /exports\[0\]: a page of each of 16 slices may need 33024 MiB of ephemeral storage \(32 × 1024 MiB in flight, and 256 MiB\), but .* 10240 MiB: lower slices\.parallel, or the service's maxPageBytes$/,
      ),
    ]);
  });

  it('reject an email address for an existing topic', () => {
    const alarms = { email: 'a@example.com', existingTopicArn: 'arn:aws:sns:eu-central-1:123456789012:alarms' };
    expect(problemsOf(someSettings({ alarms }))).toEqual([expect.stringContaining('alarms.email: ')]);
  });
});

describe('the settings of several services', () => {
  const service = { baseUrl: 'https://a.example' };

  it('give each its name, its prefix within that of the bucket, its secret, its variable and its exports', () => {
    const settings = someServices({
      services: { eu: service, us: { ...service, apiKeySecret: { field: 'us' }, apiKeyEnv: 'US_KEY' } },
      exports: [
        { name: 'first', service: 'us', size: 1 },
        { name: 'second', service: 'eu' },
        { name: 'third', service: 'us', since: { overlap: 'PT1H' } },
      ],
      bucket: { prefix: 'all/' },
    });
    expect(deploymentSettings(settings).services).toMatchObject([
      {
        name: 'eu',
        prefix: 'all/eu/',
        service,
        apiKeySecret: {},
        apiKeyEnv: 'REPORT_EXPORT_API_KEY',
        exports: [{ name: 'second' }],
      },
      {
        name: 'us',
        prefix: 'all/us/',
        service,
        apiKeySecret: { field: 'us' },
        apiKeyEnv: 'US_KEY',
        exports: [
          { name: 'first', size: 1 },
          { name: 'third', since: { overlap: 3_600_000 } },
        ],
      },
    ]);
    expect(deploymentSettings(someServices()).services.map(({ prefix }) => prefix)).toEqual(['eu/', 'us/']);
  });

  const [here, there] = [{ baseUrl: 'https://a.example/v1' }, { baseUrl: 'https://b.example' }];
  const oauth2 = (tokenUrl: string) => ({ api: { auth: { kind: 'oauth2', tokenUrl, clientId: 'me' } } });
  const shared = { apiKeyEnv: 'REPORT_EXPORT_API_KEY' };
  it.each<[string, object, object, string?]>([
    ['the variable that both have by default', here, there, 'us'],
    ['the default and the same name', shared, there, 'us'],
    ['the same name and the default', here, { ...there, ...shared }, 'eu'],
    ['a variable that is named for both', { ...here, ...shared }, { ...there, ...shared }],
    ['variables of their own', here, { ...there, apiKeyEnv: 'US_KEY' }],
    ['the same service', here, { baseUrl: 'https://a.example/v2' }],
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
    const exports = ['eu', 'us'].map((name) => ({ name, service: name }));
    const services = { eu: { ...here, ...eu }, us: { ...there, ...us } };
    const problems = problemsOf({ services, exports }).join();
    expect(/services\.(\w+)\.apiKeyEnv: is required/.exec(problems)?.[1]).toBe(unnamed);
  });

  it('say which key would be sent where', () => {
    const services = { eu: here, us: { ...there, ...oauth2('https://login.example/token') } };
    const exports = ['eu', 'us'].map((name) => ({ name, service: name }));
    expect(problemsOf({ services, exports })).toContain(
      'settings services.us.apiKeyEnv: is required: without it, the key of services.eu for https://a.example, in ' +
        'REPORT_EXPORT_API_KEY, would also be sent to https://login.example. Name a variable for each service, or the same one for both',
    );
  });

  it('keep the keys of a service when another one is added', () => {
    const one = deploymentSettings(someSettings()).services[0];
    const { acme } = someSettings().services;
    const us = { ...service, apiKeyEnv: 'US_KEY' };
    const exports = [
      { name: 'nightly', service: 'acme', schedule: aSchedule() },
      { name: 'orders', service: 'us' },
    ];
    expect(deploymentSettings({ services: { us, acme }, exports }).services[1]).toEqual(one);
  });

  it('are validated completely: one line per problem, with its path', () => {
    const services = {
      EU: { baseUrl: 'http://a.example' },
      ok: { ...service, apiKeySecret: { existing: 'a b' }, prefix: 'x/' },
      slow: { baseUrl: 'https://b.example' },
      none: 'none',
    };
    const exports = [
      { name: 'a', service: 'ok', size: 0 },
      { name: 'b', service: 'slow', maxInlineWait: 'PT15M' },
      { name: 'c', service: 'okay' },
      { name: 'd' },
      { name: 'e', service: 7 },
      'none',
    ];
    expect(problemsOf({ services, exports, logRetentionDays: 4 }).map((line) => line.split(': ')[0])).toEqual([
      'settings services.EU.baseUrl',
      'settings services.ok.apiKeySecret.existing',
      'settings services.ok.prefix',
      'settings services.none',
      'settings exports[0].size',
      'settings exports[4].service',
      'settings exports[5]',
      'settings logRetentionDays',
      'settings services.EU',
      'settings exports[2].service',
      'settings exports[3].service',
      'settings exports[5].service',
      'settings services.slow.apiKeyEnv',
      'settings exports[1]',
    ]);
  });

  it('reject an export whose service is unknown or left out, and list the services', () => {
    const services = { eu: service, us: service };
    const exports = [{ name: 'a', service: 'asia' }, { name: 'b' }];
    expect(problemsOf({ services, exports })).toEqual([
      'settings exports[0].service: there is no such service. The services: eu, us',
      'settings exports[1].service: must name one of the services: eu, us',
    ]);
    expect(problemsOf({ services: { eu: service }, exports })).toEqual([
      'settings exports[0].service: there is no such service. The services: eu',
    ]);
  });

  it('reject a service without exports', () => {
    expect(problemsOf({ services: { eu: service, us: service }, exports: [{ name: 'a', service: 'us' }] })).toEqual([
      'settings services.eu: has no export: add one, or remove the service',
    ]);
  });

  it.each([[], {}, null, 'eu'])('must be an object with at least one: %j', (services) => {
    expect(problemsOf({ services, exports: [{ name: 'a' }] })).toEqual([
      expect.stringMatching(/^settings services: must (be an object that maps|have at least one service)/),
    ]);
  });

  it.each(['', 'Eu', '1eu', '-eu', 'e_u', 'e/u', 'e*', 'e'.repeat(31), 'constructor'])(
    'reject the service name %j',
    (name) => {
      expect(problemsOf({ services: { [name]: service }, exports: [{ name: 'a' }] })).toEqual([
        expect.stringMatching(/^settings services\S+: the name (must be 1 to 30 lower-case|is reserved)/),
      ]);
    },
  );
  it.each(['e', 'default', 'eu-west-1', 'e'.repeat(30)])('accept the service name %j', (name) => {
    expect(problemsOf({ services: { [name]: service }, exports: [{ name: 'a' }] })).toEqual([]);
  });
  it('reject a service with the name of a prototype, which JSON allows', () => {
    const text = `{"services":{"a":${JSON.stringify(service)},"__proto__":{}},"exports":[{"name":"a","service":"a"}]}`;
    expect(problemsOf(text)).toContainEqual(
      expect.stringMatching(/services\.__proto__: the name must be 1 to 30 lower-case/),
    );
  });

  it.each([
    ['eu', 'eu-'],
    ['eu-1', 'eu1'],
  ])('reject two services with the names %s and %s', (one, other) => {
    const services = { [one]: service, [other]: service };
    const exports = [one, other].map((name, index) => ({ name: `a${index}`, service: name }));
    expect(problemsOf({ services, exports })).toEqual([
      `settings services.${other}: is too similar to services.${one}: names must differ in more than case, hyphens and underscores`,
    ]);
  });

  it('reject exports of two services with similar names, because operators find an export by its name alone', () => {
    const exports = [
      { name: 'daily', service: 'eu' },
      { name: 'daily', service: 'us' },
    ];
    expect(problemsOf({ services: { eu: service, us: service }, exports })).toEqual([
      'settings exports[1].name: is the same as exports[0].name: names must be unique',
    ]);
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
    const settings = someSettings({
      service: { baseUrl: 'https://a.example', pageSize: 4 },
      exports: [{ name: 'a', size: 11 }],
    });
    writeFileSync(file, JSON.stringify(settings, null, 2));
    expect(problemsOf(file)).toEqual([
      `${file}:5 services.acme: unknown field: "pageSize"`,
      `${file}:11 exports[0].size: must be 1 to 10, unless the service has api`,
    ]);
    writeFileSync(file, JSON.stringify(someSettings({ exports: [{ name: 'a', maxInlineWait: 'PT15M' }] }), null, 2));
    expect(problemsOf(file)).toEqual([
      expect.stringMatching(/:9 exports\[0\]: one page may take \d+ s \(.*\), but a Lambda/),
    ]);
  });

  it('must exist, be readable and be JSON', async () => {
    await using directory = await temporaryDirectory();
    const path = (name: string) => join(directory.path, name);
    expect(problemsOf(path('missing.json'))).toEqual([`${path('missing.json')}: does not exist`]);
    mkdirSync(path('folder'));
    expect(problemsOf(path('folder'))).toEqual([`${path('folder')}: is a directory, not a file`]);
    writeFileSync(path('broken.json'), '{\n  "services": {},\n  oops\n}');
    expect(problemsOf(path('broken.json'))).toEqual([
      `${path('broken.json')}:3:3 is not valid JSON: Expected double-quoted property name. Correct it there or just before`,
    ]);
    expect(problemsOf('{"services": }')).toEqual([expect.stringMatching(/^settings:1:14 is not valid JSON: /)]);
  });
});

it('the retention of logs may be what CDK accepts', () => {
  const ofCdk = Object.values(RetentionDays).filter((value) => typeof value === 'number');
  expect(new Set<number>(retentionDays)).toEqual(new Set(ofCdk));
});

it('an export cannot have the name of an object property', () => {
  expect(() => deploymentSettings(someSettings({ exports: [{ name: 'constructor' }] }))).toThrow(
    'exports[0].name: is reserved by CDK',
  );
});

it('prints only the problems if the app does not catch the error', () => {
  const error = errorOf(() => deploymentSettings({ services: {}, exports: [], unknown: 1 }));
  expect(error.stack).toBe(`ConfigurationError: ${error.message}`);
  // Node.js also prints the fields of the error.
  expect(Object.keys(error).filter((field) => field !== 'name')).toEqual([]);
});

function errorOf(action: () => unknown): Error {
  try {
    action();
  } catch (error) {
    return error as Error;
  }
  throw new Error('There was no error');
}
