/** The code assets of the functions, in the assembly that a deployment uploads. */

import { readdirSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { type App, Stack } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import type { Code } from 'aws-cdk-lib/aws-lambda';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { withFunctionCode } from '../../lib/cdk/code/function-code.ts';
import { settingsVersion } from '../../lib/settings/deployed-settings.ts';
import { aServiceWith, aSchedule, someServices, someSettings } from '../support/settings.ts';
import type { StepName } from '../../lib/core/state-machine/definition.ts';
import { anApp, deployConstruct, deployIn, resourcesOf } from '../support/aws/cdk-deployment.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

afterEach(() => vi.unstubAllEnvs());

/** Synthesizes the stack. Returns the folders of the functions' assets, by logical ID. */
function assetsOf(settings: object, context: object = {}): Map<string, string> {
  const app = anApp(context);
  return assetsIn(app, deployIn(app, settings).template);
}
const assetsIn = (app: App, template: Template) =>
  new Map(
    Object.entries(resourcesOf(template, 'AWS::Lambda::Function')).map(([id, { Metadata }]) => [
      id,
      resolve(app.synth().directory, String(Metadata?.['aws:asset:path'])),
    ]),
  );
const settingsIn = (folder: string | undefined) =>
  JSON.parse(readFileSync(resolve(folder ?? '', 'settings.json'), 'utf8'));
const hashes = (assets: ReadonlyMap<string, string>) => [...assets.values()].map((folder) => folder.split('asset.')[1]);

const exports = [
  { name: 'nightly', filter: { types: ['daily', null] }, maxRetryAfter: 'PT5H', schedule: aSchedule() },
  { name: 'manual' },
];
const objects = { compression: 'gzip' } as const;
const written = someSettings({ exports, bucket: objects });
/** Kept for the comparisons below. */
const assets = assetsOf(written);

describe('the code of a function', () => {
  it('is a folder with the bundle and the settings file, which has all settings of the service except schedules', () => {
    const service = { baseUrl: 'https://reports.example.com', vendor: 'ACME' };
    const { app, template } = deployConstruct({
      service,
      exports,
      ...objects,
    });
    for (const each of [assets, assetsIn(app, template)]) {
      expect(each.size).toBe(4);
      for (const folder of each.values()) {
        expect(readdirSync(folder).sort()).toEqual(['index.js', 'settings.json']);
        const settings = settingsIn(folder);
        expect(settings).toMatchObject({
          version: 1,
          service,
          exports: [
            { name: 'nightly', filter: { types: ['daily', null] }, maxRetryAfter: 5 * 3_600_000 },
            { name: 'manual', filter: {}, maxRetryAfter: 6 * 3_600_000 },
          ],
          compression: 'gzip',
        });
        expect(settings.exports[0]).not.toHaveProperty('schedule');
      }
    }
  });

  it('has the settings of its own service only', () => {
    for (const [id, folder] of assetsOf(someServices())) {
      const name = id.startsWith('Serviceseu') ? 'eu' : 'us';
      const { service, exports: own } = settingsIn(folder);
      expect(service).toMatchObject({ baseUrl: `https://${name}.example.com`, vendor: 'ACME' });
      expect(own).toEqual([expect.objectContaining({ name: `${name}-nightly` })]);
    }
  });

  it('has the same hash in every synthesis, and another with other settings', () => {
    expect(hashes(assetsOf(written))).toEqual(hashes(assets));
    const changed = assetsOf({ ...written, exports: [{ ...exports[0], maxRetryAfter: 'PT4H' }, exports[1]] });
    for (const hash of hashes(changed)) expect(hashes(assets)).not.toContain(hash);
    // The functions do not read the schedule.
    const rescheduled = [{ ...exports[0], schedule: aSchedule({ expression: 'cron(0 3 * * ? *)' }) }, exports[1]];
    expect(hashes(assetsOf({ ...written, exports: rescheduled }))).toEqual(hashes(assets));
  });

  it('leaves no temporary files, also if the function cannot be created', async () => {
    await using temporary = await temporaryDirectory();
    vi.stubEnv('TMPDIR', temporary.path);
    const left = () => readdirSync(temporary.path).filter((name) => name.startsWith('report-exporter-'));
    for (const folder of assetsOf(written).values()) expect(folder.startsWith(temporary.path)).toBe(true);
    expect(left()).toEqual([]);
    const stack = new Stack(anApp(), 'Any');
    const service = aServiceWith({ baseUrl: 'https://a.example' });
    const settings = { version: settingsVersion, service, exports: [] } as const;
    const fail = (code: (step: StepName) => Code) => {
      code('BeginRun');
      expect(left()).toHaveLength(1);
      throw new Error('cannot be created');
    };
    expect(() => withFunctionCode(stack, settings, fail)).toThrow('cannot be created');
    expect(left()).toEqual([]);
  });
});
