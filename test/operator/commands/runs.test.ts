/** `status --runs` on a directory. */

import { expect, it, onTestFinished } from 'vitest';
import { aDirectory, runInProcess } from '../../support/process/command-line.ts';
import { inMemoryReports } from '../../support/service/in-memory-reports.ts';
import { simulatorApiKey, someReports, startTestSimulator } from '../../support/service/simulator-client.ts';

const env = { REPORT_EXPORT_API_KEY: simulatorApiKey };

it('lists regular and bounded runs in the order of their sequence', async () => {
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
  const { stdout } = await runInProcess(['status', '--runs', '--out', out], env);
  expect(stdout.trimEnd().split('\n')).toEqual([
    expect.stringMatching(/^RUN +SINCE +UNTIL +PAGES$/),
    expect.stringMatching(/^2\d{7}T\S+ +1970-01-01T00:00:00Z +1$/),
    expect.stringMatching(/^2\d{7}T\S+ +2026-02-01T00:00:00Z +2026-03-01T00:00:00Z +1$/),
    expect.stringMatching(/^2\d{7}T\S+ +2026-01-01T00:00:00Z +2026-02-01T00:00:00Z +1$/),
  ]);
  const both = await runInProcess(['status', '--runs', '--failed', '--out', out], env);
  expect(both).toMatchObject({ status: 2, stderr: expect.stringContaining('leave out --failed') });
});
