/** Nothing is given up unless a person says so. */

import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { createSqlitePageLog } from '../../../lib/local/sqlite/page-log.ts';
import { openRunNotes } from '../../../lib/local/sqlite/run-notes.ts';
import { abandonCommand } from '../../../lib/operator/commands/abandon.ts';
import { aHead, aPageEntry, aRun } from '../../support/builders.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

/** Asks at a terminal whether the unfinished run of an export is given up, and gets this answer. */
async function answered(answer: string | undefined) {
  await using directory = await temporaryDirectory();
  const file = `${directory.path}/state.sqlite`;
  const run = aRun({ export: 'daily' });
  const log = createSqlitePageLog(file);
  await log.replaceState(aHead({ export: 'daily', active: run, sequence: run.sequence }));
  await log.append(aPageEntry({ export: 'daily', run: run.run, page: 1 }));
  const notes = openRunNotes(file);
  notes.remember({ service: {}, export: { name: 'daily' }, apiKeyEnv: 'KEY' });
  notes.close();

  const stdin = Object.assign(new PassThrough(), { isTTY: true });
  const stderr = Object.assign(new PassThrough(), { isTTY: true });
  let said = '';
  stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString();
    if (!said.includes('[y/N]') || stdin.writableEnded) return;
    if (answer === undefined) stdin.end();
    else stdin.end(`${answer}\n`);
  });
  const told: string[] = [];
  const stdout = { write: (text: string) => told.push(text) };
  const world = { env: {}, stdin, stdout, stderr, signal: new AbortController().signal };
  const status = await abandonCommand('daily', { out: directory.path }, [], world);
  const head = await log.exportState('daily');
  log.close();
  return { status, isActive: head?.active !== undefined, said, told: told.join(''), run: run.run };
}

describe('abandon at a terminal', () => {
  it.each(['y', 'yes', 'Y', ' y '])('gives the run up when the answer is %j', async (answer) => {
    const { status, isActive, said, told, run } = await answered(answer);
    expect({ status, isActive }).toEqual({ status: 0, isActive: false });
    expect(said).toContain(`Run ${run} of export daily, since`);
    expect(told).toContain(`Given up: run ${run}`);
  });

  it.each(['', 'n', 'no', 'yep?', undefined])('leaves it when the answer is %j', async (answer) => {
    const { status, isActive, said } = await answered(answer);
    expect({ status, isActive }).toEqual({ status: 1, isActive: true });
    expect(said).toContain('Nothing was changed.');
  });
});
