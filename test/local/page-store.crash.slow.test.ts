import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { aFetchedPage, aRunFolder, sha256Of, putPage } from '../support/builders.ts';
import { mapConcurrently } from '../../lib/core/concurrency.ts';
import { directoryStore } from '../support/export/directory-store.ts';
import { startScript } from '../support/process/child-script.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { body, identity, latest, latestKey, manifest, manifestKey, publish } from './children/publish.ts';
import { bodyOf, cursorOf, identityOf } from './children/write-pages.ts';

const publisher = new URL('./children/publish.ts', import.meta.url);
const pageWriter = new URL('./children/write-pages.ts', import.meta.url);

const textAt = (root: string, key: string) =>
  readFile(join(root, key), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return undefined;
  });

describe('a directory page store whose process is killed', () => {
  it('leaves only complete objects, whichever step it is killed before, and the next process finishes', async () => {
    await using untouched = await temporaryDirectory();
    await using complete = startScript(publisher, untouched.path);
    await complete.ended;

    const steps = complete.lines.filter((line) => !/^(acknowledge|left) /.test(line));
    await mapConcurrently([...steps.entries()], 2, async ([index, before]) => {
      await using directory = await temporaryDirectory();
      const root = directory.path;
      await using child = startScript(publisher, root, String(index + 1));
      expect({ before, ended: await child.ended }).toEqual({ before, ended: 'SIGKILL' });

      // Concurrent steps vary in order, so the expectation depends on what this process has begun.
      const taken = (step: RegExp) => child.lines.some((line) => step.test(line));
      using store = directoryStore(root);
      const found = await store.find(identity.key);
      const visible = {
        page: await textAt(root, identity.key),
        sha256: found?.sha256,
        manifest: await textAt(root, manifestKey),
        latest: await textAt(root, latestKey),
      };
      const pageVisible = taken(/^link .*page-000001\.xml$/);
      expect({ before, visible }).toEqual({
        before,
        visible: {
          page: pageVisible ? body : undefined,
          sha256: pageVisible ? sha256Of(body) : undefined,
          manifest: taken(/^link .*manifest\.json$/) ? manifest : undefined,
          latest: taken(/^rename .*latest\.json$/) ? `${JSON.stringify(latest, null, 2)}\n` : undefined,
        },
      });

      const again = await publish(store);
      // The process that added the metadata has stored the page, even if it was killed before linking it.
      expect({ before, stored: again.stored }).toEqual({ before, stored: !taken(/^INSERT INTO /) });
      expect(again.page).toEqual(found ?? { ...again.page, sha256: sha256Of(body) });
      expect(await store.find(identity.key)).toEqual(again.page);
      expect(await textAt(root, manifestKey)).toBe(manifest);
      expect(JSON.parse((await textAt(root, latestKey)) ?? '')).toEqual(latest);
    });
  });

  it('leaves complete pages, each with the metadata of its own writer, when two writers are killed at any moment', async () => {
    for (let round = 1; round <= 8; round++) {
      await using directory = await temporaryDirectory();
      const root = directory.path;
      const folder = aRunFolder();
      const writers = ['one', 'two'];
      const children = writers.map((writer) => startScript(pageWriter, root, folder, writer));
      await Promise.race(children.map(({ waitForLine }) => waitForLine(/^1 /)));
      const afterMs = Math.random() * 40;
      await sleep(afterMs);
      await Promise.all(children.map(({ kill }) => kill()));

      using store = directoryStore(root);
      const visible = (await readdir(join(root, folder))).filter((name) => name.startsWith('page-'));
      const reported = new Map(
        children.flatMap(({ lines }) => lines).map((line) => line.split(' ') as [string, string]),
      );
      expect(visible.length).toBeGreaterThanOrEqual(reported.size);
      for (let page = 1; page <= visible.length; page++) {
        const where = { round, afterMs, page };
        const { key, compression } = identityOf(folder, page);
        const object = await readFile(join(root, key));
        const bytes = compression === 'gzip' ? gunzipSync(object) : object;
        const stored = await store.find(key);
        expect({ ...where, sha256: stored?.sha256 }).toEqual({ ...where, sha256: sha256Of(bytes) });
        // What was reported to a writer as stored is stored.
        expect({ ...where, sha256: reported.get(String(page)) ?? stored?.sha256 }).toEqual({
          ...where,
          sha256: stored?.sha256,
        });
        const possibleWriters = writers.filter((writer) => bodyOf(writer, page).equals(bytes));
        expect(possibleWriters.map((writer) => cursorOf(writer, page))).toContain(stored?.nextCursor);

        const late = await putPage(store, identityOf(folder, page), aFetchedPage({ body: bodyOf('three', page) }));
        expect({ ...where, ...late }).toEqual({ ...where, stored: false, page: stored });
      }

      const next = identityOf(folder, visible.length + 1);
      const put = await putPage(store, next, aFetchedPage({ body: bodyOf('three', next.page) }));
      expect(put.page.sha256).toBe(sha256Of(bodyOf('three', next.page)));
      expect(await store.find(next.key)).toEqual(put.page);
    }
  });
});
