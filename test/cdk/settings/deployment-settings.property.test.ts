/** Arbitrary settings in cdk.json keep their meaning, or are rejected with the path of every problem. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { describe, expect, it } from 'vitest';
import { deploymentSettings } from '../../../lib/cdk/settings/read-settings.ts';
import { isExportError } from '../../../lib/core/errors.ts';
import { readVersioned, serviceMetadata, type ServiceMetadata } from '../../../lib/settings/deployed-settings.ts';
import { aSchedule, someServices, someSettings } from '../../support/settings.ts';
import { anyValue, mutationsOf } from '../../support/mutations.ts';
import { cases, fc, test } from '../../support/property.ts';
import { createAuthority } from '../../support/service/certificates.ts';

const repositoryFile: unknown = JSON.parse(
  readFileSync(join(import.meta.dirname, '../../../report-exporter.json'), 'utf8'),
);

const everything = someSettings({
  stackName: 'Reports',
  service: {
    baseUrl: 'https://reports.example.com',
    proxyUrl: 'http://proxy.example.com:3128',
    proxyCredentialsSecret: 'reports/proxy',
    headers: { 'X-Tenant': 'acme' },
    tls: { ca: createAuthority({ name: 'CA' }).cert, clientCertificateSecret: 'reports/client' },
  },
  apiKeySecret: { existing: 'reports/api-key' },
  bucket: { existing: 'some-bucket', prefix: 'all/' },
  kmsKeyArn: 'arn:aws:kms:eu-central-1:123456789012:key/12345678-1234-1234-1234-123456789012',
  alarms: { email: 'someone@example.com' },
  logRetentionDays: 30,
  network: {
    vpcId: 'vpc-0abc1234',
    subnetIds: ['subnet-0abc1234'],
    securityGroupIds: ['sg-0abc1234'],
  },
  exports: [
    { name: 'nightly', schedule: aSchedule(), filter: { type: 'daily' }, size: 5 },
    { name: 'hourly', since: { lookbackWindow: 'P1D' }, maxPages: 10 },
  ],
});

const severalServices = someServices({
  services: {
    eu: {
      baseUrl: 'https://eu.example.com',
      maxConcurrentPages: 2,
      filterUntil: 'date.lt',
      memoryMebibytes: 1_024,
      apiKeySecret: { existing: 'reports/api-key' },
      apiKeyEnv: 'EU_KEY',
    },
    us: { baseUrl: 'https://us.example.com' },
  },
  exports: [
    { name: 'nightly', service: 'eu', schedule: aSchedule() },
    { name: 'weekly', service: 'us', size: 5 },
    { name: 'hourly', service: 'eu', since: { lag: 'PT2H' }, slices: { parallel: 2, length: 'PT15M' } },
  ],
});

/** Settings from a file are JSON. Settings from code may contain a Date where an object is expected. */
const isJson = (value: unknown): boolean => isDeepStrictEqual(JSON.parse(JSON.stringify(value)), value);

function problemsIn(value: unknown): string[] {
  try {
    const settings = deploymentSettings(value);
    if (!isJson(value)) return [];
    expect(deploymentSettings(structuredClone(value))).toEqual(settings);
    // What functions and commands read is what was parsed.
    for (const service of settings.services) {
      const read = readVersioned<ServiceMetadata>(serviceMetadata(service));
      expect(read?.exports).toEqual(service.exports);
      const local = { tls: undefined, apiKeyEnv: undefined };
      expect({ ...read?.service, ...local }).toEqual({ ...service.service, ...local });
    }
    return [];
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError') || error.message.length > 30_000) throw error;
    return error.message.split('\n');
  }
}

describe('arbitrary deployment settings', () => {
  const values = fc.oneof(
    { weight: 4, arbitrary: mutationsOf(everything) },
    { weight: 4, arbitrary: mutationsOf(severalServices) },
    { weight: 2, arbitrary: mutationsOf(repositoryFile) },
    anyValue,
  );
  test.prop([values], { numRuns: cases(60) })('are accepted or rejected', (value) => {
    const isPath = typeof value === 'string' && value.trim() !== '' && !value.trimStart().startsWith('{');
    const form = isPath
      ? /^[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]*: (does not exist|is |may not be read|cannot be read)/u
      : // Without any settings, the context of cdk.json is missing.
        /^(settings|cdk\.json reportExporter)[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]*: [^\p{C}]+$/u;
    for (const line of problemsIn(value)) expect(line).toMatch(form);
  });

  it('with more than a hundred problems are rejected with the first hundred and the number of the others', () => {
    const invalid = {
      name: '',
      format: '',
      container: '',
      size: 0,
      maxPages: 0,
      since: 1,
      maxRetryAfter: 1,
    };
    const exports = Array.from({ length: 14 }, () => ({ ...invalid, ...Object.fromEntries(Array(50).entries()) }));
    const lines = problemsIn(someSettings({ exports }));
    expect(lines).toHaveLength(101);
    expect(lines.at(-1)).toMatch(/^settings: and \d+ more$/);
    expect(lines).toContainEqual(
      expect.stringMatching(/exports\[0\]: unknown fields: "0", .* and 40 more\. There are /),
    );
  });
});
