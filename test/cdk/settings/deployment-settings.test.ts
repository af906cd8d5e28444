import { describe, expect, it } from 'vitest';
import { deploymentSettings } from '../../../lib/cdk/settings/deployment-settings.ts';
import { isExportError } from '../../../lib/core/errors.ts';
import { aSchedule, someServices, someSettings } from '../../support/aws/cdk-deployment.ts';

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

describe('the settings of a deployment', () => {
  it('are validated completely: one line per problem, with its path', () => {
    const lines = problemsOf({
      stackName: '1st',
      service: { baseUrl: 'http://reports.example.com', pageSize: 4 },
      bucket: { existing: 'Not_A_Bucket', prefix: 'a/*/' },
      kmsKeyArn: 'alias/mine',
      alarms: { email: 'me', perExport: 'yes' },
      logRetentionDays: 4,
      exports: [
        { name: 'nightly', schedule: { expression: 'cron(0 25 * * ? *)', timeZone: 'Mars/Phobos' } },
        { name: 'Nightly', size: 11, schedule: { expression: 'daily', freshness: 'P9D', flexibleWindow: 'PT30S' } },
      ],
    });
    const paths = lines.map((line) => /^cdk\.json (\S+): ./.exec(line)?.[1]);
    expect(new Set(paths)).toEqual(
      new Set([
        'reportExporter.stackName',
        'reportExporter.service.baseUrl',
        'reportExporter.service',
        'reportExporter.bucket.existing',
        'reportExporter.bucket.prefix',
        'reportExporter.kmsKeyArn',
        'reportExporter.alarms.email',
        'reportExporter.alarms.perExport',
        'reportExporter.logRetentionDays',
        'reportExporter.exports[0].schedule.expression',
        'reportExporter.exports[0].schedule.timeZone',
        'reportExporter.exports[0].schedule.freshness',
        'reportExporter.exports[1].name',
        'reportExporter.exports[1].size',
        'reportExporter.exports[1].schedule.expression',
        'reportExporter.exports[1].schedule.freshness',
        'reportExporter.exports[1].schedule.flexibleWindow',
      ]),
    );
    expect(lines).toHaveLength(17);
  });

  it.each([undefined, null, [], 'not JSON', 7])('are required: %j', (value) => {
    expect(problemsOf(value)).toEqual([
      expect.stringMatching(/^cdk\.json reportExporter: must be an object with the settings/),
    ]);
  });

  it('can be JSON text, as passed on the CDK command line', () => {
    expect(deploymentSettings(JSON.stringify(someSettings()))).toEqual(deploymentSettings(someSettings()));
  });

  it('have defaults for everything but the service, the exports and the name of the stack', () => {
    expect(deploymentSettings({ service: { baseUrl: 'https://a.example' }, exports: [{ name: 'a' }] })).toEqual({
      bucket: { prefix: '' },
      alarms: {},
      logRetentionDays: 90,
      services: [
        {
          name: 'default',
          prefix: '',
          service: { baseUrl: 'https://a.example' },
          apiKeySecret: {},
          exports: [{ name: 'a' }],
        },
      ],
    });
  });

  it('keep the form in which they were written', () => {
    const written = { name: 'nightly', since: { overlap: 'PT15M' }, maxInlineWait: 'PT5S', schedule: aSchedule() };
    expect(onlyServiceOf(someSettings({ exports: [written] })).exports).toEqual([written]);
  });

  it('give the only service the bucket’s prefix and the secret', () => {
    const apiKeySecret = { existing: 'our/key', field: 'key' };
    expect(onlyServiceOf(someSettings({ bucket: { prefix: 'all/' }, apiKeySecret }))).toMatchObject({
      name: 'default',
      prefix: 'all/',
      apiKeySecret,
    });
  });

  it.each([
    ['nightly', 'nightly'],
    ['nightly', 'NIGHTLY'],
    ['daily-reports', 'daily_reports'],
    ['ab', 'a-b'],
  ])('reject two exports with the names %s and %s', (one, other) => {
    expect(problemsOf(someSettings({ exports: [{ name: one }, { name: other }] }))).toEqual([
      'cdk.json reportExporter.exports[1].name: is too similar to exports[0].name: names must differ in more than case, hyphens and underscores',
    ]);
  });

  it('report similar names along with other problems', () => {
    const lines = problemsOf(someSettings({ exports: [{ name: 'a', size: 0 }, { name: 'a' }] }));
    expect(lines).toHaveLength(2);
    expect(lines).toContainEqual(
      expect.stringContaining('cdk.json reportExporter.exports[1].name: is too similar to exports[0].name'),
    );
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
    ).toEqual([expect.stringMatching(/reportExporter\.exports\[0\]: .*but a Lambda function may run for 900 s/)]);
    const patient = { name: 'patient', maxInlineWait: 'PT14M' };
    expect(problemsOf(someSettings({ exports: [...exports, patient] }))).toEqual([
      expect.stringMatching(/reportExporter\.exports\[3\]: .*but a Lambda function may run for 900 s/),
    ]);
    const maxPageBytes = 10 * 1024 ** 3;
    expect(
      problemsOf(someSettings({ service: { baseUrl: 'https://a.example', totalTimeout: 'PT1M', maxPageBytes } })),
    ).toEqual([expect.stringContaining('but a Lambda function has at most 10240 MiB')]);
  });

  it('reject an email address for an existing topic', () => {
    const alarms = { email: 'a@example.com', existingTopicArn: 'arn:aws:sns:eu-central-1:123456789012:alarms' };
    expect(problemsOf(someSettings({ alarms }))).toEqual([expect.stringContaining('reportExporter.alarms.email: ')]);
  });
});

