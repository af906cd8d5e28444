/** A run is abandoned only after a person has confirmed it. */

import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { windowName } from '../../../lib/backfill/windows.ts';
import { executionId } from '../../../lib/local/execution.ts';
import { acquireBackfillLock } from '../../../lib/local/lock.ts';
import { createSqlitePageLog } from '../../../lib/local/sqlite/page-log.ts';
import { openRunNotes } from '../../../lib/local/sqlite/run-notes.ts';
import { abandonCommand } from '../../../lib/operator/commands/abandon.ts';
import { publishingText } from '../../../lib/operator/output/backfill-table.ts';
import { anExportState, aPlan, aPageEntry, aRun, at } from '../../support/builders.ts';
import { runInProcess } from '../../support/process/command-line.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

/** Runs the command for an unfinished run at a terminal, where a person replies so; undefined ends the input. */
async function abandonWithReply(reply: string | undefined) {
  await using directory = await temporaryDirectory();
  const file = `${directory.path}/state.sqlite`;
  const run = aRun({ export: 'daily' });
  const log = createSqlitePageLog(file);
  await log.replaceState(anExportState({ export: 'daily', active: run, sequence: run.sequence }));
  await log.append(aPageEntry({ export: 'daily', run: run.run, page: 1 }));
  const notes = openRunNotes(file);
  notes.saveStart('daily', { service: {}, export: { name: 'daily' }, apiKeyEnv: 'KEY' });
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

describe('abandon --backfill with a window that could not be published', () => {
  const window = { since: at('2026-11-01T00:00:00Z'), until: at('2026-11-08T00:00:00Z') };
  const lastFailure = { error: 'PageConflictError', message: 'page 3 is missing', at: at('2026-11-20T02:00:00Z') };
  const run = aRun({
    export: 'daily',
    ...window,
    execution: executionId('window-1'),
    completion: { at: at('2026-11-20T01:59:00Z'), isPublished: true },
    lastFailure,
  });

  async function abandonBackfillIn(out: string) {
    const file = `${out}/state.sqlite`;
    const log = createSqlitePageLog(file);
    const name = windowName('daily', window);
    await log.replaceState(anExportState({ export: name, active: run, sequence: run.sequence, plan: aPlan() }));
    await log.backfills.replace({
      export: 'daily',
      version: 1,
      plan: 1,
      from: window.since,
      to: window.until,
      windowMs: 604_800_000,
      parallel: 1,
      requestChecksum: 'checksum',
      startedAt: at('2026-11-20T01:00:00Z'),
    });
    const notes = openRunNotes(file);
    notes.saveStart('daily', { service: {}, export: { name: 'daily' }, apiKeyEnv: 'KEY' });
    notes.close();
    const ended = await runInProcess(['abandon', 'daily', '--backfill', '--yes', '--out', out]);
    const isActive = (await log.exportState(name))?.active !== undefined;
    log.close();
    return { ...ended, isActive };
  }

  it('abandons it in a directory: no process can still publish it', async () => {
    await using directory = await temporaryDirectory();
    expect(await abandonBackfillIn(directory.path)).toMatchObject({
      status: 0,
      isActive: false,
      stdout: 'Abandoned: the backfill of daily, with 1 unfinished run\n',
    });
  });

  it('says what becomes of it while a process is exporting it', async () => {
    await using directory = await temporaryDirectory();
    const lock = acquireBackfillLock(directory.path, 'daily');
    const ended = await abandonBackfillIn(directory.path);
    lock?.release();
    expect(ended).toMatchObject({ status: 0, isActive: true });
    expect(ended.stdout).toContain(
      `Not abandoned: ${window.since} to ${window.until}, run ${run.run}, is being published`,
    );
  });

  it('says on a stack why it failed, what completes it, and when it can be abandoned', () => {
    expect(publishingText({ ...window, run: run.run, state: 'failed', lastFailure })).toBe(
      `Not abandoned: ${window.since} to ${window.until}, run ${run.run}, could not be published (PageConflictError: page 3 is missing)\n` +
        '  → it completes when the backfill is started again, unless that fails. If it cannot complete, abandon the backfill again, not ' +
        'before 2026-11-20T03:00:00Z\n',
    );
    expect(publishingText({ ...window, run: run.run, state: 'interrupted', lastFailure: null })).toMatch(
      /was interrupted while it was being published\n  → it completes when the backfill is started again, unless that fails\n$/,
    );
  });
});
