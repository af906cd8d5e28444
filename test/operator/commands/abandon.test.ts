/** The command `abandon`, of a bounded run. What it does to a regular one is in `abandon-run.test.ts`. */

import { describe, expect, it } from 'vitest';
import { boundedStateName } from '../../../lib/core/bounded-runs.ts';
import { anExportState, aPageEntry, aRun, aRunId, at } from '../../support/builders.ts';
import { runInProcess } from '../../support/process/command-line.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { createSqlitePageLog } from '../../support/export/directory-store.ts';

describe('abandon --since --until', () => {
  const bounds = { since: at('2026-01-01T00:00:00Z'), until: at('2026-02-01T00:00:00Z') };
  const options = ['--since', '2026-01-01', '--until', '2026-02-01'];

  it('abandons the bounded run, with the pages of all its slices, and no other', async () => {
    await using directory = await temporaryDirectory();
    const file = `${directory.path}/state.sqlite`;
    const scheduled = aRun({ export: 'daily' });
    const slices = { count: 3, lengthMs: 864_000_000, parallel: 2 };
    const run = aRun({ export: 'daily', run: aRunId(), ...bounds, bounded: true, slices });
    const stateName = boundedStateName('daily', bounds);
    const log = createSqlitePageLog(file);
    await log.replaceState(anExportState({ export: 'daily', active: scheduled }));
    await log.replaceState(anExportState({ export: stateName, active: run }));
    for (const slice of [1, 2]) {
      await log.append(aPageEntry({ export: 'daily', run: run.run, page: 1, slice, attempt: 1 }));
    }

    const abandon = async (...more: string[]) =>
      await runInProcess(['abandon', 'daily', ...options, '--out', directory.path, ...more]);
    expect(await abandon()).toMatchObject({ status: 2, stderr: expect.stringContaining('--yes: required') });
    expect((await log.exportState(stateName))?.active?.run).toBe(run.run);
    const ended = await abandon('--yes');
    expect(ended).toMatchObject({ status: 0 });
    expect(ended.stderr).toContain(
      `Run ${run.run} of export daily, from ${bounds.since} to ${bounds.until}: 2 pages stored, none published.`,
    );
    expect(ended.stdout).toContain(`start daily --since ${bounds.since} --until ${bounds.until}`);
    expect((await log.exportState(stateName))?.active).toBeUndefined();
    expect((await log.exportState('daily'))?.active?.run).toBe(scheduled.run);
    log.close();
    expect(await abandon('--yes')).toMatchObject({
      status: 2,
      stderr: expect.stringContaining(
        `Export daily has no unfinished run from ${bounds.since} to ${bounds.until} to abandon`,
      ),
    });
  });
});
