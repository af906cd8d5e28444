import { describe, expect, it } from 'vitest';
import { deploymentSettings } from '../../../lib/cdk/settings/deployment-settings.ts';
import { isExportError } from '../../../lib/core/errors.ts';
import { aSchedule, someSettings } from '../../support/aws/cdk-deployment.ts';

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

describe('the settings of a deployment', () => {
  it('are validated completely: one line per problem, with its path', () => {
    const lines = problemsOf({
      stackName: '1st',
      service: { baseUrl: 'http://reports.example.com', pageSize: 4 },
      bucket: { existing: 'Not_A_Bucket', prefix: 'a/*/' },
      kmsKeyArn: 'alias/mine',
      alarms: { email: 'me' },
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
    expect(lines).toHaveLength(16);
  });

  it.each([undefined, null, [], 'not JSON', 7])('are required: %j', (value) => {
    expect(problemsOf(value)).toEqual([
      expect.stringMatching(/^cdk\.json reportExporter: must be an object with the settings/),
    ]);
  });

  it('can be JSON text, as passed on the CDK command line', () => {
    expect(deploymentSettings(JSON.stringify(someSettings())).exports).toHaveLength(1);
  });

  it('have defaults for everything but the service and the exports', () => {
    expect(deploymentSettings({ service: { baseUrl: 'https://a.example' }, exports: [{ name: 'a' }] })).toEqual({
      stackName: 'ReportExporter',
      service: { baseUrl: 'https://a.example' },
      apiKeySecret: {},
      bucket: { prefix: '' },
      alarms: {},
      logRetentionDays: 90,
      exports: [{ name: 'a' }],
    });
  });

  it('keep the form in which they were written', () => {
    const written = { name: 'nightly', since: { overlap: 'PT15M' }, maxInlineWait: 'PT5S', schedule: aSchedule() };
    expect(deploymentSettings(someSettings({ exports: [written] })).exports).toEqual([written]);
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

  it('must fit into a function’s environment', () => {
    const filter = { type: 'x'.repeat(4_000) };
    expect(problemsOf(someSettings({ exports: [{ name: 'small' }, { name: 'large', filter }] }))).toEqual([
      expect.stringMatching(/^cdk\.json reportExporter\.exports\[1\]: needs about \d+ bytes .* holds 4096/),
    ]);
  });

  it('count a quote in a filter twice towards that limit, as Lambda does', () => {
    const quotes = (count: number) => someSettings({ exports: [{ name: 'a', filter: { type: '"'.repeat(count) } }] });
    expect(problemsOf(quotes(400))).toEqual([]);
    // 1,000 quotes are 2,000 characters of JSON, and 4,000 in the JSON of the environment.
    expect(problemsOf(quotes(1_000))).toHaveLength(1);
  });

  it('must not let a page take more time or storage than a function has', () => {
    expect(problemsOf(someSettings({ service: { baseUrl: 'https://a.example', totalTimeout: 'PT14M' } }))).toEqual([
      expect.stringContaining('but a Lambda function may run for 900 s'),
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

describe('a stack', () => {
  it('rejects more exports than a stack has resources for', () => {
    const exports = Array.from({ length: 15 }, (_, index) => ({ name: `export-${index}` }));
    expect(() => deploymentSettings(someSettings({ exports }))).toThrow('must have at most 14 exports');
  });

  it('rejects an export with the name of an object property', () => {
    expect(() => deploymentSettings(someSettings({ exports: [{ name: 'constructor' }] }))).toThrow(
      'exports[0].name: is reserved by CDK',
    );
  });
});
