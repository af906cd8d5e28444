/** The command line of a backfill in a directory, with the simulator. */

import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { apiSchema } from '../../../lib/settings/api-settings.ts';
import { errorResponse, type FaultScript } from '../../support/service/faults.ts';
import { inMemoryReports } from '../../support/service/in-memory-reports.ts';
import { problemsIn } from '../../support/docs/published-schemas.ts';
import { aDirectory, runInProcess } from '../../support/process/command-line.ts';
import { simulatorApiKey, someReports, startTestSimulator } from '../../support/service/simulator-client.ts';

/** A directory with an export that has run once, and whose past of 40 minutes the simulator still has. */
async function aPastToExport() {
  const out = await aDirectory();
  const to = new Date(Math.floor(Date.now() / 1_000) * 1_000 - 60_000);
  const from = new Date(to.getTime() - 1_200_000);
  const since = ['--since', to.toISOString()];
  expect((await runInProcess(['local', '--out', out, ...since])).status).toBe(0);
  return { out, period: ['--from', from.toISOString(), '--to', to.toISOString()] };
}

describe('the command backfill', () => {
  it('shows its windows and a request, exports them, and then has nothing left to do', async () => {
    const { out, period } = await aPastToExport();
    const words = ['backfill', '--out', out, ...period, '--window', 'PT5M'];

    const plan = await runInProcess([...words, '--plan']);
    expect(plan.status).toBe(0);
    expect(plan.stdout).toMatch(/^A backfill of reports has 4 windows, 4 at the same time:\n {2}20\S+Z to 20\S+Z\n/);
    expect(plan.stdout).toMatch(/"filter":\{"date":\{"lt":"20\S+Z","gte":"20\S+Z"\}\}/);
    expect((await runInProcess(['runs', '--windows', '--json', '--out', out])).stdout).toBe('');

    const done = await runInProcess([...words, '--json']);
    expect(done.status).toBe(0);
    expect(done.stderr).toContain('Completed: the backfill of reports: 4 of 4 windows done (');
    expect(JSON.parse(done.stdout)).toMatchObject({
      status: 'ended',
      backfill: { state: 'completed', counts: { done: 4 }, reports: 120 },
    });
    const planned = await runInProcess([...words, '--plan']);
    expect(planned.stdout).toMatch(
      /^A backfill of reports has 4 windows, of which 4 are done, 4 at the same time:\n .*Z \(done\)\n/,
    );
    expect(planned.stdout).toContain('At least 2 requests:');
    const refused = await runInProcess(['backfill', '--out', out, ...period, '--window', 'PT7M', '--plan']);
    expect(refused).toMatchObject({ status: 2, stdout: '' });
    expect(refused.stderr).toContain('which is none of these windows');
    const again = await runInProcess(words);
    expect(again.stdout).toContain('Completed: the backfill of reports: 4 of 4 windows done (');

    const listed = await runInProcess(['runs', '--windows', '--json', '--out', out]);
    const windows = listed.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(windows).toHaveLength(4);
    for (const { location, manifest } of windows) {
      expect(location).toBe(join(out, manifest));
      const summary = JSON.parse(await readFile(join(dirname(location), 'window.json'), 'utf8'));
      expect(problemsIn('window.v1', summary)).toEqual([]);
      expect(problemsIn('manifest.v1', JSON.parse(await readFile(location, 'utf8')))).toEqual([]);
      expect((await runInProcess(['verify', '--out', out, '--run', summary.run])).stdout).toContain('Verified');
    }
    const status = await runInProcess(['status', 'reports', '--json', '--out', out]);
    const [{ runs, backfill }] = JSON.parse(status.stdout).exports;
    expect(runs).toHaveLength(1);
    expect(backfill).toMatchObject({ state: 'completed', windows: { length: 4 } });
  });

  it('exports four windows at the same time by default, or fewer if the service allows fewer requests', async () => {
    const { out, period } = await aPastToExport();
    const plan = ['backfill', '--out', out, ...period, '--window', 'PT1M', '--plan'];
    expect((await runInProcess(plan)).stdout).toContain('20 windows, 4 at the same time');
    const many = await runInProcess([...plan, '--parallel', '101']);
    expect(many.stderr).toContain('--parallel: must be a whole number from 1 to 100');
  });

  describe('of a service that fails', () => {
    const env = { REPORT_EXPORT_API_KEY: simulatorApiKey };
    const period = ['--from', '2026-11-20T00:00:00Z', '--to', '2026-11-20T00:01:00Z', '--window', 'PT10S'];

    /** A directory with an export of a service with a report a second, which answers as `script` says after a first run and the check. */
    async function aFailingService(script: FaultScript) {
      const out = await aDirectory();
      let requests = 0;
      const simulator = await startTestSimulator({
        reports: inMemoryReports(someReports(60)),
        faults: (request) => ((requests += 1) <= 3 ? undefined : script(request)),
      });
      onTestFinished(() => simulator.close());
      const service = ['--base-url', simulator.baseUrl, '--vendor', 'SERVICE', '--filter-until', 'date.lt'];
      const since = ['--since', '2026-11-21T00:00:00Z'];
      expect((await runInProcess(['local', '--out', out, ...service, ...since], env)).status).toBe(0);
      return { simulator, words: ['backfill', '--out', out, ...period, '--parallel', '2'], out };
    }

    it('says that it retries', async () => {
      let failures = 0;
      const { words } = await aFailingService(() => ((failures += 1) === 1 ? errorResponse(503) : undefined));
      const { status, stderr } = await runInProcess(words, env);
      expect(status).toBe(0);
      expect(stderr).toMatch(/^20\S+Z Retrying .*\(attempt 2 of \d+\): ServiceUnavailableError: .*503/m);
    });

    it('begins no further windows with a key that is rejected, and says how to continue', async () => {
      const { simulator, words, out } = await aFailingService(() => errorResponse(401));
      const { status, stdout, stderr } = await runInProcess(words, env);
      expect(status).toBe(1);
      expect(stderr).toMatch(
        /^20\S+Z Failed: 2026-11-20T00:00:00Z to 2026-11-20T00:00:10Z: ConfigurationError: .*401/m,
      );
      // The first run, the check, and two windows at the same time.
      expect(simulator.exchanges).toHaveLength(5);
      expect(stdout).toContain('Unfinished: the backfill of reports: 0 of 6 windows done');
      const same = '--from 2026-11-20T00:00:00Z --to 2026-11-20T00:01:00Z --window PT10S --parallel 2';
      expect(stdout).toContain(`report-exporter backfill reports ${same} --out ${out}`);
      expect((await runInProcess(['status', 'reports', '--out', out])).status).toBe(0);
    });

    it('continues to count at the pages of the windows that are done', async () => {
      let failures = 0;
      const { words } = await aFailingService(() => ((failures += 1) === 1 ? errorResponse(400) : undefined));
      expect((await runInProcess(words, env)).stderr).toMatch(/^20\S+Z 0 of 6 windows done · 0 pages$/m);
      const resumed = await runInProcess([...words, '--json'], env);
      expect(resumed.stderr).toMatch(/^20\S+Z 5 of 6 windows done · 5 pages$/m);
      expect(JSON.parse(resumed.stdout)).toMatchObject({ backfill: { state: 'completed', pages: 6 } });
    });

    it('says only what went wrong, and the result, if it is quiet', async () => {
      let failures = 0;
      const { words } = await aFailingService(() => ((failures += 1) === 1 ? errorResponse(400) : undefined));
      const { stdout, stderr } = await runInProcess([...words, '--quiet'], env);
      expect(stderr).toMatch(/^20\S+Z Failed: 2026-11-20T\S+Z to \S+Z: RequestRejectedError: [^\n]*\n$/);
      expect(stdout).toMatch(/^20\S+Z Unfinished: the backfill of reports: 5 of 6 windows done/);
      expect(await runInProcess([...words, '--quiet'], env)).toMatchObject({ status: 0, stderr: '' });
    });

    it('is shown in the status of all exports, without its windows, and by doctor', async () => {
      let failures = 0;
      const { words, out } = await aFailingService(() => ((failures += 1) === 1 ? errorResponse(400) : undefined));
      expect((await runInProcess(words, env)).status).toBe(1);
      await runInProcess(['local', '--out', out, '--export', 'other'], env);

      const { exports } = JSON.parse((await runInProcess(['status', '--json', '--out', out])).stdout);
      const { windows, ...backfill } = JSON.parse(
        (await runInProcess(['status', 'reports', '--json', '--out', out])).stdout,
      ).exports[0].backfill;
      expect(backfill).toMatchObject({ state: 'unfinished', counts: { done: 5, failed: 1 } });
      expect(windows).toHaveLength(6);
      expect(exports).toMatchObject([
        { export: 'other', backfill: null },
        { export: 'reports', state: 'completed', backfill },
      ]);
      expect(exports[1].backfill).not.toHaveProperty('windows');
      expect((await runInProcess(['status', '--out', out])).stdout).toMatch(/^reports .*5\/6 windows, 1 failed/m);

      const doctor = await runInProcess(['doctor', '--json', '--out', out], env);
      const found = JSON.parse(doctor.stdout).findings.filter(({ check }: { check: string }) => check === 'backfill');
      expect(found).toEqual([
        {
          check: 'backfill',
          export: 'reports',
          state: 'warning',
          message: '2026-11-20T00:00:00Z to 2026-11-20T00:01:00Z is unfinished: 5/6 windows, 1 failed',
          remedy: expect.stringContaining(
            `backfill reports --from 2026-11-20T00:00:00Z --to 2026-11-20T00:01:00Z --window PT10S --parallel 2 --out ${out}`,
          ),
        },
      ]);
      expect((await runInProcess([...words, 'reports'], env)).status).toBe(0);
      expect((await runInProcess(['doctor', '--out', out], env)).stdout).not.toContain('backfill');
    });
  });

  it('names every problem of its options at once', async () => {
    const { out } = await aPastToExport();
    const words = ['backfill', '--out', out, '--from', 'yesterday', '--window', 'a week', '--parallel', '0'];
    const { status, stderr } = await runInProcess(words);
    expect(status).toBe(2);
    for (const option of ['--from: ', '--to: required', '--window: ', '--parallel: ']) {
      expect(stderr).toContain(option);
    }
    const reversed = ['backfill', '--out', out, '--from', '2026-01-02', '--to', '2026-01-01'];
    expect((await runInProcess(reversed)).stderr).toContain('--to: must be after --from');
    const many = ['backfill', '--out', out, '--from', '2020-01-01', '--to', '2026-01-01', '--window', 'PT1H'];
    expect((await runInProcess(many)).stderr).toContain('--window: results in 52,608 windows, more than 10,000');
  });

  it('is refused with bounds that its requests would round, before it requests anything', async () => {
    const api = {
      request: { path: '/events', query: { from: '{since}', to: '{until}' } },
      dates: 'date' as const,
      auth: { kind: 'bearer' as const },
      next: { from: 'link' as const },
      page: { format: 'json' as const, reports: '/events/*' },
    };
    const simulator = await startTestSimulator({ reports: inMemoryReports([]), api: apiSchema.parse(api) });
    onTestFinished(() => simulator.close());
    const out = await aDirectory();
    const settings = join(out, 'settings.json');
    const services = { acme: { baseUrl: simulator.baseUrl, api } };
    await writeFile(settings, JSON.stringify({ services, exports: [{ name: 'nightly' }] }));
    const env = { REPORT_EXPORT_API_KEY: simulatorApiKey };
    expect((await runInProcess(['local', '--settings', settings, '--out', out], env)).status).toBe(0);
    const before = simulator.exchanges.length;
    const words = [
      'backfill',
      '--out',
      out,
      '--from',
      '2020-01-01',
      '--to',
      '2020-01-03T12:00:00Z',
      '--window',
      'PT12H',
    ];
    for (const refused of [await runInProcess([...words, '--plan'], env), await runInProcess(words, env)]) {
      expect(refused).toMatchObject({ status: 2, stdout: '' });
      expect(refused.stderr).toContain('--to: must be in whole days (UTC)');
      expect(refused.stderr).toContain('--window: must be in whole days (UTC)');
    }
    expect(simulator.exchanges).toHaveLength(before);
  });

  it('is refused without filterUntil, and if the filter has its own condition', async () => {
    const { out, period } = await aPastToExport();
    const filter = ['--filter', '{"date":{"lt":"2200-01-01T00:00:00Z"}}'];
    await runInProcess(['local', '--out', out, '--export', 'bounded', ...filter]);
    const { status, stderr } = await runInProcess(['backfill', 'bounded', '--out', out, ...period]);
    expect(status).toBe(2);
    expect(stderr).toContain('The filter of export bounded has its own date.lt');
  });

  it('is abandoned only with --yes where there is no terminal', async () => {
    const { out, period } = await aPastToExport();
    const words = ['abandon', 'reports', '--backfill', '--out', out];
    expect((await runInProcess([...words, '--yes'])).stderr).toContain('Export reports has no backfill to abandon');
    await runInProcess(['backfill', '--out', out, ...period, '--window', 'PT5M']);
    expect((await runInProcess([...words, '--yes'])).stderr).toContain('all windows are done');
  });
});
