/** `runs` and `runs --bounded`, on a directory. */

import { Readable } from 'node:stream';
import { expect, it, onTestFinished } from 'vitest';
import { runsCommand } from '../../../lib/operator/commands/runs.ts';
import { startCommand } from '../../../lib/operator/commands/start.ts';
import { aDirectory, runInProcess } from '../../support/process/command-line.ts';
import { inMemoryReports } from '../../support/service/in-memory-reports.ts';
import { simulatorApiKey, someReports, startTestSimulator } from '../../support/service/simulator-client.ts';

const env = { REPORT_EXPORT_API_KEY: simulatorApiKey, NO_COLOR: '1' };

it('lists bounded runs by their bounds, and never among the others', async () => {
  const out = await aDirectory();
  const simulator = await startTestSimulator({ reports: inMemoryReports(someReports(5)) });
  onTestFinished(() => simulator.close());
  const service = ['--base-url', simulator.baseUrl, '--vendor', 'SERVICE', '--filter-until', 'date.lt'];
  expect((await runInProcess(['local', '--out', out, '--export', 'nightly', ...service], env)).status).toBe(0);

  let text = '';
  const context = {
    env,
    stdin: Readable.from([]),
    stdout: { write: (chunk: string) => (text += chunk) !== '' },
    stderr: { write: () => true },
    signal: new AbortController().signal,
    program: 'report-exporter',
  };
  for (const [since, until] of [
    ['2026-02-01', '2026-03-01'],
    ['2026-01-01', '2026-02-01'],
  ] as const) {
    const options = { out, since: `${since}T00:00:00Z`, until: `${until}T00:00:00Z`, json: true };
    expect(await startCommand(['nightly'], options, [], context)).toBe(0);
  }
  const list = async (bounded: boolean) => {
    text = '';
    expect(await runsCommand(undefined, { out, after: '0', bounded }, [], context)).toBe(0);
    return text.trimEnd().split('\n');
  };
  expect(await list(false)).toHaveLength(2);
  expect(await list(true)).toEqual([
    expect.stringMatching(/^RUN +SINCE +UNTIL +PAGES$/),
    expect.stringMatching(/^2\d{7}T\S+ +2026-01-01T00:00:00Z +2026-02-01T00:00:00Z +1$/),
    expect.stringMatching(/^2\d{7}T\S+ +2026-02-01T00:00:00Z +2026-03-01T00:00:00Z +1$/),
  ]);
});
