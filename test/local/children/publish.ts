/**
 * Stores one page, its manifest and the pointer in the directory `argv[2]`, finds the page, and prints each file-system
 * step. Kills itself just before step `argv[3]`; without that argument it runs to the end and exits with 0.
 */

import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { relative } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { asCursor, asRunId } from '../../../lib/core/model.ts';
import type { PageStore } from '../../../lib/core/ports.ts';
import { stateFileIn } from '../../../lib/local/sqlite/state-file.ts';
import { aFetchedPage, aLatest, aPageIdentity, putPage } from '../../support/builders.ts';
import { createSqlitePageLog, directoryStore } from '../../support/export/directory-store.ts';

const run = asRunId('20261120T020000Z-1f3a5cb2d407');
const folder = `reports/run=${run}`;
export const identity = aPageIdentity({ folder, run, page: 1 });
export const body = '<reports><report/></reports>';
export const manifestKey = `${folder}/manifest.json`;
export const manifest = '{"pages":[1]}';
export const latestKey = 'reports/latest.json';
export const latest = aLatest({ export: 'reports', run, manifest: manifestKey });

export async function publish(store: PageStore, acknowledge: (what: string) => void = () => {}) {
  const { stored, page } = await putPage(store, identity, aFetchedPage({ body, nextCursor: asCursor('next') }));
  acknowledge('page');
  await store.putDocument(manifestKey, chunksOf(manifest));
  acknowledge('manifest');
  await store.putLatest(latestKey, latest, async () => true);
  acknowledge('latest');
  return { stored, page };
}

async function* chunksOf(text: string) {
  yield text.slice(0, 5);
  yield text.slice(5);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , root = '', killBefore = 'nothing'] = process.argv;
  // The state file exists before anything is stored, as in a run.
  createSqlitePageLog(stateFileIn(root));
  printEachStep(root, Number(killBefore));
  const store = directoryStore(root);
  const acknowledge = (what: string) => process.stdout.write(`acknowledge ${what}\n`);
  await publish(store, acknowledge);
  // A page that is found may have a writer that was killed before it synced the folder.
  process.stdout.write(`left ${folder}\n`);
  await store.find(identity.key);
  acknowledge('found');
}

/**
 * Wraps every file operation that changes something: prints a step before it, and another after a sync. It cannot see
 * SQLite's own file operations; each statement that changes something counts as one step, which SQLite completes
 * before the next step.
 */
function printEachStep(root: string, killBefore: number): void {
  let steps = 0;
  const spools: string[] = [];
  const nameOf = (path: unknown) => {
    const name = relative(root, String(path)) || '.';
    if (!name.endsWith('.spool')) return name.replace(/[0-9a-f]{64}/, '<sha256>');
    if (!spools.includes(name)) spools.push(name);
    return `spool ${spools.indexOf(name) + 1}`;
  };
  const print = (step: string, ...paths: readonly unknown[]) => {
    steps++;
    if (steps === killBefore) process.kill(process.pid, 'SIGKILL');
    process.stdout.write(`${step} ${paths.map(nameOf).join(' to ')}\n`);
  };

  const { openSync, closeSync, fdatasync, fsync, fsyncSync, linkSync, mkdirSync, renameSync, rmSync, writev } = fs;
  const opened = new Map<number, unknown>();
  const printBeforeAndAfter = (sync: typeof fs.fsync, descriptor: number, done: fs.NoParamCallback) => {
    const path = opened.get(descriptor);
    print('sync', path);
    sync(descriptor, (error) => {
      if (error === null) print('synced', path);
      done(error);
    });
  };
  Object.assign(fs, {
    openSync(...[path, flags]: Parameters<typeof openSync>) {
      if (flags === 'wx+') print('create', path);
      const descriptor = openSync(path, flags);
      opened.set(descriptor, path);
      return descriptor;
    },
    closeSync(descriptor: number) {
      opened.delete(descriptor);
      closeSync(descriptor);
    },
    writev(...[descriptor, ...more]: Parameters<typeof writev>) {
      print('write', opened.get(descriptor));
      writev(descriptor, ...more);
    },
    fdatasync(descriptor: number, done: fs.NoParamCallback) {
      printBeforeAndAfter(fdatasync, descriptor, done);
    },
    fsync(descriptor: number, done: fs.NoParamCallback) {
      printBeforeAndAfter(fsync, descriptor, done);
    },
    fsyncSync(descriptor: number) {
      print('sync', opened.get(descriptor));
      fsyncSync(descriptor);
      print('synced', opened.get(descriptor));
    },
    mkdirSync(path: string, options: fs.MakeDirectoryOptions) {
      print('mkdir', path);
      return mkdirSync(path, options);
    },
    renameSync(from: string, to: string) {
      print('rename', from, to);
      renameSync(from, to);
    },
    linkSync(from: string, to: string) {
      print('link', from, to);
      linkSync(from, to);
    },
    rmSync(path: string, options: fs.RmOptions) {
      print('remove', path);
      rmSync(path, options);
    },
  });
  syncBuiltinESMExports();

  const prepare = Reflect.get(DatabaseSync.prototype, 'prepare') as (this: DatabaseSync, sql: string) => StatementSync;
  Reflect.set(DatabaseSync.prototype, 'prepare', function prepareAndPrint(this: DatabaseSync, sql: string) {
    const statement = prepare.call(this, sql);
    if (!sql.startsWith('INSERT')) return statement;
    const run = statement.run.bind(statement);
    return Object.assign(statement, {
      run: (...values: Parameters<typeof run>) => {
        print('INSERT INTO', this.location());
        return run(...values);
      },
    });
  });
}