describe('the settings of several services', () => {
  const service = { baseUrl: 'https://a.example' };

  it('give each its name, its prefix within that of the bucket, its secret and its exports', () => {
    const [eu, us] = someServices().services;
    const written = { services: [eu, { ...us, apiKeySecret: { field: 'us' } }], bucket: { prefix: 'all/' } };
    expect(deploymentSettings(written)).toMatchObject({
      services: [
        { ...eu, prefix: 'all/eu/', apiKeySecret: {} },
        { ...us, prefix: 'all/us/', apiKeySecret: { field: 'us' } },
      ],
    });
    expect(deploymentSettings(someServices()).services.map(({ prefix }) => prefix)).toEqual(['eu/', 'us/']);
  });

  it('are parsed into the same form as those of one service', () => {
    const { service, exports } = someSettings();
    const named = deploymentSettings({ services: [{ name: 'default', service, exports }] });
    expect(named.services).toEqual([{ ...onlyServiceOf(someSettings()), prefix: 'default/' }]);
    expect(Object.keys(named).sort()).toEqual(Object.keys(deploymentSettings(someSettings())).sort());
  });

  it('are validated completely: one line per problem, with its path', () => {
    const services = [
      { name: 'EU', service: { baseUrl: 'http://a.example' }, exports: [] },
      { name: 'ok', service, apiKeySecret: { existing: 'a b' }, exports: [{ name: 'a', size: 0 }], prefix: 'x/' },
      { service, exports: [{ name: 'slow', maxInlineWait: 'PT15M' }] },
      'none',
    ];
    expect(problemsOf({ services, logRetentionDays: 4 }).map((line) => line.split(': ')[0])).toEqual([
      'cdk.json reportExporter.logRetentionDays',
      'cdk.json reportExporter.services[0].name',
      'cdk.json reportExporter.services[0].service.baseUrl',
      'cdk.json reportExporter.services[0].exports',
      'cdk.json reportExporter.services[1].apiKeySecret.existing',
      'cdk.json reportExporter.services[1].exports[0].size',
      'cdk.json reportExporter.services[1]',
      'cdk.json reportExporter.services[2].name',
      'cdk.json reportExporter.services[3]',
      'cdk.json reportExporter.services[2].exports[0]',
    ]);
  });

  it.each([[], {}, null, 'eu'])('must be a list with at least one: %j', (services) => {
    expect(problemsOf({ services })).toEqual([
      expect.stringMatching(/^cdk\.json reportExporter\.services: must (be a list of|have at least one) service/),
    ]);
  });

  it('must not be mixed with those of one service', () => {
    const { service, exports } = someSettings();
    for (const field of Object.entries({ service, exports, apiKeySecret: {} })) {
      expect(problemsOf({ ...someServices(), ...Object.fromEntries([field]) })).toEqual([
        `cdk.json reportExporter.${field[0]}: must not be set with services: move it into an entry of services`,
      ]);
    }
    expect(problemsOf({ ...someServices(), ...someSettings() })).toHaveLength(2);
  });

  it.each(['', 'Eu', '1eu', '-eu', 'e_u', 'e/u', 'e*', 'e'.repeat(31), 'constructor'])(
    'reject the service name %j',
    (name) => {
      expect(problemsOf({ services: [{ name, service, exports: [{ name: 'a' }] }] })).toEqual([
        expect.stringMatching(
          /^cdk\.json reportExporter\.services\[0\]\.name: (must be 1 to 30 lower-case|is reserved)/,
        ),
      ]);
    },
  );
  it.each(['e', 'default', 'eu-west-1', 'e'.repeat(30)])('accept the service name %j', (name) => {
    expect(problemsOf({ services: [{ name, service, exports: [{ name: 'a' }] }] })).toEqual([]);
  });

  it.each([
    ['eu', 'eu'],
    ['eu-1', 'eu1'],
  ])('reject two services with the names %s and %s', (one, other) => {
    const services = [one, other].map((name, index) => ({ name, service, exports: [{ name: `a${index}` }] }));
    expect(problemsOf({ services })).toEqual([
      'cdk.json reportExporter.services[1].name: is too similar to services[0].name: names must differ in more than case, hyphens and underscores',
    ]);
  });

  it('reject exports of two services with similar names, because operators find an export by its name alone', () => {
    const services = ['eu', 'us'].map((name) => ({
      name,
      service,
      exports: [{ name: `only-${name}` }, { name: 'daily' }],
    }));
    expect(problemsOf({ services })).toEqual([
      'cdk.json reportExporter.services[1].exports[1].name: is too similar to services[0].exports[1].name: names must differ in more than case, hyphens and underscores',
    ]);
  });
});

