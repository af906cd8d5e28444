/** The secrets of settings: commands send them, and show and store none of them. */

import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { serviceMetadata } from '../../lib/settings/deployed-settings.ts';
import { parseDeployment } from '../../lib/settings/deployment-settings.ts';
import { fileDocument } from '../../lib/settings/settings-document.ts';
import { searchForSecrets } from '../support/secret-search.ts';
import { aDirectory, runInProcess } from '../support/process/command-line.ts';
import { rawResponse, startRawServer } from '../support/service/raw-server.ts';

/** The content of every file in the directory, by its name. */
function contentOf(directory: string) {
  const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
  return Object.fromEntries(files.map((each) => [each.name, readFileSync(join(each.parentPath, each.name))]));
}

it('two secrets are sent, and neither is in settings, template, state, plan or output, whatever the service quotes', async () => {
  const secrets = { api: 'first-secret-0123456789', app: 'second-S3cret-9876543210' };
  let isWorking = false;
  await using server = await startRawServer((socket, { headers }) => {
    const isAllowed = headers['DD-API-KEY'] === secrets.api && headers['DD-APPLICATION-KEY'] === secrets.app;
    const body = `not ${headers['DD-API-KEY']}, nor ${headers['DD-APPLICATION-KEY']}`;
    const type = (name: string) => ({ headers: { 'content-type': name } });
    if (!isWorking || !isAllowed) socket.end(rawResponse({ status: 403, ...type('text/plain'), body }));
    else socket.end(rawResponse({ ...type('application/json'), body: '{"data":[{"id":1}]}' }));
  });
  const out = await aDirectory();
  const file = join(out, 'report-exporter.json');
  const api = {
    request: { path: '/logs', query: { since: '{since}' } },
    auth: { kind: 'key', send: { 'DD-API-KEY': '{secret.api}', 'DD-APPLICATION-KEY': '{secret.app}' } },
    next: { from: 'link' },
    page: { format: 'json', reports: '/data/*' },
  };
  const settings = { services: { acme: { baseUrl: server.url, api } }, exports: [{ name: 'nightly' }] };
  await writeFile(file, JSON.stringify(settings));
  const run = async (...words: readonly string[]) =>
    await runInProcess([...words, '--out', out], { REPORT_EXPORT_API_KEY: JSON.stringify(secrets) });
  const failed = await run('local', '--max-attempts', '1');
  isWorking = true;
  const outputs = {
    failed,
    completed: await run('local', '--json'),
    plan: await run('plan', '--request'),
    doctor: await run('doctor'),
    wrong: await runInProcess(['local', '--out', out, '--restart'], {
      REPORT_EXPORT_API_KEY: JSON.stringify({ api: secrets.api }),
    }),
  };
  expect(outputs.failed).toMatchObject({ status: 1, stderr: expect.stringContaining('[not shown') });
  expect(outputs.completed.status).toBe(0);
  const shown = 'DD-APPLICATION-KEY: (field app of environment variable REPORT_EXPORT_API_KEY)';
  expect(outputs.plan.stdout).toContain(shown);
  expect(outputs.doctor.stdout).toContain(shown);
  expect(outputs.wrong.stderr).toContain('must be JSON with a text in its field app: {"app":"…"}');
  const [deployed] = parseDeployment(fileDocument(file)).services;
  const stored = contentOf(out);
  expect(Object.keys(stored)).toContain('state.sqlite');
  const template = serviceMetadata(deployed as NonNullable<typeof deployed>);
  expect(searchForSecrets({ ...outputs, ...stored, template }, secrets)).toEqual([]);
});

it('a key in the place of the name of its variable is neither shown nor stored', async () => {
  const secret = 'sk_live_4242';
  const out = await aDirectory();
  const file = join(await aDirectory(), 'settings.json');
  const start = async (apiKeyEnv: string) => {
    const service = { baseUrl: 'http://127.0.0.1:9', vendor: 'ACME', apiKeyEnv };
    await writeFile(file, JSON.stringify({ services: { acme: service }, exports: [{ name: 'nightly' }] }));
    return await runInProcess(['start', '--settings', file, '--out', out, '--max-attempts', '1'], { THE_KEY: 'a-key' });
  };
  expect(await start('THE_KEY')).toMatchObject({ status: 1 });
  const mistaken = await start(secret);
  expect(mistaken).toMatchObject({ status: 2, stderr: expect.stringContaining('is not set') });
  expect((await runInProcess(['status', '--out', out])).stdout).toContain('is not set');
  expect(searchForSecrets({ mistaken, ...contentOf(out) }, { secret })).toEqual([]);
});
