/** A run is abandoned only after a person has confirmed it. */

import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { boundedStateName } from '../../../lib/core/bounded-runs.ts';
import { createSqlitePageLog } from '../../../lib/local/sqlite/page-log.ts';
import { openRunNotes } from '../../../lib/local/sqlite/run-notes.ts';
import { abandonCommand } from '../../../lib/operator/commands/abandon.ts';
import { settingsVersion } from '../../../lib/settings/deployed-settings.ts';
import { aLocalExport, anExportState, aPageEntry, aRun, aRunId, at } from '../../support/builders.ts';
import { runInProcess } from '../../support/process/command-line.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const daily = { version: settingsVersion, ...aLocalExport({ export: { name: 'daily' } }) } as const;

/** Runs the command for an unfinished run at a terminal, where a person replies so; undefined ends the input. */
async function abandonWithReply(reply: string | undefined) {
  await using directory = await temporaryDirectory();
  const file = `${directory.path}/state.sqlite`;
  const run = aRun({ export: 'daily' });
  const log = createSqlitePageLog(file);
  await log.replaceState(anExportState({ export: 'daily', active: run, sequence: run.sequence }));
  await log.append(aPageEntry({ export: 'daily', run: run.run, page: 1 }));
  const notes = openRunNotes(file);
  notes.saveStart('daily', daily);
  notes.close();

  const stdin = Object.assign(new PassThrough(), { isTTY: true });
  const stderr = Object.assign(new PassThrough(), { isTTY: true });
  let stderrText = '';
  stderr.on('data', (chunk: Buffer) => {
    stderrText += chunk.toString();
    if (!stderrText.includes('[y/N]') || stdin.writableEnded) return;
    if (reply === undefined) stdin.end();
    else stdin.end(`${reply}\n`);
  });
  let stdoutText = '';
  const stdout = { write: (text: string) => (stdoutText += text) };
  const context = {
    env: {},
    stdin,
    stdout,
    stderr,
    signal: new AbortController().signal,
    program: 'npx report-exporter',
  };
  const status = await abandonCommand('daily', { out: directory.path }, [], context);
  const state = await log.exportState('daily');
  log.close();
  return { status, isActive: state?.active !== undefined, stdout: stdoutText, stderr: stderrText, run: run.run };
}

describe('abandon at a terminal', () => {
  it.each(['y', 'yes', 'Y', ' y '])('abandons the run if the reply is %j', async (reply) => {
    const { status, isActive, stdout, stderr, run } = await abandonWithReply(reply);
    expect({ status, isActive }).toEqual({ status: 0, isActive: false });
    expect(stderr).toContain(`Run ${run} of export daily, since`);
    expect(stdout).toContain(`Abandoned: run ${run}`);
  });

  it.each(['', 'n', 'no', 'yep?', undefined])('changes nothing if the reply is %j', async (reply) => {
    const { status, isActive, stderr } = await abandonWithReply(reply);
    expect({ status, isActive }).toEqual({ status: 1, isActive: true });
    expect(stderr).toContain('Nothing was changed.');
  });
});

describe('abandon --since --until', () => {
  const bounds = { since: at('2026-01-01T00:00:00Z'), until: at('2026-02-01T00:00:00Z') };
  const options = ['--yes', '--since', '2026-01-01', '--until', '2026-02-01'];

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
    const notes = openRunNotes(file);
    notes.saveStart('daily', daily);
    notes.close();

    const abandon = async () => await runInProcess(['abandon', 'daily', ...options, '--out', directory.path]);
    const ended = await abandon();
    expect(ended).toMatchObject({ status: 0 });
    expect(ended.stderr).toContain(
      `Run ${run.run} of export daily, from ${bounds.since} to ${bounds.until}: 2 pages stored, none published.`,
    );
    expect(ended.stdout).toContain(`start daily --since ${bounds.since} --until ${bounds.until}`);
    expect((await log.exportState(stateName))?.active).toBeUndefined();
    expect((await log.exportState('daily'))?.active?.run).toBe(scheduled.run);
    log.close();
    expect(await abandon()).toMatchObject({
      status: 2,
      stderr: expect.stringContaining(
        `Export daily has no unfinished run from ${bounds.since} to ${bounds.until} to abandon`,
      ),
    });
  });
});
