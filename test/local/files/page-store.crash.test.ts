import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { aFetchedPage, aRunFolder, sha256Of } from '../../support/builders.ts';
import { startScript } from '../../support/child-script.ts';
import { directoryStore } from '../../support/directory-store.ts';
import { inLanes } from '../../support/in-lanes.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { body, identity, latest, latestKey, manifest, manifestKey, publish } from '../children/publish.ts';
import { bodyOf, cursorOf, identityOf } from '../children/write-pages.ts';

const publisher = new URL('../children/publish.ts', import.meta.url);
const pageWriter = new URL('../children/write-pages.ts', import.meta.url);

const textAt = (root: string, key: string) =>
  readFile(join(root, key), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return undefined;
  });

// Some sixty processes are started and killed: a second or two by themselves, more on a busy machine.
describe('a directory page store whose process dies', { timeout: 120_000 }, () => {
  it('takes its steps in the order that a power cut cannot hurt', async () => {
    await using directory = await temporaryDirectory();
    await using child = startScript(publisher, directory.path);
    expect(await child.ended).toBe(0);

    const run = 'reports/run=20261120T020000Z-1f3a5c';
    const facts = `${run}/.facts.sqlite`;
    // These two go on at one time: the body into the spool, and its facts into their file.
    const ofTheBody = ['write spool 1', 'sync spool 1', 'synced spool 1'];
    expect(child.lines.filter((line) => !ofTheBody.includes(line))).toEqual([
      // The spool folder, and the names on the way to it.
      'make .incoming',
      'sync .',
      'sync ..',
      'create spool 1',
      // The run's folder, and the names on the way to it.
      'make reports',
      `make ${run}`,
      'sync reports',
      'sync .',
      'sync ..',
      // The file for the facts of all its pages: SQLite syncs its name with the first commit, that of the tables.
      'sync reports',
      `PRAGMA synchronous in ${facts}`,
      `BEGIN IMMEDIATE in ${facts}`,
      `CREATE TABLE in ${facts}`,
      `COMMIT in ${facts}`,
      `PRAGMA journal_mode in ${facts}`,
      `PRAGMA synchronous in ${facts}`,
      // 2: the page's facts are on the disk before the page shows.
      `INSERT INTO in ${facts}`,
      // Also the name of SQLite's file, once: a process that was killed may have made it.
      `sync ${run}`,
      `sync data ${facts}-wal`,
      `synced data ${facts}-wal`,
      // 3 and 4: the page shows, and then stays.
      `link spool 1 to ${run}/page-000001.xml`,
      `sync ${run}`,
      `synced ${run}`,
      'remove spool 1',
      // The manifest: whole before it shows.
      'create spool 2',
      'write spool 2',
      'sync spool 2',
      'synced spool 2',
      `link spool 2 to ${run}/manifest.json`,
      `sync ${run}`,
      'remove spool 2',
      // The pointer: whole before it takes the place of the one before, and only one at a time does.
      'create spool 3',
      'sync .',
      'sync ..',
      'write spool 3',
      'sync spool 3',
      'synced spool 3',
      'PRAGMA journal_mode in .incoming/latest.lock',
      'rename spool 3 to reports/latest.json',
      'sync reports',
      'remove spool 3',
      // A page found may be one whose writer died before it synced; who finds it will build on it.
      `sync ${run}`,
    ]);
    // 1: meanwhile the body, which is on the disk, too, before it shows.
    const shown = `link spool 1 to ${run}/page-000001.xml`;
    expect(child.lines.filter((line) => ['create spool 1', ...ofTheBody, shown].includes(line))).toEqual([
      'create spool 1',
      ...ofTheBody,
      shown,
    ]);
  });

  it('leaves, before whichever step it dies, what it has shown and nothing half done; the next one finishes', async () => {
    await using untouched = await temporaryDirectory();
    await using complete = startScript(publisher, untouched.path);
    await complete.ended;

    await inLanes(2, complete.lines.entries(), async ([index, before]) => {
      await using directory = await temporaryDirectory();
      const root = directory.path;
      await using child = startScript(publisher, root, String(index + 1));
      expect({ before, ended: await child.ended }).toEqual({ before, ended: 'SIGKILL' });

      // What is done at one time is not always begun in the same order: what counts is what this one has begun.
      const taken = (step: RegExp) => child.lines.some((line) => step.test(line));
      using store = directoryStore(root);
      const found = await store.find(identity.key);
      const shown = {
        page: await textAt(root, identity.key),
        sha256: found?.sha256,
        manifest: await textAt(root, manifestKey),
        latest: await textAt(root, latestKey),
      };
      const pageShows = taken(/^link .*page-000001\.xml$/);
      expect({ before, shown }).toEqual({
        before,
        shown: {
          page: pageShows ? body : undefined,
          sha256: pageShows ? sha256Of(body) : undefined,
          manifest: taken(/^link .*manifest\.json$/) ? manifest : undefined,
          latest: taken(/^rename .*latest\.json$/) ? `${JSON.stringify(latest, null, 2)}\n` : undefined,
        },
      });

      const again = await publish(store);
      // Whoever left the facts has stored the page, whether it showed or not.
      expect({ before, stored: again.stored }).toEqual({ before, stored: !taken(/^INSERT INTO .*\.facts/) });
      expect(again.page).toEqual(found ?? { ...again.page, sha256: sha256Of(body) });
      expect(await store.find(identity.key)).toEqual(again.page);
      expect(await textAt(root, manifestKey)).toBe(manifest);
      expect(JSON.parse((await textAt(root, latestKey)) ?? '')).toEqual(latest);
    });
  });

  it('killed at any moment, with another at the same pages, leaves whole pages with facts of the same hand', async () => {
    for (let round = 1; round <= 8; round++) {
      await using directory = await temporaryDirectory();
      const root = directory.path;
      const folder = aRunFolder();
      const hands = ['one', 'two'];
      const children = hands.map((hand) => startScript(pageWriter, root, folder, hand));
      await Promise.race(children.map(({ said }) => said(/^1 /)));
      const afterMs = Math.random() * 40;
      await sleep(afterMs);
      await Promise.all(children.map(({ kill }) => kill()));

      using store = directoryStore(root);
      const visible = (await readdir(join(root, folder))).filter((name) => name.startsWith('page-'));
      const told = new Map(children.flatMap(({ lines }) => lines).map((line) => line.split(' ') as [string, string]));
      expect(visible.length).toBeGreaterThanOrEqual(told.size);
      for (let page = 1; page <= visible.length; page++) {
        const where = { round, afterMs, page };
        const { key } = identityOf(folder, page);
        const bytes = await readFile(join(root, key));
        const facts = await store.find(key);
        expect({ ...where, sha256: facts?.sha256 }).toEqual({ ...where, sha256: sha256Of(bytes) });
        // What a writer was told is stored, is.
        expect({ ...where, sha256: told.get(String(page)) ?? facts?.sha256 }).toEqual({
          ...where,
          sha256: facts?.sha256,
        });
        const makers = hands.filter((hand) => bodyOf(hand, page).equals(bytes));
        expect(makers.map((hand) => cursorOf(hand, page))).toContain(facts?.nextCursor);

        const late = await store.put(identityOf(folder, page), aFetchedPage({ body: bodyOf('three', page) }));
        expect({ ...where, ...late }).toEqual({ ...where, stored: false, page: facts });
      }

      const next = identityOf(folder, visible.length + 1);
      const put = await store.put(next, aFetchedPage({ body: bodyOf('three', next.page) }));
      expect(put.page.sha256).toBe(sha256Of(bodyOf('three', next.page)));
      expect(await store.find(next.key)).toEqual(put.page);
    }
  });
});
