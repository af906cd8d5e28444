import fs from 'node:fs';
import { readdir, readlink, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { asDocumentRoot } from '../../../lib/core/document-root.ts';
import { type PageMetadata } from '../../../lib/core/model.ts';
import { pageMetadataIn } from '../../../lib/local/sqlite/page-metadata.ts';
import { openStateFile } from '../../../lib/local/sqlite/state-file.ts';
import { aCursor, aPageIdentity, at, sha256Of } from '../../support/builders.ts';
import { directoryStore } from '../../support/export/directory-store.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const metadataOf = (identity: ReturnType<typeof aPageIdentity>, body: string): PageMetadata => ({
  ...identity,
  bytes: body.length,
  sha256: sha256Of(body),
  reports: 1,
  documentRoot: asDocumentRoot('reports'),
  nextCursor: aCursor(),
  serviceTime: at('2026-11-20T02:00:01Z'),
});

const openPageMetadata = (file: string) => {
  const state = openStateFile(file);
  return { ...pageMetadataIn(state), close: state.close };
};

/** The files in `directory` that this process has open. */
async function openFilesIn(directory: string): Promise<readonly string[]> {
  const descriptors = await readdir('/proc/self/fd');
  const files = await Promise.all(descriptors.map((name) => readlink(join('/proc/self/fd', name)).catch(() => '')));
  return files.filter((file) => file.startsWith(`${directory}/`));
}

const conflict = expect.objectContaining({ name: 'PageConflictError' });

describe('page metadata', () => {
  it('keeps the first of two entries for the same page and bytes, and returns false to the later writer', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    const [one, two] = [openPageMetadata(file), openPageMetadata(file)];
    const identity = aPageIdentity();
    const [first, second] = [metadataOf(identity, 'the same'), metadataOf(identity, 'the same')];

    expect(await Promise.all([one.add(first), two.add(second), one.add(second)])).toEqual([true, false, false]);
    for (const file of [one, two]) expect(file.read(second)).toEqual(first);

    one.close();
    two.close();
  });

  it('rejects an entry that describes another length or other bytes than those on disk', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    const metadata = openPageMetadata(file);
    const observed = metadataOf(aPageIdentity(), 'body');
    await metadata.add({ ...observed, bytes: 5 });
    expect(() => metadata.read(observed)).toThrow(`the entry describes 5 bytes of ${observed.key}`);

    const others = sha256Of('others');
    using database = new DatabaseSync(file);
    database.prepare('UPDATE page_metadata SET sha256 = ?').run(others);
    expect(() => metadata.read({ ...observed, bytes: 5, sha256: others })).toThrow(conflict);
    metadata.close();
  });

  it('is durable before add resolves, also for the writer that found an entry', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'state.sqlite');
    const [one, two] = [openPageMetadata(file), openPageMetadata(file)];
    const identity = aPageIdentity();
    const { fdatasync } = fs;
    const pendingSyncs: (() => void)[] = [];
    const added: boolean[] = [];
    let adding: readonly Promise<void>[] = [];
    try {
      // Delays every sync: the real disk is too fast to observe the order.
      Object.assign(fs, {
        fdatasync: (...parameters: Parameters<typeof fdatasync>) =>
          void pendingSyncs.push(() => fdatasync(...parameters)),
      });
      syncBuiltinESMExports();
      adding = [one, two].map(async (file) => void added.push(await file.add(metadataOf(identity, 'the same'))));
      await setImmediate();
      expect({ added, pending: pendingSyncs.length }).toEqual({ added: [], pending: 2 });
    } finally {
      Object.assign(fs, { fdatasync });
      syncBuiltinESMExports();
      for (const sync of pendingSyncs) sync();
    }
    await Promise.all(adding);
    expect(added).toEqual(expect.arrayContaining([true, false]));
    one.close();
    two.close();
  });

  it('syncs the name of a WAL file that a killed process may have created without syncing it', async () => {
    await using directory = await temporaryDirectory();
    const left = join(directory.path, 'left');
    const found = join(directory.path, 'found');
    for (const path of [left, found]) fs.mkdirSync(path);
    const killed = openPageMetadata(join(left, 'state.sqlite'));
    await killed.add(metadataOf(aPageIdentity({ page: 1 }), 'one'));
    // The state that a killed process leaves.
    for (const name of fs.readdirSync(left)) fs.copyFileSync(join(left, name), join(found, name));
    killed.close();

    const next = openPageMetadata(join(found, 'state.sqlite'));
    const { fsyncSync, fdatasync } = fs;
    const synced: string[] = [];
    try {
      Object.assign(fs, {
        fsyncSync: (descriptor: number) => {
          synced.push(fs.readlinkSync(`/proc/self/fd/${descriptor}`));
          fsyncSync(descriptor);
        },
        fdatasync: (...parameters: Parameters<typeof fdatasync>) => {
          synced.push(fs.readlinkSync(`/proc/self/fd/${parameters[0]}`));
          fdatasync(...parameters);
        },
      });
      syncBuiltinESMExports();
      for (const page of [2, 3]) await next.add(metadataOf(aPageIdentity({ page }), 'another'));
    } finally {
      Object.assign(fs, { fsyncSync, fdatasync });
      syncBuiltinESMExports();
    }
    next.close();
    const wal = join(found, 'state.sqlite-wal');
    expect(synced.slice(synced.indexOf(wal) - 1)).toEqual([found, wal, wal]);
  });

  it('does not create the file when it reads', async () => {
    await using directory = await temporaryDirectory();
    using store = directoryStore(directory.path);
    const identity = aPageIdentity();
    expect(await store.find(identity.key)).toBeUndefined();
    expect(await readdir(directory.path)).toEqual([]);

    await fs.promises.mkdir(join(directory.path, dirname(identity.key)), { recursive: true });
    await writeFile(join(directory.path, identity.key), 'written by another program');
    await expect(store.find(identity.key)).rejects.toEqual(conflict);
    expect(await readdir(join(directory.path, dirname(identity.key)))).toEqual(['page-000001.xml']);
    expect(fs.existsSync(join(directory.path, 'state.sqlite'))).toBe(false);
  });

  // Needs Linux, which lists a process's open files.
  describe.runIf(fs.existsSync('/proc/self/fd'))('leaves no file open', () => {
    it('after a read that failed', async () => {
      await using directory = await temporaryDirectory();
      const file = join(directory.path, 'state.sqlite');
      const database = new DatabaseSync(file);
      database.exec('PRAGMA application_id = 0x52455850; PRAGMA user_version = 8; CREATE TABLE other (it)');
      database.close();
      const metadata = openPageMetadata(file);
      const observed = metadataOf(aPageIdentity(), 'body');
      for (let reads = 0; reads < 3; reads += 1) expect(() => metadata.read(observed)).toThrow('no such table');
      expect(await openFilesIn(directory.path)).toEqual([]);
    });
  });
});
