import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { deploymentSettings } from '../../../lib/cdk/settings/read-settings.ts';
import { parseExporterSettings } from '../../../lib/cdk/settings/exporter-settings.ts';
import { isExportError } from '../../../lib/core/errors.ts';
import { aSchedule, type SomeSettings, someSettings } from '../../support/settings.ts';
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

const baseUrl = 'https://a.example';
const service = { baseUrl };
const named = (...names: readonly string[]) => names.map((name) => ({ name }));

describe('the settings of a deployment', () => {
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
          exports: [{ name: 'a', since: {}, filter: {}, maxEmptyPages: 1_000 }],
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

  it('are refused with the name of a prototype for a service, which JSON allows', () => {
    const text = `{"services":{"a":${JSON.stringify(service)},"__proto__":{}},"exports":[{"name":"a","service":"a"}]}`;
    expect(problemsOf(text)).toContainEqual(expect.stringMatching(/services\.__proto__: the name must be 1 to 30/));
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
    const invalid = { prefix: '/a', compression: 'zip', service: { ...service, memoryMebibytes: 1 } };
    expect(parse({ exports: [{ name: 'a b' }], ...invalid })).toThrow(
      lines(
        'service.memoryMebibytes: must be at least 512',
        'exports\\[0\\].name: must be',
        'prefix: must end with a slash',
        'compression: must be gzip',
      ),
    );
    const exports = [{ name: 'a' }, { name: 'b', size: 11 }, { name: 'B' }];
    const slow = { ...service, totalTimeout: 'PT14M' };
    expect(parse({ name: 'A', service: slow, exports })).toThrow(
      lines(
        'name: the name must be 1 to 30',
        'exports\\[2\\].name: is too similar',
        'exports\\[1\\].size: must be 1 to 10',
        'exports\\[0\\]: one page may take',
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
    write({ service: { ...service, totalTimeout: 'PT14M' } });
    expect(problemsOf(file)).toEqual([
      expect.stringMatching(/:\d+ exports\[0\]: one page may take \d+ s \(.*\), but a Lambda/),
    ]);
  });
});
