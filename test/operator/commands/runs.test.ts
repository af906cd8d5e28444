/** `status --runs`, and with `--bounded`, on a directory. */

import { expect, it, onTestFinished } from 'vitest';
import { aDirectory, runInProcess } from '../../support/process/command-line.ts';
import { inMemoryReports } from '../../support/service/in-memory-reports.ts';
import { simulatorApiKey, someReports, startTestSimulator } from '../../support/service/simulator-client.ts';

const env = { REPORT_EXPORT_API_KEY: simulatorApiKey };

it('lists bounded runs by their bounds, and never among the others', async () => {
  const out = await aDirectory();
  const simulator = await startTestSimulator({ reports: inMemoryReports(someReports(5)) });
  onTestFinished(() => simulator.close());
  const service = ['--base-url', simulator.baseUrl, '--vendor', 'SERVICE', '--filter-until', 'date.lt'];
  expect((await runInProcess(['local', '--out', out, '--export', 'nightly', ...service], env)).status).toBe(0);

  for (const [since, until] of [
    ['2026-02-01', '2026-03-01'],
    ['2026-01-01', '2026-02-01'],
  ] as const) {
    expect((await runInProcess(['start', '--since', since, '--until', until, '--out', out], env)).status).toBe(0);
  }
  const list = async (...options: string[]) =>
    (await runInProcess(['status', '--runs', '--out', out, ...options], env)).stdout.trimEnd().split('\n');
  expect(await list()).toEqual([
    expect.stringMatching(/^ *SEQUENCE +RUN +COMPLETED +PAGES +REPORTS/),
    expect.stringMatching(/^1\d{9} +2\d{7}T\S+ +2\d{3}-\d\d-\d\dT[\d:]{8}Z +1 +5/),
  ]);
  expect(await list('--bounded')).toEqual([
    expect.stringMatching(/^RUN +SINCE +UNTIL +PAGES$/),
    expect.stringMatching(/^2\d{7}T\S+ +2026-01-01T00:00:00Z +2026-02-01T00:00:00Z +1$/),
    expect.stringMatching(/^2\d{7}T\S+ +2026-02-01T00:00:00Z +2026-03-01T00:00:00Z +1$/),
  ]);
  const alone = await runInProcess(['status', '--after', '1', '--out', out], env);
  expect(alone).toMatchObject({ status: 2, stderr: expect.stringContaining('select published runs; add --runs') });
  const watched = await runInProcess(['status', '--runs', '--watch', '--out', out], env);
  expect(watched).toMatchObject({ status: 2, stderr: expect.stringContaining('leave out --failed and --watch') });
});
