/** A run is abandoned only after a person has confirmed it. */

import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { createSqlitePageLog } from '../../../lib/local/sqlite/page-log.ts';
import { openRunNotes } from '../../../lib/local/sqlite/run-notes.ts';
import { abandonCommand } from '../../../lib/operator/commands/abandon.ts';
import { anExportState, aPageEntry, aRun } from '../../support/builders.ts';
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
  notes.saveSettings({ service: {}, export: { name: 'daily' }, apiKeyEnv: 'KEY' });
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
