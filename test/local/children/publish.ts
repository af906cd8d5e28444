/**
 * Puts one page, its manifest and the pointer into the directory `argv[2]`, looks for the page, and says each step it takes on the disk.
 * Kills itself just before step `argv[3]`; without that it goes on to the end, and exits with 0.
 */

import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { relative } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { asCursor, asRunId } from '../../../lib/core/model.ts';
import type { PageStore } from '../../../lib/core/ports.ts';
import { createDirectoryPageStore } from '../../../lib/local/files/page-store.ts';
import { aFetchedPage, aLatest, aPageIdentity } from '../../support/builders.ts';

const run = asRunId('20261120T020000Z-1f3a5c');
const folder = `reports/run=${run}`;
export const identity = aPageIdentity({ folder, run, page: 1 });
export const body = '<reports><report/></reports>';
export const manifestKey = `${folder}/manifest.json`;
export const manifest = '{"pages":[1]}';
export const latestKey = 'reports/latest.json';
export const latest = aLatest({ export: 'reports', run, manifest: manifestKey });

export async function publish(store: PageStore) {
  const { stored, page } = await store.put(identity, aFetchedPage({ body, nextCursor: asCursor('next') }));
  await store.putManifest(manifestKey, chunksOf(manifest));
  await store.putLatest(latestKey, latest, async () => true);
  return { stored, page };
}

async function* chunksOf(text: string) {
  yield text.slice(0, 5);
  yield text.slice(5);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , root = '', dieBefore = 'nothing'] = process.argv;
  sayEachStep(root, Number(dieBefore));
  const store = createDirectoryPageStore(root);
  await publish(store);
  await store.find(identity.key);
}

/**
 * Puts itself before every file operation that changes something, and behind those that sync while the thread goes on. What
 * SQLite does to its files is beyond its reach: in their place stands each statement, which SQLite has carried out before
 * the next step is taken.
 */
function sayEachStep(root: string, dieBefore: number): void {
  let steps = 0;
  const spools: string[] = [];
  const nameOf = (path: unknown) => {
    const name = relative(root, String(path)) || '.';
    if (!name.endsWith('.spool')) return name.replace(/[0-9a-f]{64}/, '<sha256>');
    if (!spools.includes(name)) spools.push(name);
    return `spool ${spools.indexOf(name) + 1}`;
  };
  const say = (step: string, ...paths: readonly unknown[]) => {
    steps++;
    if (steps === dieBefore) process.kill(process.pid, 'SIGKILL');
    process.stdout.write(`${step} ${paths.map(nameOf).join(' to ')}\n`);
  };

  const { openSync, closeSync, fdatasync, fsync, fsyncSync, linkSync, mkdirSync, renameSync, rmSync, writev } = fs;
  const opened = new Map<number, unknown>();
  const sayBeforeAndAfter = (sync: typeof fs.fsync, descriptor: number, done: fs.NoParamCallback) => {
    const path = opened.get(descriptor);
    say(sync === fdatasync ? 'sync data' : 'sync', path);
    sync(descriptor, (error) => {
      if (error === null) say(sync === fdatasync ? 'synced data' : 'synced', path);
      done(error);
    });
  };
  Object.assign(fs, {
    openSync(...[path, flags]: Parameters<typeof openSync>) {
      if (flags === 'wx') say('create', path);
      const descriptor = openSync(path, flags);
      opened.set(descriptor, path);
      return descriptor;
    },
    closeSync(descriptor: number) {
      opened.delete(descriptor);
      closeSync(descriptor);
    },
    writev(...[descriptor, ...more]: Parameters<typeof writev>) {
      say('write', opened.get(descriptor));
      writev(descriptor, ...more);
    },
    fdatasync(descriptor: number, done: fs.NoParamCallback) {
      sayBeforeAndAfter(fdatasync, descriptor, done);
    },
    fsync(descriptor: number, done: fs.NoParamCallback) {
      sayBeforeAndAfter(fsync, descriptor, done);
    },
    fsyncSync(descriptor: number) {
      say('sync', opened.get(descriptor));
      fsyncSync(descriptor);
    },
    mkdirSync(path: string, options: fs.MakeDirectoryOptions) {
      say('make', path);
      return mkdirSync(path, options);
    },
    renameSync(from: string, to: string) {
      say('rename', from, to);
      renameSync(from, to);
    },
    linkSync(from: string, to: string) {
      say('link', from, to);
      linkSync(from, to);
    },
    rmSync(path: string, options: fs.RmOptions) {
      say('remove', path);
      rmSync(path, options);
    },
  });
  syncBuiltinESMExports();

  const exec = Reflect.get(DatabaseSync.prototype, 'exec') as (this: DatabaseSync, sql: string) => void;
  const prepare = Reflect.get(DatabaseSync.prototype, 'prepare') as (this: DatabaseSync, sql: string) => StatementSync;
  const sayStatement = (database: DatabaseSync, sql: string) =>
    say(`${/\w+ ?\w*/.exec(sql)?.[0]} in`, database.location());
  Object.assign(DatabaseSync.prototype, {
    exec(this: DatabaseSync, sql: string) {
      sayStatement(this, sql);
      exec.call(this, sql);
    },
    prepare(this: DatabaseSync, sql: string) {
      const statement = prepare.call(this, sql);
      const run = statement.run.bind(statement);
      return Object.assign(statement, {
        run: (...values: Parameters<typeof run>) => {
          sayStatement(this, sql);
          return run(...values);
        },
      });
    },
  });
}
