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

  it('have defaults for everything but the service and the exports', () => {
    expect(deploymentSettings({ service: { baseUrl: 'https://a.example' }, exports: [{ name: 'a' }] })).toEqual({
      stackName: 'ReportExporter',
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

  it('reject two exports with the same name', () => {
    expect(problemsOf(someSettings({ exports: [{ name: 'nightly' }, { name: 'nightly' }] }))).toEqual([
      'cdk.json reportExporter.exports[1].name: is the same as exports[0].name: names must be unique',
    ]);
  });

  it.each([
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
      'cdk.json reportExporter.exports[1].name: is the same as exports[0].name: names must be unique',
    );
  });

  it('report one problem for each invalid name', () => {
    const names = ['__proto__', '-', '_'];
    const invalid = (path: string) =>
      expect.stringMatching(`^cdk\\.json reportExporter\\.${path}\\.name: must be 1 to \\d+ [^;]*letter`);
    expect(problemsOf(someSettings({ exports: names.map((name) => ({ name })) }))).toEqual([
      invalid('exports\\[0\\]'),
      invalid('exports\\[1\\]'),
      invalid('exports\\[2\\]'),
    ]);
    const { service } = someSettings();
    const services = names.map((name, index) => ({ name, service, exports: [{ name: `a${index}` }] }));
    expect(problemsOf({ services })).toEqual([
      invalid('services\\[0\\]'),
      invalid('services\\[1\\]'),
      invalid('services\\[2\\]'),
    ]);
  });

  it('say what is required, and what a value of the wrong type must be', () => {
    const { service, exports } = someSettings();
    expect(problemsOf({})).toEqual([
      'cdk.json reportExporter.service: is required',
      'cdk.json reportExporter.exports: is required',
    ]);
    expect(problemsOf({ service: 'https://a.example', exports: ['a', {}] })).toEqual([
      'cdk.json reportExporter.service: must be an object such as {"baseUrl": "https://reports.example.com"}',
      'cdk.json reportExporter.exports[0]: must be an object such as {"name": "nightly"}',
      'cdk.json reportExporter.exports[1].name: is required',
    ]);
    expect(problemsOf({ services: ['eu', { exports: 'a' }] })).toEqual([
      'cdk.json reportExporter.services[0]: must be an object such as {"name": "acme", "service": {…}, "exports": […]}',
      'cdk.json reportExporter.services[1].name: is required',
      'cdk.json reportExporter.services[1].service: is required',
      'cdk.json reportExporter.services[1].exports: must be a list of exports',
    ]);
    const wrong = { name: 7, since: 'x', schedule: 'daily', maxInlineWait: 4 };
    expect(problemsOf({ service, exports: [...exports, wrong], stackName: 5, bucket: 'x' })).toEqual([
      'cdk.json reportExporter.stackName: must be a string',
      'cdk.json reportExporter.bucket: must be an object',
      'cdk.json reportExporter.exports[1].name: must be a string',
      'cdk.json reportExporter.exports[1].since: must be an object',
      'cdk.json reportExporter.exports[1].maxInlineWait: must be a string',
      'cdk.json reportExporter.exports[1].schedule: must be an object',
    ]);
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
      stackName: 'ReportExporter',
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
    ['eu', 'eu', 'is the same as services[0].name: names must be unique'],
    ['eu-1', 'eu1', 'is too similar to services[0].name: names must differ in more than case, hyphens and underscores'],
  ])('reject two services with the names %s and %s', (one, other, problem) => {
    const services = [one, other].map((name, index) => ({ name, service, exports: [{ name: `a${index}` }] }));
    expect(problemsOf({ services })).toEqual([`cdk.json reportExporter.services[1].name: ${problem}`]);
  });

  it('reject exports of two services with similar names, because operators find an export by its name alone', () => {
    const services = ['eu', 'us'].map((name) => ({
      name,
      service,
      exports: [{ name: `only-${name}` }, { name: name === 'eu' ? 'daily' : 'Daily' }],
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

  const withFilters = (count: number, length: number, more: object = {}) =>
    Array.from({ length: count }, (_, index) => ({
      name: `export-${index}`,
      filter: { ids: 'x'.repeat(length) },
      ...more,
    }));

  it('rejects settings that its template cannot hold, and says how much of it they take', () => {
    expect(problemsOf(someSettings({ exports: withFilters(100, 10_000) }))).toEqual([
      expect.stringMatching(
        /^cdk\.json reportExporter: needs a stack of 39 resources and up to 1,0\d\d,\d{3} bytes of template, but a CloudFormation stack holds 500 resources and 1,000,000 bytes of template; the settings of services and exports, filters included, take 1,00\d,\d{3} bytes of it\. Shorten them, or split the exports into several stacks, each with settings and a stackName of its own$/,
      ),
    ]);
  });

  it('does not propose shorter settings if these are not enough', () => {
    const [problem] = problemsOf(
      someSettings({ exports: withFilters(400, 3_000, { schedule: aSchedule() }), alarms: { perExport: false } }),
    );
    expect(problem).toMatch(/: needs a stack of \d{3} resources .* take 1,\d{3},\d{3} bytes of it\. Split the exports/);
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