describe('a stack', () => {
  const scheduled = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ name: `export-${index}`, schedule: aSchedule() }));

  it('rejects more exports than a stack has resources for, and says how to split them', () => {
    expect(problemsOf(someSettings({ exports: scheduled(227) }))).toEqual([]);
    const [problem = '', ...others] = problemsOf(someSettings({ exports: scheduled(228) }));
    expect(others).toEqual([]);
    expect(problem.replace(/up to [\d,]+ bytes/, 'up to … bytes')).toBe(
      'cdk.json reportExporter: needs a stack of 501 resources and up to … bytes of template, but a CloudFormation stack holds ' +
        '500 resources and 1,000,000 bytes of template. Split the exports into several stacks, each with settings and a ' +
        'stackName of its own',
    );
  });

  it('rejects more exports with alarms of their own than it has resources for, and proposes common ones', () => {
    const settings = (count: number) => someSettings({ exports: scheduled(count), alarms: { perExport: true } });
    expect(problemsOf(settings(114))).toEqual([]);
    expect(problemsOf(settings(115))).toEqual([
      expect.stringMatching(
        /: needs a stack of 503 resources .* stackName of its own, or set alarms\.perExport to false, which reduces it to 275 resources and up to [\d,]+ bytes of template$/,
      ),
    ]);
  });

  it('rejects settings that its template cannot hold', () => {
    const exports = Array.from({ length: 100 }, (_, index) => ({
      name: `export-${index}`,
      filter: { ids: 'x'.repeat(10_000) },
    }));
    expect(problemsOf(someSettings({ exports }))).toEqual([
      expect.stringMatching(
        /^cdk\.json reportExporter: needs a stack of 39 resources and up to 1,0\d\d,\d{3} bytes of template, but/,
      ),
    ]);
  });

  it('is not judged by its size while other settings are invalid', () => {
    const lines = problemsOf(someSettings({ exports: [...scheduled(300), { name: 'a', size: 0 }] }));
    expect(lines).toEqual([expect.stringContaining('exports[300].size')]);
  });

  it('rejects an export with the name of an object property', () => {
    expect(() => deploymentSettings(someSettings({ exports: [{ name: 'constructor' }] }))).toThrow(
      'exports[0].name: is reserved by CDK',
    );
  });
});
