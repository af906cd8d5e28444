import fs from 'node:fs';
import { readdir, readlink, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { PageMetadata } from '../../../lib/core/model.ts';
import { pageFactsIn } from '../../../lib/local/files/page-metadata.ts';
import { aCursor, aFetchedPage, aPageIdentity, aRunFolder, at, sha256Of } from '../../support/builders.ts';
import { directoryStore } from '../../support/directory-store.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const factsOf = (identity: ReturnType<typeof aPageIdentity>, body: string): PageMetadata => ({
  ...identity,
  bytes: body.length,
  sha256: sha256Of(body),
  reports: 1,
  nextCursor: aCursor(),
  serviceTime: at('2026-11-20T02:00:01Z'),
});

/** What this process has open below `directory`. */
async function openBelow(directory: string): Promise<readonly string[]> {
  const descriptors = await readdir('/proc/self/fd');
  const files = await Promise.all(descriptors.map((name) => readlink(join('/proc/self/fd', name)).catch(() => '')));
  return files.filter((file) => file.startsWith(`${directory}/`));
}

const conflict = expect.objectContaining({ name: 'PageConflictError' });

describe('the facts of pages', () => {
  it('of the same page and the same bytes are those of whoever comes first, and who comes later is told', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, '.facts.sqlite');
    const [one, two] = [pageFactsIn(file), pageFactsIn(file)];
    const identity = aPageIdentity();
    const [first, second] = [factsOf(identity, 'the same'), factsOf(identity, 'the same')];

    expect(await Promise.all([one.add(first), two.add(second), one.add(second)])).toEqual([true, false, false]);
    for (const facts of [one, two]) expect(facts.read(second)).toEqual(first);

    one.close();
    two.close();
  });

  it('of other bytes, or of another page of the same bytes, stand beside them', async () => {
    await using directory = await temporaryDirectory();
    const facts = pageFactsIn(join(directory.path, '.facts.sqlite'));
    const identity = aPageIdentity({ page: 1 });
    const all = [factsOf(identity, 'one'), factsOf(identity, 'other'), factsOf(aPageIdentity({ page: 2 }), 'one')];
    expect(await Promise.all(all.map(facts.add))).toEqual([true, true, true]);
    for (const each of all) expect(facts.read(each)).toEqual(each);
    facts.close();
  });

  it('are refused where they tell of another length or of other bytes than they are found beside', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, '.facts.sqlite');
    const facts = pageFactsIn(file);
    const observed = factsOf(aPageIdentity(), 'body');
    await facts.add({ ...observed, bytes: 5 });
    expect(() => facts.read(observed)).toThrow(`they tell of the 5 bytes of ${observed.key}`);

    const others = sha256Of('others');
    using hand = new DatabaseSync(file);
    hand.prepare('UPDATE facts SET sha256 = ?').run(others);
    expect(() => facts.read({ ...observed, bytes: 5, sha256: others })).toThrow(conflict);
    facts.close();
  });

  it('are on the disk for whoever comes later, too, before that one goes on', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, '.facts.sqlite');
    const [one, two] = [pageFactsIn(file), pageFactsIn(file)];
    const identity = aPageIdentity();
    const { fdatasync } = fs;
    const disk: (() => void)[] = [];
    const told: boolean[] = [];
    let adding: readonly Promise<void>[] = [];
    try {
      // A disk that takes its time: the one at hand is too quick to be caught.
      Object.assign(fs, {
        fdatasync: (...parameters: Parameters<typeof fdatasync>) => void disk.push(() => fdatasync(...parameters)),
      });
      syncBuiltinESMExports();
      adding = [one, two].map(async (facts) => void told.push(await facts.add(factsOf(identity, 'the same'))));
      await nextTurn();
      expect({ told, waiting: disk.length }).toEqual({ told: [], waiting: 2 });
    } finally {
      Object.assign(fs, { fdatasync });
      syncBuiltinESMExports();
      for (const goOn of disk) goOn();
    }
    await Promise.all(adding);
    expect(told).toEqual(expect.arrayContaining([true, false]));
    one.close();
    two.close();
  });

  it('rest on no name of a file that a killed process may have made and not brought to the disk', async () => {
    await using directory = await temporaryDirectory();
    const left = join(directory.path, 'left');
    const found = join(directory.path, 'found');
    for (const path of [left, found]) fs.mkdirSync(path);
    const killed = pageFactsIn(join(left, '.facts.sqlite'));
    await killed.add(factsOf(aPageIdentity({ page: 1 }), 'one'));
    // As a process leaves them that is killed.
    for (const name of fs.readdirSync(left)) fs.copyFileSync(join(left, name), join(found, name));
    killed.close();

    const next = pageFactsIn(join(found, '.facts.sqlite'));
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
      for (const page of [2, 3]) await next.add(factsOf(aPageIdentity({ page }), 'another'));
    } finally {
      Object.assign(fs, { fsyncSync, fdatasync });
      syncBuiltinESMExports();
    }
    next.close();
    const wal = join(found, '.facts.sqlite-wal');
    expect(synced.slice(synced.indexOf(wal) - 1)).toEqual([found, wal, wal]);
  });

  it('are taken by the next process as the last one left them, in one file', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, '.facts.sqlite');
    const written = factsOf(aPageIdentity(), 'body');
    const first = pageFactsIn(file);
    await first.add(written);
    first.close();
    first.close();
    expect(await readdir(directory.path)).toEqual(['.facts.sqlite']);

    const next = pageFactsIn(file);
    expect(next.read(written)).toEqual(written);
    next.close();
    // Who was closed may go on: what a late attempt still adds is not lost.
    expect(await first.add(written)).toBe(false);
    first.close();
  });

  it('are not looked for in a file that is not there: that would make it', async () => {
    await using directory = await temporaryDirectory();
    using store = directoryStore(directory.path);
    const identity = aPageIdentity();
    expect(await store.find(identity.key)).toBeUndefined();
    expect(await readdir(directory.path)).toEqual([]);

    await fs.promises.mkdir(join(directory.path, dirname(identity.key)), { recursive: true });
    await writeFile(join(directory.path, identity.key), 'put there by somebody');
    await expect(store.find(identity.key)).rejects.toEqual(conflict);
    expect(await readdir(join(directory.path, dirname(identity.key)))).toEqual(['page-000001.xml']);
  });

  // Where Linux tells what a process has open.
  describe.runIf(fs.existsSync('/proc/self/fd'))('leave no file open', () => {
    it('once the store is closed, however many folders it has written to and read', async () => {
      await using directory = await temporaryDirectory();
      const store = directoryStore(directory.path);
      const folders = Array.from({ length: 40 }, () => aRunFolder());
      const keys: string[] = [];
      for (const folder of folders) {
        const { page } = await store.put(aPageIdentity({ folder }), aFetchedPage());
        keys.push(page.key);
      }
      const files = folders.map((folder) => join(directory.path, folder, '.facts.sqlite'));
      expect(await openBelow(directory.path)).toEqual(expect.arrayContaining(files));
      store.close();
      expect(await openBelow(directory.path)).toEqual([]);

      for (const key of keys) expect(await store.find(key)).toMatchObject({ key });
      store.close();
      expect(await openBelow(directory.path)).toEqual([]);
      for (const folder of folders) {
        expect((await readdir(join(directory.path, folder))).sort()).toEqual(['.facts.sqlite', 'page-000001.xml']);
      }
    });

    it('where they cannot be taken from it', async () => {
      await using directory = await temporaryDirectory();
      const file = join(directory.path, '.facts.sqlite');
      const hand = new DatabaseSync(file);
      hand.exec('PRAGMA application_id = 0x52585046; PRAGMA user_version = 1; CREATE TABLE other (it)');
      hand.close();
      const facts = pageFactsIn(file);
      const looked = factsOf(aPageIdentity(), 'body');
      for (let look = 0; look < 3; look += 1) expect(() => facts.read(looked)).toThrow('no such table');
      expect(await openBelow(directory.path)).toEqual([]);
    });
  });
});
