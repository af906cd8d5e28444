/** What earlier versions published, and the settings that were written for them, in the schemas of this version. */

import { CloudFormationClient, DescribeStackResourceCommand } from '@aws-sdk/client-cloudformation';
import { mockClient } from 'aws-sdk-client-mock';
import { describe, expect, it } from 'vitest';
import { readExports, servicesOf } from '../../lib/aws/stack/services.ts';
import { deploymentSettings } from '../../lib/cdk/settings/deployment-settings.ts';
import { functionSettingsSchema } from '../../lib/core/settings/environment.ts';
import { fileDocument } from '../../lib/core/settings/settings-document.ts';
import { parseDeployment } from '../../lib/core/settings/deployment-settings.ts';
import { settingsSchemaName } from '../../lib/core/settings/published-settings.ts';
import {
  exportDefinition,
  parseSettings,
  type ServiceSettings,
  serviceSettingsSchema,
} from '../../lib/core/settings/settings.ts';
import { openManifest } from '../../lib/core/storage/manifest-reader.ts';
import { collect } from '../support/builders.ts';
import { problemsIn } from '../support/docs/published-schemas.ts';
import { filesOf, readAws, readJson, readText, versions } from './fixtures.ts';
import { source } from './scenario.ts';

describe.each(versions)('what version %s published', (version) => {
  const published = [
    ...filesOf(version)
      .filter((file) => /\/(manifest|run|latest)\.json$/.test(file))
      .map((file) => ({ path: file, body: readText(version, file) })),
    ...readAws(version, 'objects').filter(({ path }) => path.endsWith('.json')),
  ];
  const manifests = published.filter(({ path }) => path.endsWith('manifest.json'));
  const summaries = published.filter(({ path }) => path.endsWith('run.json'));
  const pointers = published.filter(({ path }) => path.endsWith('latest.json'));

  it('has manifests, summaries and pointers that match the schemas', () => {
    // A run of each store lacks what comes after the manifest.
    expect([manifests.length, summaries.length, pointers.length]).toEqual([6, 4, 4]);
    for (const { body } of summaries) expect(problemsIn('run.v1', JSON.parse(body))).toEqual([]);
    for (const { body } of manifests) expect(problemsIn('manifest.v1', JSON.parse(body))).toEqual([]);
    for (const { body } of pointers) expect(problemsIn('latest.v1', JSON.parse(body))).toEqual([]);
  });

  it('has manifests that operators can read', async () => {
    for (const { path, body } of manifests) {
      const chunks = (async function* () {
        yield Buffer.from(body);
      })();
      const { header, pages } = await openManifest(path, chunks);
      expect({ ...header, pages: await collect(pages) }).toEqual(JSON.parse(body));
    }
  });

  it('has events that match the schemas', () => {
    const details = readAws(version, 'events').map(({ detail }) => detail as object);
    const completed = details.filter((detail) => 'result' in detail);
    const failed = details.filter((detail) => 'failed' in detail);
    expect([completed.length, failed.length]).toEqual([2, details.length - 2]);
    expect(completed.flatMap((detail) => problemsIn('completed.v1', detail))).toEqual([]);
    expect(failed.flatMap((detail) => problemsIn('failed.v1', detail))).toEqual([]);
  });
});

describe.each(versions)('settings of version %s', (version) => {
  const files = filesOf(version).filter((file) => /^settings\/[a-z]+\.json$/.test(file) && !/definitions/.test(file));

  it('are found', () => {
    expect(files.length).toBeGreaterThanOrEqual(3);
  });

  it.each(files)('in %s are accepted, and mean the same', (file) => {
    const value = readJson(version, file);
    expect(problemsIn(settingsSchemaName, value)).toEqual([]);
    const expected = readJson(version, file.replace('.json', '.parsed.json')) as {
      readonly deployment: object;
      readonly services: readonly object[];
    };
    // Later versions may add fields.
    expect(JSON.parse(JSON.stringify(deploymentSettings(value)))).toMatchObject(expected.deployment);
    const { services } = parseDeployment(fileDocument(file, () => readText(version, file)));
    expect(services.map(({ service }) => serviceSettingsSchema.parse(service))).toMatchObject(expected.services);
  });

  it('beside the functions are accepted, and mean the same', () => {
    const { exports } = parseSettings(functionSettingsSchema, readAws(version, 'functions'), 'settings.json');
    const definitions = exports.map((settings) => exportDefinition(settings, source));
    expect(JSON.parse(JSON.stringify(definitions))).toMatchObject(readJson(version, 'settings/definitions.json') as []);
  });
});

/** A stack does not have the files of the client certificate, which are for runs on one machine. */
function withoutLocalFiles({ tls, ...service }: ServiceSettings): object {
  const { ca, clientCertificateSecret } = tls ?? {};
  return { ...service, tls: { ca, clientCertificateSecret } };
}

describe.each(versions)('a stack that version %s deployed', (version) => {
  it('is read by the commands of operators', async () => {
    const { outputs, metadata } = readAws(version, 'stack');
    const services = servicesOf({
      StackName: 'ReportExporter',
      CreationTime: undefined,
      StackStatus: undefined,
      Outputs: Object.entries(outputs).map(([OutputKey, OutputValue]) => ({ OutputKey, OutputValue })),
    });
    expect(services.map(({ service, prefix }) => ({ service, prefix }))).toEqual([
      { service: 'acme', prefix: 'all/acme/' },
      { service: 'other', prefix: 'all/other/' },
    ]);
    const client = new CloudFormationClient({ region: 'us-east-1' });
    mockClient(client)
      .on(DescribeStackResourceCommand)
      .callsFake(({ LogicalResourceId: id }: { LogicalResourceId: string }) => ({
        StackResourceDetail: { Metadata: JSON.stringify(metadata[id]) },
      }));
    const exports = await readExports(client, 'ReportExporter', services);
    const { services: written } = readJson(version, 'settings/full.parsed.json') as {
      readonly services: ServiceSettings[];
    };
    expect([...exports.values()]).toMatchObject([
      {
        name: 'hourly',
        serviceSettings: written[1],
        settings: { since: { lookbackWindow: 86_400_000 } },
        schedule: { expression: 'rate(1 hour)', flexible: false, enabled: true, freshnessSeconds: null },
      },
      {
        name: 'nightly',
        serviceSettings: withoutLocalFiles(written[0] as ServiceSettings),
        settings: { size: 10, format: 'CSV', maxPages: 100_000 },
        schedule: {
          expression: 'cron(0 2 * * ? *)',
          timeZone: 'Europe/Berlin',
          flexible: true,
          freshnessSeconds: 93_600,
        },
      },
    ]);
  });
});
