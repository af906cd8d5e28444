/** `report-exporter local --settings`: exports of a settings file, with a real service and a real directory. */

import { readdirSync, readFileSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { apiSchema } from '../../lib/service/api/description.ts';
import { serviceMetadata } from '../../lib/settings/deployed-settings.ts';
import { parseDeployment } from '../../lib/settings/deployment-settings.ts';
import { fileDocument } from '../../lib/settings/settings-document.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import { type Simulator, type SimulatorOptions, startSimulator } from '../support/service/simulator.ts';
import { aDirectory, jsonOf, runInProcess } from '../support/process/command-line.ts';
import { rawResponse, startRawServer } from '../support/service/raw-server.ts';
import { searchForSecrets } from '../support/secret-search.ts';
import { aReport } from '../support/service/simulator-client.ts';

const env = { REPORT_EXPORT_API_KEY: 'the-key-of-the-first-service', OTHER_KEY: 'the-key-of-the-other-one' };

async function aService(options: Partial<SimulatorOptions> = {}): Promise<Simulator> {
  const apiKey = env.REPORT_EXPORT_API_KEY;
  const reports = inMemoryReports(Array.from({ length: 5 }, (_, n) => aReport(n + 1, { type: 'daily' })));
  const service = await startSimulator({
    vendor: 'ACME',
    apiKey,
    reports,
    ...options,
  });
  onTestFinished(() => service.close());
  return service;
}

/** Writes the settings file of a directory, and returns the first words of the command. */
async function aFile(
  settings: object,
): Promise<{ readonly out: string; readonly file: string; readonly local: string[] }> {
  const out = await aDirectory();
  const file = join(out, 'report-exporter.json');
  await writeFile(file, JSON.stringify(settings, null, 2));
  return { out, file, local: ['local', '--out', out, '--settings', file] };
}

const bodiesOf = ({ exchanges }: Simulator) =>
  exchanges.map(({ requestBody }) => requestBody as Record<string, unknown>);

/** The settings of a service with the header `Link`, whose pages have up to a hundred reports. */
const described = (api: object) => ({
  services: {
    acme: {
      baseUrl: 'https://api.example.com',
      api: {
        request: { path: '/logs', query: { since: '{since}', until: '{until}', limit: '{size}' } },
        auth: { kind: 'bearer' },
        next: { from: 'link' },
        page: { format: 'json', reports: '/data/*' },
        ...api,
      },
    },
  },
  exports: [{ name: 'nightly', size: 100 }],
});

describe('report-exporter local --settings', () => {
  it('runs the only export with its filter, since, size and service, and so do later commands', async () => {
    const service = await aService();
    const { out, local } = await aFile({
      services: { acme: { baseUrl: service.baseUrl, vendor: 'ACME', maxConcurrentPages: 1 } },
      exports: [
        {
          name: 'nightly',
          size: 2,
          filter: { type: 'daily' },
          since: { initial: '2026-11-20T00:00:00Z', overlap: 'PT15M' },
          schedule: { expression: 'rate(1 day)' },
        },
      ],
    });
    const ended = await runInProcess([...local, '--json'], env);
    expect(ended).toMatchObject({ status: 0 });
    expect(jsonOf(ended)).toMatchObject({ export: 'nightly', since: '2026-11-20T00:00:00Z', pages: 3, reports: 5 });
    expect(bodiesOf(service)[0]).toEqual({
      filter: { type: 'daily', date: { gte: '2026-11-20T00:00:00Z' } },
      size: 2,
      format: 'XML',
      container: 'NONE',
    });

    const status = await runInProcess(['status', '--out', out, '--json'], env);
    expect(JSON.parse(status.stdout)).toMatchObject({
      exports: [{ export: 'nightly', schedule: { kind: 'manual', awsSchedule: 'rate(1 day)' } }],
    });
    for (const command of ['plan', 'doctor']) {
      expect((await runInProcess([command, '--out', out], env)).stdout).toMatch(/rate\(1 day\),? on AWS only[;:]/);
    }
    const plan = JSON.parse((await runInProcess(['plan', '--out', out, '--json'], env)).stdout);
    expect(plan).toMatchObject({ export: 'nightly', plan: { act: 'start' } });
    expect(plan.request.url).toContain(service.baseUrl);
    expect(plan.request.body).toMatchObject({ size: 2, filter: { type: 'daily' } });
    // Less the overlap.
    expect(plan.plan.since).not.toBe(jsonOf(ended).watermark);
    expect(await runInProcess(['start', 'nightly', '--out', out], env)).toMatchObject({ status: 0 });
    expect(bodiesOf(service).at(-1)).toMatchObject({
      size: 2,
      filter: { type: 'daily', date: { gte: plan.plan.since } },
    });
  });

  it('runs the named exports, or all, one after the other, each with its service and key', async () => {
    const [acme, other] = [await aService(), await aService({ vendor: 'SERVICE', apiKey: env.OTHER_KEY })];
    const { out, file, local } = await aFile({
      services: {
        acme: { baseUrl: acme.baseUrl, vendor: 'ACME' },
        other: { baseUrl: other.baseUrl, apiKeyEnv: 'OTHER_KEY' },
      },
      exports: [
        { name: 'one', service: 'acme', size: 2 },
        { name: 'two', service: 'other' },
        { name: 'three', service: 'acme' },
      ],
    });
    const endsOf = ({ stdout }: { stdout: string }) => {
      const ends = stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line));
      return ends.map((end) => `${end.export} ${end.status} ${end.pages} ${end.reports}`);
    };
    const named = await runInProcess([...local, 'two', 'one', '--json'], env);
    expect([named.status, endsOf(named)]).toEqual([0, ['two completed 1 5', 'one completed 3 5']]);
    expect(other.exchanges).toHaveLength(1);

    const all = await runInProcess([...local, '--all', '--since', '2026-11-20T00:00:00Z', '--json'], env);
    const ends = ['one completed 3 5', 'three completed 1 5', 'two completed 1 5'];
    expect([all.status, endsOf(all)]).toEqual([0, ends]);

    const unselected = await runInProcess(local, env);
    expect(unselected).toMatchObject({
      status: 2,
      stderr: `Error: Specify exports of ${file}, or all of them with --all\n    Its exports: one, three, two\n`,
    });
    const unknown = await runInProcess([...local, 'one', 'tow'], env);
    expect(unknown).toMatchObject({ status: 2, stdout: '' });
    expect(unknown.stderr).toMatch(/tow: no such export in .*\n.*Its exports: one, three, two\n/);
    expect(await runInProcess(['start', '--all', '--out', out], env)).toMatchObject({ status: 0 });
  });

  it('uses a simulator with --simulate, without a key, but simulates no other API', async () => {
    const { file } = await aFile({
      services: { acme: { baseUrl: 'https://reports.example.com', vendor: 'ACME' } },
      exports: [{ name: 'nightly', size: 10 }],
    });
    const target = ['--settings', file, '--out', await aDirectory()];
    const ended = await runInProcess(['local', ...target, '--simulate', '--json']);
    expect(ended).toMatchObject({ status: 0 });
    expect(jsonOf(ended).pages).toBeGreaterThanOrEqual(25);
    expect(await runInProcess(['start', ...target, '--json'])).toMatchObject({ status: 0 });
    const plan = JSON.parse((await runInProcess(['plan', ...target, '--json'])).stdout);
    expect(JSON.stringify(plan.request)).toContain('ACME');

    const other = await aFile(described({}));
    const problem = `--simulate: ${other.file} services.acme describes another API, and only the Report Export Service`;
    expect(await runInProcess([...other.local, '--simulate'], env)).toMatchObject({
      status: 2,
      stderr: expect.stringContaining(problem),
    });
  });

  it('exports from the API that the file describes', async () => {
    const page = { format: 'json', reports: '/data/*' };
    const settingsOf = (url: string) =>
      described({ page, auth: { kind: 'oauth2', tokenUrl: `${url}/token`, clientId: 'exporter' } });
    const secret = 'user:a-secret';
    const api = apiSchema.parse(settingsOf('http://127.0.0.1').services.acme.api);
    const { baseUrl } = await aService({ apiKey: secret, api, pageSize: 2 });
    const { services } = settingsOf(baseUrl);
    services.acme.baseUrl = baseUrl;
    const { out, local } = await aFile({ services, exports: [{ name: 'nightly', size: 2 }] });
    const ended = await runInProcess([...local, '--json'], { REPORT_EXPORT_API_KEY: secret });
    expect(jsonOf(ended)).toMatchObject({ status: 'completed', pages: 3, reports: 5 });
    expect(await runInProcess(['verify', '--out', out, '--json'], env)).toMatchObject({ status: 0 });
  });

  it('sends two secrets, neither of which is in settings, template, state, plan or output, whatever the service quotes', async () => {
    const secrets = { api: 'first-secret-0123456789', app: 'second-S3cret-9876543210' };
    const key = JSON.stringify(secrets);
    const auth = { kind: 'key', send: { 'DD-API-KEY': '{secret.api}', 'DD-APPLICATION-KEY': '{secret.app}' } };
    const page = { format: 'json', reports: '/data/*' };
    let isWorking = false;
    await using server = await startRawServer((socket, { headers }) => {
      const isAllowed = headers['DD-API-KEY'] === secrets.api && headers['DD-APPLICATION-KEY'] === secrets.app;
      const body = `not ${headers['DD-API-KEY']}, nor ${headers['DD-APPLICATION-KEY']}`;
      const type = (name: string) => ({ headers: { 'content-type': name } });
      if (!isWorking || !isAllowed) socket.end(rawResponse({ status: 403, ...type('text/plain'), body }));
      else socket.end(rawResponse({ ...type('application/json'), body: '{"data":[{"id":1}]}' }));
    });
    const settings = described({ page, auth });
    settings.services.acme.baseUrl = server.url;
    const { out, file, local } = await aFile({ ...settings, exports: [{ name: 'nightly', size: 2 }] });
    const variables = { REPORT_EXPORT_API_KEY: key };
    const run = async (...words: readonly string[]) => await runInProcess(words, variables);
    const failed = await run(...local, '--max-attempts', '1');
    isWorking = true;
    const outputs = {
      failed,
      completed: await run(...local, '--json'),
      plan: await run('plan', '--settings', file, '--request'),
      doctor: await run('doctor', '--settings', file),
      wrong: await runInProcess([...local, '--restart'], {
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
    const files = readdirSync(out, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
    const stored = Object.fromEntries(files.map((each) => [each.name, readFileSync(join(each.parentPath, each.name))]));
    expect(Object.keys(stored)).toContain('state.sqlite');
    const template = serviceMetadata(deployed as NonNullable<typeof deployed>);
    expect(searchForSecrets({ ...outputs, ...stored, template, file: readFileSync(file) }, secrets)).toEqual([]);
  });

  it('reports every problem of the file and of the options at once, and exits with 2', async () => {
    const { file, local } = await aFile({
      services: { acme: { vendor: 'ACME', apiKeyEnv: 'sk-live/1' } },
      exports: [{ name: 'nightly' }],
    });
    const ended = await runInProcess([...local, 'nightly', '--nope', '--all'], env);
    expect(ended).toMatchObject({ status: 2, stdout: '' });
    const [heading, ...lines] = ended.stderr.trimEnd().split('\n');
    expect(heading).toBe('Error: 4 problems:');
    expect(lines).toEqual([
      '  --nope: no such option; most settings need a settings file: local --settings',
      '  --all: runs every export; leave out the names of exports',
      expect.stringContaining(`  ${file}:3 services.acme.baseUrl: `),
      expect.stringContaining(`  ${file}:5 services.acme.apiKeyEnv: must be the name of an environment variable`),
    ]);
    expect(ended.stderr).not.toContain('sk-live');
  });

  it.each([
    [['--settings', 'missing.json'], 'missing.json: does not exist'],
    [['--settings', '.'], '.: is a directory, not a file'],
    [['--settings', 'package.json/x'], 'package.json/x: does not exist: part of its path is a file'],
    [
      ['--settings', '/dev/null'],
      '/dev/null: is a pipe or a device, not a regular file. Write its content to a file first',
    ],
    [['--simulate', '--base-url', 'https://a.example'], '--simulate: cannot be combined with --base-url'],
    [['nightly'], 'nightly: unexpected argument'],
  ])('rejects %j', async (words, message) => {
    const ended = await runInProcess(['local', '--json', ...words], env);
    expect(ended.status).toBe(2);
    expect(jsonOf(ended)).toMatchObject({ status: 'failed', error: { name: 'ConfigurationError' } });
    expect(ended.stderr).toContain(message);
  });
});

describe('a start without the key of its service', () => {
  const time = '20\\d\\d-\\d\\d-\\d\\dT[\\d:]{8}Z';

  /** Two exports, each of a service with a key of its own. */
  async function twoServices() {
    const [acme, other] = [await aService(), await aService({ apiKey: env.OTHER_KEY })];
    const { out, file, local } = await aFile({
      services: {
        acme: { baseUrl: acme.baseUrl, vendor: 'ACME' },
        other: { baseUrl: other.baseUrl, vendor: 'ACME', apiKeyEnv: 'OTHER_KEY', filterUntil: 'date.lt' },
      },
      exports: [
        { name: 'one', service: 'other' },
        { name: 'two', service: 'acme' },
      ],
    });
    const statusOf = async (...words: string[]) => await runInProcess(['status', '--out', out, ...words], env);
    return { local, file, out, statusOf };
  }

  it('does not stop the others, and is shown until a start of its export begins a run', async () => {
    const { local, out, statusOf } = await twoServices();
    const { REPORT_EXPORT_API_KEY } = env;
    const quiet = await runInProcess([...local, '--all', '--quiet'], { REPORT_EXPORT_API_KEY });
    expect(quiet.status).toBe(1);
    const reason = "The environment variable OTHER_KEY is not set; set it to the service's API key";
    expect(quiet.stderr).toMatch(new RegExp(`^${time} Failed: one\n {2}${reason}\n$`));
    expect(quiet.stdout).toMatch(
      new RegExp(`^${time} Completed: two \\(1 page, .*\\)\n[^]*\n${time} 2 exports: 1 failed, 1 completed\n$`),
    );

    const overview = await statusOf('--failed');
    expect(overview.status).toBe(1);
    expect(overview.stdout).toMatch(/^one +failed .*ConfigurationError: /m);
    const [one] = JSON.parse((await statusOf('one', '--json')).stdout).exports;
    expect(one).toMatchObject({ state: 'failed', run: null, failedStart: { error: 'ConfigurationError' } });

    expect(await runInProcess(['start', 'one', '--out', out], env)).toMatchObject({ status: 0 });
    expect(await statusOf('--failed')).toMatchObject({ status: 0 });
    const again = await runInProcess(['start', 'one', '--out', out], { REPORT_EXPORT_API_KEY });
    expect(again).toMatchObject({ status: 2, stderr: expect.stringContaining('OTHER_KEY is not set') });
    expect(JSON.parse((await statusOf('one', '--json')).stdout).exports).toMatchObject([
      { state: 'failed', lastFailure: { error: 'ConfigurationError' }, runs: [{ state: 'completed' }] },
    ]);
    expect(await runInProcess([...local, 'one'], env)).toMatchObject({ status: 0 });
    expect(await statusOf('--failed')).toMatchObject({ status: 0 });
  });

  it('is that of a regular start: one of a bounded run neither counts nor hides it', async () => {
    const { local, out, statusOf } = await twoServices();
    const { REPORT_EXPORT_API_KEY } = env;
    const bounded = [...local, 'one', '--since', '2026-01-01', '--until', '2026-02-01'];
    const stateOfOne = async () => JSON.parse((await statusOf('one', '--json')).stdout).exports[0].state as string;
    expect(await runInProcess([...local, 'one'], env)).toMatchObject({ status: 0 });
    expect(await runInProcess(bounded, { REPORT_EXPORT_API_KEY })).toMatchObject({ status: 2 });
    expect(await stateOfOne()).toBe('completed');
    expect(await runInProcess(['start', 'one', '--out', out], { REPORT_EXPORT_API_KEY })).toMatchObject({ status: 2 });
    expect(await runInProcess(bounded, env)).toMatchObject({ status: 0 });
    expect(await stateOfOne()).toBe('failed');
  });

  it('is shown if the start is refused, and without the name of a variable that could be the key', async () => {
    const { file, local, out, statusOf } = await twoServices();
    expect(await runInProcess([...local, 'one'], env)).toMatchObject({ status: 0 });
    const secret = 'sk_live_4242';
    const settings = JSON.parse(readFileSync(file, 'utf8'));
    settings.services.acme.apiKeyEnv = secret;
    settings.exports[0].filter = { type: 'weekly' };
    await writeFile(file, JSON.stringify(settings));
    expect(await runInProcess([...local, 'one'], env)).toMatchObject({ status: 2 });
    expect((await statusOf('--failed')).stdout).toContain('ConfigurationError: ');
    const mistaken = await runInProcess([...local, 'two'], env);
    expect(mistaken).toMatchObject({ status: 2, stderr: expect.stringContaining('is not set') });
    expect(mistaken.stderr).not.toContain(secret);
    const stored = readdirSync(out).filter((name) => name.startsWith('state.sqlite'));
    for (const name of stored) expect(readFileSync(join(out, name), 'latin1')).not.toContain(secret);
  });
});

describe('later starts in a directory', () => {
  const fileWith = (baseUrl: string, fields: object) => ({
    services: { acme: { baseUrl, vendor: 'ACME' } },
    exports: [{ name: 'nightly', ...fields }],
  });

  it('read the settings file again: what was added, changed or removed takes effect', async () => {
    const service = await aService();
    const { out, file, local } = await aFile(fileWith(service.baseUrl, { size: 2, maxPages: 1 }));
    expect(await runInProcess(local, env)).toMatchObject({ status: 1, stderr: expect.stringContaining('maxPages') });

    await writeFile(file, JSON.stringify(fileWith(service.baseUrl, { size: 2, maxPages: 9 })));
    const raised = await runInProcess(['start', '--out', out], env);
    expect(raised).toMatchObject({ status: 0, stderr: expect.stringContaining(`Settings: ${file}\n`) });

    await writeFile(file, JSON.stringify(fileWith(service.baseUrl, { since: { initial: '2026-11-20T00:00:00Z' } })));
    const planned = jsonOf(await runInProcess(['plan', '--out', out, '--json'], env));
    expect(planned).toMatchObject({ settings: file, request: { body: expect.not.objectContaining({ size: 2 }) } });
    const plan = await runInProcess(['plan', '--out', out], env);
    expect(plan.stdout).toContain(`  settings ${file}\n`);
  });

  it('are planned from the settings file as local makes them: resumed, and at the watermark', async () => {
    const service = await aService();
    const { out, file, local } = await aFile(fileWith(service.baseUrl, { size: 2, maxPages: 1 }));
    const plan = ['plan', '--settings', file, '--out', out];
    expect(jsonOf(await runInProcess([...plan, '--json'], env))).toMatchObject({ plan: { act: 'start', page: 1 } });
    expect(await runInProcess(local, env)).toMatchObject({ status: 1 });
    await writeFile(file, JSON.stringify(fileWith(service.baseUrl, { size: 2, maxPages: 9 })));
    expect(jsonOf(await runInProcess([...plan, '--json'], env))).toMatchObject({ plan: { act: 'resume', page: 2 } });
    const refused = await runInProcess([...plan, '--since', '2026-01-01'], env);
    expect(refused).toMatchObject({ status: 1, stdout: expect.stringContaining('would fail: ') });

    const { watermark } = jsonOf(await runInProcess([...local, '--json'], env)) as { watermark: string };
    const planned = await runInProcess(plan, env);
    expect(planned.stdout).toContain(`  since    ${watermark}\n`);
    const command = `start nightly --settings ${file} --out ${out}`;
    expect(planned.stdout).toContain(`to start a run: npx --no -- report-exporter ${command}\n`);
    expect(await runInProcess(command.split(' '), env)).toMatchObject({ status: 0 });
    expect(await runInProcess(['doctor', '--settings', file, '--out', out], env)).toMatchObject({
      status: 0,
      stdout: expect.stringContaining('completed'),
    });
  });

  it('that would be refused are a problem for doctor', async () => {
    const service = await aService();
    const { out, file, local } = await aFile(fileWith(service.baseUrl, { size: 2, maxPages: 1 }));
    expect(await runInProcess(local, env)).toMatchObject({ status: 1 });
    await writeFile(file, JSON.stringify(fileWith(service.baseUrl, { size: 3 })));
    expect(await runInProcess(['doctor', '--out', out], env)).toMatchObject({
      status: 1,
      stdout: expect.stringMatching(/✗ runs +nightly: the next start would fail: Run .* size was 2 and is now 3/),
    });
  });

  it.each([
    ['is gone', undefined, 'does not exist. Name the settings file of the exports with --settings, or copy it there'],
    [
      'has the export no more',
      { services: { acme: { baseUrl: 'https://x.example' } }, exports: [{ name: 'b' }] },
      'no such export',
    ],
  ])('are refused if the file %s; what is stored stays readable', async (_, content, message) => {
    const service = await aService();
    const { out, file, local } = await aFile(fileWith(service.baseUrl, {}));
    expect(await runInProcess(local, env)).toMatchObject({ status: 0 });
    await (content === undefined ? rm(file) : writeFile(file, JSON.stringify(content)));

    for (const words of [['start'], ['plan']]) {
      const ended = await runInProcess([...words, 'nightly', '--out', out], env);
      expect(ended).toMatchObject({ stdout: '', stderr: expect.stringContaining(message) });
      expect(ended.status).not.toBe(0);
    }
    const doctor = await runInProcess(['doctor', 'nightly', '--out', out, '--json'], env);
    expect(JSON.parse(doctor.stdout).findings).toContainEqual(
      expect.objectContaining({ check: 'settings', state: 'problem', message: expect.stringContaining(message) }),
    );
    for (const command of ['status', 'verify']) {
      expect(await runInProcess([command, 'nightly', '--out', out], env)).toMatchObject({ status: 0 });
    }
    expect(service.exchanges).toHaveLength(2);
  });

  it('do not hide the runs of an export that they have no more', async () => {
    const service = await aService();
    const { out, file, local } = await aFile(fileWith(service.baseUrl, {}));
    expect(await runInProcess(local, env)).toMatchObject({ status: 0 });
    await writeFile(file, JSON.stringify({ ...fileWith(service.baseUrl, {}), exports: [{ name: 'weekly' }] }));
    const status = await runInProcess(['status', '--out', out, '--json'], env);
    expect(JSON.parse(status.stdout).exports).toMatchObject([
      { export: 'nightly', state: 'completed' },
      { export: 'weekly' },
    ]);
    const verified = await runInProcess(['verify', '--all', '--out', out], env);
    expect(verified.stdout).toMatch(/^Verified: nightly /m);
    // It is not to be started any more.
    const plan = await runInProcess(['plan', '--all', '--out', out, '--json'], env);
    expect(JSON.parse(plan.stdout).exports).toMatchObject([{ export: 'weekly' }]);
    const doctor = await runInProcess(['doctor', '--out', out, '--json'], env);
    expect(doctor.stdout).not.toContain('nightly');
  });

  it('read the settings that the first run wrote from its options, also after a person has edited them', async () => {
    const service = await aService();
    const out = await aDirectory();
    const local = ['local', '--out', out, '--base-url', service.baseUrl, '--vendor', 'ACME', '--export', 'nightly'];
    const file = join(out, 'report-exporter.json');
    const first = await runInProcess([...local, '--size', '2'], env);
    expect(first).toMatchObject({ status: 0, stderr: expect.stringContaining(`Settings written to ${file}: `) });
    const settings = JSON.parse(readFileSync(file, 'utf8'));
    expect(settings).toEqual({
      services: { service: { baseUrl: service.baseUrl, vendor: 'ACME' } },
      exports: [{ name: 'nightly', size: 2 }],
    });
    expect(searchForSecrets({ file: readFileSync(file) }, env)).toEqual([]);

    settings.exports[0].size = 3;
    await writeFile(file, JSON.stringify(settings));
    const second = await runInProcess(['start', '--out', out], env);
    expect(second).toMatchObject({ status: 0, stderr: expect.stringContaining(`Settings: ${file}\n`) });
    expect(await runInProcess(local, env)).toMatchObject({ status: 0 });
    expect(bodiesOf(service).map(({ size }) => size)).toEqual([2, 2, 2, 3, 3]);

    const refused = await runInProcess([...local, '--size', '2', '--compress'], env);
    expect(refused.status).toBe(2);
    expect(refused.stderr).toContain(`--size: ${file} says otherwise. Edit that file, or leave out --size\n`);
    expect(refused.stderr).toContain(`--compress: ${file} says otherwise.`);
    const other = await runInProcess([...local.slice(0, -1), 'weekly'], env);
    expect(other).toMatchObject({ status: 2, stderr: expect.stringContaining(`weekly: no such export in ${file}`) });
    expect(service.exchanges).toHaveLength(5);
  });

  it('are not written by a start that is refused, and simulated exports stay simulated', async () => {
    const out = await aDirectory();
    const refused = await runInProcess(
      ['local', '--out', out, '--base-url', 'http://127.0.0.1:9', '--parallel', '2'],
      env,
    );
    expect(refused).toMatchObject({ status: 2, stderr: expect.stringContaining('filterUntil') });
    expect(readdirSync(out)).not.toContain('report-exporter.json');
    expect(await runInProcess(['local', '--out', out], {})).toMatchObject({ status: 0 });
    for (const words of [['start'], ['local'], ['plan']]) {
      expect(await runInProcess([...words, '--out', out], {})).toMatchObject({ status: 0 });
    }
  });

  it('of a service are refused in a directory with simulated reports, which stay readable', async () => {
    const service = await aService();
    const out = await aDirectory();
    expect(await runInProcess(['local', '--out', out, '--export', 'nightly'], {})).toMatchObject({ status: 0 });
    await writeFile(join(out, 'report-exporter.json'), JSON.stringify(fileWith(service.baseUrl, {})));
    const message = `${out} has simulated reports (nightly), so none of a service are stored there`;
    for (const command of ['local', 'start']) {
      const ended = await runInProcess([command, '--out', out], env);
      expect(ended).toMatchObject({ status: 2, stdout: '' });
      expect(ended.stderr).toContain(message);
    }
    const doctor = await runInProcess(['doctor', '--out', out, '--json'], env);
    expect(doctor.stdout).toContain(message);
    for (const command of ['status', 'verify']) {
      expect(await runInProcess([command, '--out', out], env)).toMatchObject({ status: 0 });
    }
    expect(service.exchanges).toEqual([]);
  });

  it('have either simulated services or others', async () => {
    const { local } = await aFile({
      services: {
        simulated: { baseUrl: 'https://simulator.invalid', apiKeyEnv: 'ONE_KEY' },
        acme: { baseUrl: 'https://a.example', apiKeyEnv: 'OTHER_KEY' },
      },
      exports: [
        { name: 'one', service: 'simulated' },
        { name: 'other', service: 'acme' },
      ],
    });
    const ended = await runInProcess([...local, 'one'], env);
    expect(ended).toMatchObject({ status: 2, stdout: '' });
    expect(ended.stderr).toContain('services.simulated is simulated, and others are not');
  });

  it('say what to do in a directory without exports and settings', async () => {
    const out = join(await aDirectory(), 'a b');
    expect(await runInProcess(['status', '--out', out], {})).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('Run an export into it first with the command local'),
    });
  });
});

describe('report-exporter doctor --settings', () => {
  it('checks the file, keys and services before anything has run, and stores nothing', async () => {
    const service = await aService();
    const { out, file } = await aFile({
      services: {
        acme: { baseUrl: service.baseUrl, vendor: 'ACME' },
        other: { baseUrl: 'http://127.0.0.1:9', vendor: 'ACME', apiKeyEnv: 'NOT_SET' },
      },
      exports: [
        { name: 'first', service: 'acme' },
        { name: 'second', service: 'acme' },
        { name: 'third', service: 'other' },
      ],
    });
    const ended = await runInProcess(['doctor', '--settings', file, '--json'], env);
    expect(ended.status).toBe(1);
    const { findings } = JSON.parse(ended.stdout);
    expect(findings).toContainEqual(expect.objectContaining({ check: 'settings', export: 'second', state: 'ok' }));
    expect(findings).toContainEqual(expect.objectContaining({ check: 'service', export: null, state: 'ok' }));
    expect(findings).toContainEqual(
      expect.objectContaining({
        check: 'key',
        export: 'third',
        message: expect.stringContaining('NOT_SET is not set'),
      }),
    );
    expect(service.exchanges).toHaveLength(1);
    expect(readdirSync(out)).toEqual(['report-exporter.json']);

    expect(await runInProcess(['doctor', 'first', '--settings', file], env)).toMatchObject({
      status: 0,
      stdout: expect.stringContaining(`0 problems, 0 warnings (settings file ${file})\n`),
    });
    expect(await runInProcess(['doctor', '--settings', file, '--stack', 'one'], env)).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('--stack, --settings: use only one of them'),
    });
    expect(await runInProcess(['doctor', '--settings', 'missing.json'], env)).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('missing.json: does not exist'),
    });
  });
});
