/** What doctor says about slices. The rest is in test/transcripts. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../lib/core/errors.ts';
import { runHealthChecks } from '../../lib/operator/health-checks.ts';
import type { Target } from '../../lib/operator/target.ts';
import { collect } from '../support/builders.ts';
import { anExportBench, asExportTarget, type Bench } from '../support/export/export-bench.ts';
import { someReports } from '../support/export/scripted-service.ts';

/** The results of the check `name`. */
async function check(bench: Bench, name: string) {
  const deployed = asExportTarget(bench);
  const deployment: Target = {
    name: 'memory',
    option: '--out .',
    exportNames: async () => [deployed.name],
    open: async () => deployed,
    openAll: async () => [deployed],
    [Symbol.asyncDispose]: async () => {},
  };
  const options = { version: '1', program: 'report-exporter', notify: () => {}, runtime: bench.deps.runtime };
  const results = await collect(runHealthChecks(deployment, undefined, options));
  return results.filter((result) => result.check === name);
}

describe('doctor', () => {
  it('warns of slices that are set aside while the run continues', async () => {
    const bench = anExportBench({
      reports: someReports(5).map((report) => ({ ...report, date: '2026-11-20T01:58:30Z' })),
      script: ({ since, cursor }) => {
        if (since === '2026-11-20T01:58:00Z' && cursor !== null) throw new ExportError('ContractError', 'no XML');
        return undefined;
      },
    });
    await bench.start({ since: '2026-11-20T01:57:00Z', slice: 'PT1M' });
    const { active } = await bench.state();
    bench.running.add(active?.execution ?? '');
    expect(await check(bench, 'runs')).toMatchObject([
      { state: 'warning', message: `run ${active?.run} is running: slice 2 set aside: ContractError: no XML` },
    ]);
  });
});
