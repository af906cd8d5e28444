/** Commands that read, on a directory that they may not write to: as another user if the tests run as root. */

import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, lstatSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { acquireExportLock } from '../../lib/local/lock.ts';
import { aRun } from '../support/builders.ts';
import { aDirectory, type CommandResult, jsonOf, runInProcess } from '../support/process/command-line.ts';
import { createSqlitePageLog } from '../support/export/directory-store.ts';

const program = join(import.meta.dirname, '../../bin/report-exporter.ts');
const nobody = 65_534;
const isRoot = process.getuid?.() === 0;

/** Runs a command as a user who may read the directory and change nothing in it. */
function runAsReader(...args: readonly string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], {
    encoding: 'utf8',
    env: { PATH: process.env.PATH },
    ...(isRoot && { uid: nobody, gid: nobody }),
  });
  return { status, stdout, stderr };
}

/** All names in the directory, with when and how they were changed. */
const contentOf = (out: string): readonly string[] =>
  readdirSync(out, { recursive: true, encoding: 'utf8' })
    .toSorted()
    .map((name) => {
      const { mtimeNs, size } = lstatSync(join(out, name), { bigint: true });
      return `${name} ${size} ${mtimeNs}`;
    });

function setWritable(out: string, writable: boolean): void {
  for (const name of ['.', ...readdirSync(out, { recursive: true, encoding: 'utf8' })]) {
    const isDirectory = lstatSync(join(out, name)).isDirectory();
    chmodSync(join(out, name), (isDirectory ? 0o555 : 0o444) | (writable ? 0o200 : 0));
  }
}

/** A directory with a completed run of three pages. */
async function aCompletedRun() {
  const out = await aDirectory();
  onTestFinished(() => setWritable(out, true));
  expect(jsonOf(await runInProcess(['local', '--out', out, '--json']))).toMatchObject({
    status: 'completed',
    pages: 3,
  });
  return { out };
}

const commands = [
  ['status', '--json'],
  ['status', 'reports', '--json'],
  ['verify', '--json'],
  ['status', '--runs', '--json'],
  ['plan', '--json'],
  ['verify', '--all'],
] as const;

/** What changes from one read to the next. */
const withoutTimes = ({ status, stdout, stderr }: Omit<CommandResult, 'signal'>) => ({
  status,
  stdout: stdout.replaceAll(/"(at|begunAt)":"[^"]*"/g, ''),
  stderr,
});

/** The state that `status` shows to a reader, who leaves the directory as it is. */
function stateForReader(out: string): unknown {
  setWritable(out, false);
  const before = contentOf(out);
  const ended = runAsReader('status', '--json', '--out', out);
  expect(ended).toMatchObject({ status: 0, stderr: '' });
  expect(contentOf(out)).toEqual(before);
  setWritable(out, true);
  return JSON.parse(ended.stdout).exports[0].state;
}

describe('a directory that may only be read', () => {
  it('shows the same to another user as to its owner, and neither changes anything in it', async () => {
    const { out } = await aCompletedRun();
    const before = contentOf(out);
    const ofOwner: CommandResult[] = [];
    for (const command of commands) ofOwner.push(await runInProcess([...command, '--out', out]));
    expect(contentOf(out)).toEqual(before);

    setWritable(out, false);
    const ofReader = commands.map((command) => runAsReader(...command, '--out', out));
    expect(ofReader.map(withoutTimes)).toEqual(ofOwner.map(withoutTimes));
    expect(ofReader.map(({ status }) => status)).toEqual(commands.map(() => 0));
    expect(contentOf(out)).toEqual(before);
  });

  it('is read while a run is writing, after that run was killed, and not without the index of its log', async () => {
    const { out } = await aCompletedRun();
    const killed = await aDirectory();
    const stateFile = join(out, 'state.sqlite');
    const log = createSqlitePageLog(stateFile);
    const lock = acquireExportLock(out, 'reports');
    const state = await log.exportState('reports');
    if (state === undefined) throw new Error('The run has left no state');
    await log.replaceState({ ...state, version: state.version + 1, active: aRun({ export: 'reports' }) });
    expect(stateForReader(out)).toBe('running');

    // After a kill, the last change is in the log of the database only.
    cpSync(out, killed, { recursive: true });
    lock?.release();
    log.close();
    expect(readdirSync(killed)).toContain('state.sqlite-wal');
    expect(stateForReader(killed)).toBe('interrupted');

    rmSync(join(killed, 'state.sqlite-shm'));
    setWritable(killed, false);
    const ended = runAsReader('status', '--out', killed);
    setWritable(killed, true);
    expect(ended).toMatchObject({
      status: 2,
      stderr: expect.stringMatching(
        /state\.sqlite was not closed by its last writer, and cannot be read without .*-shm, which this user may not create/,
      ),
    });
  });
});
