import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { cp, mkdir, readdir, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createDirectoryPageStore } from '../../../lib/local/files/page-store.ts';
import { holdFileLock } from '../../../lib/local/lock.ts';
import { createSqlitePageLog } from '../../../lib/local/sqlite/page-log.ts';
import { pageStoreContract } from '../../contracts/page-store-contract.ts';
import {
  aCursor,
  aFetchedPage,
  aLatest,
  aPageIdentity,
  aRunFolder,
  collect,
  sha256Of,
} from '../../support/builders.ts';
import { startScript } from '../../support/child-script.ts';
import { directoryStore } from '../../support/directory-store.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const publisher = new URL('../children/publish.ts', import.meta.url);

pageStoreContract('The directory page store', async () => {
  const directory = await temporaryDirectory();
  const store = directoryStore(directory.path);
  const another = directoryStore(directory.path);
  return {
    store,
    another,
    read: (key) => readFile(join(directory.path, key)).catch(() => undefined),
    list: (prefix) => visibleFiles(directory.path, prefix),
    async cleanup() {
      store.close();
      another.close();
      await directory.remove();
    },
  };
});

/** As a reader lists them who leaves out hidden names, like a shell's `**`. */
async function visibleFiles(root: string, prefix = ''): Promise<string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
    .filter(
      (key) => key.startsWith(prefix) && !key.split('/').some((executionNumber) => executionNumber.startsWith('.')),
    );
}

/** The file of the facts of the page at `path`. */
const factsBeside = (path: string) => join(dirname(path), '.facts.sqlite');

type FactsRow = { readonly [column in 'key' | 'sha256' | 'facts' | 'checksum']: string };

/** What a hand does in the file of the facts; it is free to put there what the table would refuse. */
function sql(file: string, statements: string): void {
  using hand = new DatabaseSync(file);
  hand.exec(`PRAGMA ignore_check_constraints = ON; ${statements}`);
}

const withoutConstraints =
  'CREATE TABLE loose AS SELECT * FROM facts; DROP TABLE facts; ALTER TABLE loose RENAME TO facts';

/** By which a file of facts is known. */
const marks = 'PRAGMA application_id = 0x52585046';

function factsRow(file: string): FactsRow {
  using hand = new DatabaseSync(file);
  return hand.prepare('SELECT * FROM facts').get() as FactsRow;
}

/** Changes the only row there is; to change nothing is a mistake of the test. */
function editFacts(file: string, change: (row: FactsRow) => Partial<FactsRow>): void {
  const row = factsRow(file);
  const { key, sha256, facts, checksum } = { ...row, ...change(row) };
  expect({ key, sha256, facts, checksum }).not.toEqual({ ...row });
  using hand = new DatabaseSync(file);
  hand.exec('PRAGMA ignore_check_constraints = ON');
  hand.prepare('UPDATE facts SET key = ?, sha256 = ?, facts = ?, checksum = ?').run(key, sha256, facts, checksum);
}

const conflict = expect.objectContaining({ name: 'PageConflictError' });
const misconfigured = expect.objectContaining({ name: 'ConfigurationError' });

describe('the directory page store', () => {
  it('touches nothing until it is written to', async () => {
    await using directory = await temporaryDirectory();
    const root = join(directory.path, 'exports');
    using store = directoryStore(root);
    expect(await store.find(aPageIdentity().key)).toBeUndefined();
    expect(await readdir(directory.path)).toEqual([]);

    await store.put(aPageIdentity(), aFetchedPage());
    expect(await readdir(directory.path)).toEqual(['exports']);
  });

  it('a tree that was copied elsewhere is as good as the first', async () => {
    await using directory = await temporaryDirectory();
    const [here, there] = [join(directory.path, 'here'), join(directory.path, 'there')];
    const identity = aPageIdentity();
    using store = directoryStore(here);
    const { page } = await store.put(identity, aFetchedPage());
    store.close();

    await cp(here, there, { recursive: true });

    using copy = directoryStore(there);
    expect(await copy.find(identity.key)).toEqual(page);
  });

  it('names the place as a person gave it', () => {
    expect(createDirectoryPageStore('./exports').locate('reports/latest.json')).toBe('exports/reports/latest.json');
  });

  it('is readable by whoever the umask lets read', async () => {
    await using directory = await temporaryDirectory();
    using store = directoryStore(directory.path);
    const { key } = aPageIdentity();
    await store.put(aPageIdentity({ key }), aFetchedPage());
    const { mode } = await fs.promises.stat(join(directory.path, key));
    expect(mode & 0o777).toBe(0o666 & ~process.umask());
  });

  describe('what an attempt left that was killed before its page showed', () => {
    /** A store in which an attempt died after the facts of `body` and before the page: the page is taken away again. */
    async function storeWithFactsOnly(root: string, body: string) {
      const identity = aPageIdentity();
      const store = directoryStore(root);
      const { page } = await store.put(identity, aFetchedPage({ body }));
      await rm(join(root, identity.key));
      return {
        identity,
        store,
        page,
        facts: factsBeside(join(root, identity.key)),
        [Symbol.dispose]: () => store.close(),
      };
    }

    it('is not taken for the facts of other bytes', async () => {
      await using directory = await temporaryDirectory();
      using left = await storeWithFactsOnly(directory.path, 'the killed one');
      const { identity, store } = left;
      const nextCursor = aCursor();

      const put = await store.put(identity, aFetchedPage({ body: 'the next one', nextCursor }));

      expect(put).toMatchObject({ stored: true, page: { nextCursor, sha256: sha256Of('the next one') } });
      expect(await store.find(identity.key)).toEqual(put.page);
    });

    it('is adopted where the bytes are the same: they showed together, so who asks is told how it went on', async () => {
      await using directory = await temporaryDirectory();
      using left = await storeWithFactsOnly(directory.path, 'the same');
      const { identity, store, page } = left;

      const put = await store.put(identity, aFetchedPage({ body: 'the same', nextCursor: aCursor() }));

      expect(put).toEqual({ stored: false, page });
      expect(await store.find(identity.key)).toEqual(page);
    });

    it('is swept from the spool after a day, and not before', async () => {
      await using directory = await temporaryDirectory();
      const incoming = join(directory.path, '.incoming');
      await mkdir(incoming);
      for (const name of ['old.spool', 'young.spool', 'old.other']) await writeFile(join(incoming, name), '<rep');
      const dayAgo = new Date(Date.now() - 86_401_000);
      for (const name of ['old.spool', 'old.other']) await utimes(join(incoming, name), dayAgo, dayAgo);

      using store = directoryStore(directory.path);
      await store.put(aPageIdentity(), aFetchedPage());

      expect((await readdir(incoming)).sort()).toEqual(['old.other', 'young.spool']);
    });

    it('counts for nothing where it cannot be read', async () => {
      await using directory = await temporaryDirectory();
      using left = await storeWithFactsOnly(directory.path, 'the same');
      const { identity, store, facts } = left;
      editFacts(facts, () => ({ facts: '{' }));
      await expect(store.put(identity, aFetchedPage({ body: 'the same' }))).rejects.toEqual(conflict);
    });
  });

  describe('a page that is not as this exporter left it', () => {
    async function storeWithPage(root: string) {
      const identity = aPageIdentity();
      const store = directoryStore(root);
      await store.put(identity, aFetchedPage({ body: 'as it came' }));
      const page = join(root, identity.key);
      return { identity, store, page, facts: factsBeside(page), [Symbol.dispose]: () => store.close() };
    }

    const inFacts = (from: string | RegExp, to: string) => (row: FactsRow) => ({ facts: row.facts.replace(from, to) });
    const huge = JSON.stringify({ key: 'x'.repeat(2 ** 20) });

    it.each<[string, (files: { page: string; facts: string }) => unknown]>([
      ['its bytes were changed', ({ page }) => writeFile(page, 'as it goes')],
      ['it was cut short', ({ page }) => writeFile(page, '')],
      ['a directory stands in its place', ({ page }) => rm(page).then(() => mkdir(page))],
      ['a pipe that nobody writes to stands in its place', ({ page }) => pipeAt(page)],
      ['its facts are gone', ({ facts }) => sql(facts, 'DELETE FROM facts')],
      ['its facts are no JSON', ({ facts }) => editFacts(facts, () => ({ facts: '{"key":' }))],
      ['its facts are those of another page', ({ facts }) => editFacts(facts, inFacts('page-000001', 'page-000002'))],
      ['its facts stand beside another key', ({ facts }) => editFacts(facts, ({ key }) => ({ key: `${key}2` }))],
      ['its facts stand beside other bytes', ({ facts }) => editFacts(facts, () => ({ sha256: sha256Of('others') }))],
      ['its facts do not say how it goes on', ({ facts }) => editFacts(facts, inFacts('"nextCursor"', '"next"'))],
      ['its facts tell of another length', ({ facts }) => editFacts(facts, inFacts('"bytes":', '"bytes":1'))],
      [
        'its facts bear no checksum',
        ({ facts }) => sql(facts, `${withoutConstraints}; UPDATE facts SET checksum = NULL`),
      ],
      ['its facts bear an empty one', ({ facts }) => editFacts(facts, () => ({ checksum: '' }))],
      ['its facts bear another', ({ facts }) => editFacts(facts, ({ checksum }) => ({ checksum: `0${checksum}` }))],
      ['its facts tell of more reports', ({ facts }) => editFacts(facts, inFacts('"reports":1', '"reports":2'))],
      ['its facts tell of another run', ({ facts }) => editFacts(facts, inFacts('"run":"2026', '"run":"2027'))],
      ['its facts tell of another page number', ({ facts }) => editFacts(facts, inFacts('"page":1', '"page":2'))],
      [
        'its facts go on with another cursor',
        ({ facts }) => editFacts(facts, inFacts('"nextCursor":"1', '"nextCursor":"2')),
      ],
      [
        'its facts go on no more',
        ({ facts }) => editFacts(facts, inFacts(/"nextCursor":"[^"]*"/, '"nextCursor":null')),
      ],
      ['its facts tell of another clock', ({ facts }) => editFacts(facts, inFacts('T02:00:01Z', 'T02:00:02Z'))],
      ['its facts are not about anything', ({ facts }) => editFacts(facts, () => ({ facts: 'null' }))],
      ['its facts are nothing', ({ facts }) => sql(facts, `${withoutConstraints}; UPDATE facts SET facts = NULL`)],
      ['its facts are a list', ({ facts }) => editFacts(facts, () => ({ facts: '[]' }))],
      ['its facts are larger than any', ({ facts }) => editFacts(facts, () => ({ facts: huge }))],
    ])('is a conflict, and is left alone: %s', async (_, change) => {
      await using directory = await temporaryDirectory();
      using stored = await storeWithPage(directory.path);
      const { identity, store } = stored;
      await change(stored);

      await expect(store.find(identity.key)).rejects.toEqual(conflict);
      await expect(store.find(identity.key)).rejects.toThrow(identity.key);
      await expect(store.put(identity, aFetchedPage({ body: 'another' }))).rejects.toEqual(conflict);
    });

    it('is a conflict where its facts are another page’s, whole and with their own checksum', async () => {
      await using directory = await temporaryDirectory();
      using stored = await storeWithPage(directory.path);
      using other = await storeWithPage(directory.path);
      const { facts, checksum } = factsRow(other.facts);
      editFacts(stored.facts, () => ({ facts, checksum }));
      await expect(stored.store.find(stored.identity.key)).rejects.toThrow(
        `they tell of the 10 bytes of ${other.identity.key}`,
      );
    });

    /** A store with a page, and in the place of its file of facts what `put` puts there. */
    async function storeWithoutFacts(root: string, put: (facts: string) => unknown) {
      const stored = await storeWithPage(root);
      stored.store.close();
      await rm(stored.facts);
      await put(stored.facts);
      const next = { ...stored.identity, key: stored.identity.key.replace('000001', '000002'), page: 2 };
      return { ...stored, next };
    }

    it.each<[string, (facts: string) => unknown, string]>([
      ['is gone', () => {}, 'it is not there'],
      ['is empty', (facts) => writeFile(facts, ''), 'they are not in it'],
    ])('is a conflict where the file of the facts %s, which does not keep others from being stored', async (...its) => {
      const [, put, why] = its;
      await using directory = await temporaryDirectory();
      using stored = await storeWithoutFacts(directory.path, put);
      const { identity, next, store, page, facts } = stored;

      for (const told of [
        conflict,
        expect.objectContaining({ message: expect.stringContaining(`${facts}: ${why}`) }),
      ]) {
        await expect(store.find(identity.key)).rejects.toEqual(told);
      }
      await expect(store.put(identity, aFetchedPage({ body: 'another' }))).rejects.toEqual(conflict);
      expect(await readFile(page, 'utf8')).toBe('as it came');
      expect((await store.put(next, aFetchedPage())).stored).toBe(true);
    });

    it.each<[string, (facts: string) => unknown, string | RegExp]>([
      ['is of another program', (facts) => sql(facts, 'CREATE TABLE recipes (dish)'), "another program's SQLite file"],
      ['is a page log', (facts) => createSqlitePageLog(facts).close(), "another program's SQLite file"],
      [
        'is of a newer version',
        (facts) => sql(facts, `${marks}; PRAGMA user_version = 2`),
        /newer.* \(schema 2,.* 1\)/,
      ],
      ['is of an older version', (facts) => sql(facts, `${marks}; CREATE TABLE facts (key)`), /of schema 0,/],
      ['has lost its table', (facts) => sql(facts, `${marks}; PRAGMA user_version = 1`), 'no such table: facts'],
      ['is no SQLite file', (facts) => writeFile(facts, '{"key":'.repeat(1_000)), 'is no SQLite database'],
      ['is a directory', (facts) => mkdir(facts), 'it cannot be opened'],
      ['is a pipe that nobody writes to', (facts) => pipeAt(facts), 'I/O error'],
    ])('is a conflict where the file of the facts %s, and others are not stored either', async (_, put, why) => {
      await using directory = await temporaryDirectory();
      using stored = await storeWithoutFacts(directory.path, put);
      const { identity, next, store, facts } = stored;

      await expect(store.find(identity.key)).rejects.toEqual(conflict);
      for (const page of [identity, next]) {
        const failure = store.put(page, aFetchedPage({ body: 'another' }));
        await expect(failure).rejects.toEqual(misconfigured);
        await expect(failure).rejects.toThrow(facts);
        await expect(failure).rejects.toThrow(why);
      }
      expect(await visibleFiles(directory.path)).toEqual([identity.key]);
      expect(await readFile(stored.page, 'utf8')).toBe('as it came');
    });

    it('is not published over: a manifest that is a pipe is no manifest', async () => {
      await using directory = await temporaryDirectory();
      using stored = await storeWithPage(directory.path);
      const { identity, store } = stored;
      const key = identity.key.replace('page-000001.xml', 'manifest.json');
      await pipeAt(join(directory.path, key));
      async function* chunks() {
        yield '{}';
      }
      await expect(store.putManifest(key, chunks())).rejects.toEqual(conflict);
    });

    it('is a conflict where a link leads nowhere', async () => {
      await using directory = await temporaryDirectory();
      using stored = await storeWithPage(directory.path);
      const { identity, store, page } = stored;
      await rm(page);
      await symlink('nowhere', page);
      await expect(store.put(identity, aFetchedPage())).rejects.toEqual(conflict);
    });
  });

  const pipeAt = async (path: string) => {
    await rm(path, { force: true });
    execFileSync('sh', ['-c', 'mkfifo "$0"', path]);
  };

  it('moves the pointer only while no other process does', async () => {
    await using directory = await temporaryDirectory();
    const lock = holdFileLock(join(directory.path, '.incoming', 'latest.lock'), 1_000);
    await using other = startScript(publisher, directory.path);
    await other.said(/^make reports$/);
    // Time enough for a process that does not wait to be found out.
    await sleep(100);
    const moved = [...other.lines].some((line) => line.startsWith('rename'));
    lock?.release();

    expect(moved).toBe(false);
    expect(await other.ended).toBe(0);
    expect(await readdir(join(directory.path, 'reports'))).toContain('latest.json');
  }, 60_000);

  describe('a listing', () => {
    it('shows files only, and a page that is a link to one', async () => {
      await using directory = await temporaryDirectory();
      using store = directoryStore(directory.path);
      const folder = aRunFolder();
      const at = (name: string) => join(directory.path, folder, name);
      await store.put(aPageIdentity({ folder, page: 1 }), aFetchedPage({ body: 'one' }));
      await writeFile(join(directory.path, 'elsewhere'), 'elsewhere');
      await mkdir(at('page-000002.xml'));
      await pipeAt(at('page-000003.xml'));
      await symlink('nowhere', at('page-000004.xml'));
      await symlink(join(directory.path, 'elsewhere'), at('page-000005.xml'));
      await writeFile(at('.DS_Store'), '');

      expect((await collect(store.list(folder))).sort((a, b) => (a.key < b.key ? -1 : 1))).toEqual([
        { key: `${folder}/page-000001.xml`, bytes: 3, revision: null },
        { key: `${folder}/page-000005.xml`, bytes: 9, revision: null },
      ]);
    });

    it('says what the disk said, where it refuses', async () => {
      await using directory = await temporaryDirectory();
      using store = directoryStore(directory.path);
      const folder = aRunFolder();
      await mkdir(join(directory.path, dirname(folder)), { recursive: true });
      await symlink(basename(folder), join(directory.path, folder));
      await expect(collect(store.list(folder))).rejects.toMatchObject({
        name: 'ConfigurationError',
        message: expect.stringContaining(`Could not list ${join(directory.path, folder)}`),
      });
    });

    it('of a file is empty, and of a hidden folder refused', async () => {
      await using directory = await temporaryDirectory();
      using store = directoryStore(directory.path);
      await writeFile(join(directory.path, 'file'), '');
      expect(await collect(store.list('file'))).toEqual([]);
      await expect(collect(store.list('.incoming'))).rejects.toEqual(misconfigured);
    });
  });

  it.each<[string, (path: string) => Promise<unknown>]>([
    ['a pipe that nobody writes to', (path) => pipeAt(path)],
    ['a link to itself', (path) => symlink('latest.json', path)],
    ['a link that leads nowhere', (path) => symlink('nowhere', path)],
    ['a file that is no pointer for its size', (path) => writeFile(path, `{"sequence":9}${' '.repeat(2 ** 20)}`)],
  ])('a pointer that is none gives way: %s', async (_, put) => {
    await using directory = await temporaryDirectory();
    using store = directoryStore(directory.path);
    const latest = aLatest({ sequence: 8 });
    const key = `${latest.export}/latest.json`;
    await mkdir(join(directory.path, latest.export));
    await put(join(directory.path, key));
    await store.putLatest(key, latest, async () => true);
    expect(JSON.parse(await readFile(join(directory.path, key), 'utf8'))).toEqual(latest);
  });

  it('a directory in the place of the pointer is named', async () => {
    await using directory = await temporaryDirectory();
    using store = directoryStore(directory.path);
    const latest = aLatest();
    const key = `${latest.export}/latest.json`;
    await mkdir(join(directory.path, key), { recursive: true });
    await expect(store.putLatest(key, latest, async () => true)).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringContaining(`Could not replace ${join(directory.path, key)}`),
    });
  });

  it('a pointer that cannot be read gives way', async () => {
    await using directory = await temporaryDirectory();
    using store = directoryStore(directory.path);
    const latest = aLatest();
    const key = `${latest.export}/latest.json`;
    for (const spoilt of ['', '{"seque', 'null', '[]', '{"sequence":"9"}']) {
      await mkdir(join(directory.path, latest.export), { recursive: true });
      await writeFile(join(directory.path, key), spoilt);
      await store.putLatest(key, latest, async () => true);
      expect(JSON.parse(await readFile(join(directory.path, key), 'utf8'))).toEqual(latest);
    }
  });

  it.each([
    '../page.xml',
    '/page.xml',
    'a/../../page.xml',
    'a/./page.xml',
    'a//page.xml',
    'a/',
    '',
    '.',
    'a\\b',
    'a\0b',
  ])('refuses the key %j, which leads elsewhere', async (key) => {
    await using directory = await temporaryDirectory();
    using store = directoryStore(join(directory.path, 'exports'));
    await expect(store.find(key)).rejects.toEqual(misconfigured);
    await expect(store.put(aPageIdentity({ key }), aFetchedPage())).rejects.toEqual(misconfigured);
    expect(await readdir(directory.path)).toEqual([]);
  });

  it.each(['.facts/page.xml', 'reports/.incoming/page.xml'])('refuses the hidden key %s', async (key) => {
    using store = directoryStore('exports');
    await expect(store.find(key)).rejects.toEqual(misconfigured);
  });

  describe('a disk that refuses', () => {
    it('is named with what it said, and lets go of the page that was coming', async () => {
      await using directory = await temporaryDirectory();
      const root = join(directory.path, 'a file', 'exports');
      await writeFile(join(directory.path, 'a file'), '');
      let letGo = false;
      function* body() {
        try {
          yield Buffer.from('<reports/>');
        } finally {
          letGo = true;
        }
      }

      const failure = createDirectoryPageStore(root).put(aPageIdentity(), aFetchedPage({ body: body() }));

      await expect(failure).rejects.toEqual(misconfigured);
      await expect(failure).rejects.toMatchObject({
        message: expect.stringContaining(root),
        cause: expect.objectContaining({ code: 'ENOTDIR' }),
      });
      expect(letGo).toBe(true);
    });

    it.each(['EPERM', 'ENOTSUP'])('is not worked around where it knows no hard links (%s)', async (code) => {
      await using directory = await temporaryDirectory();
      const { linkSync } = fs;
      const identity = aPageIdentity();
      using store = directoryStore(directory.path);
      const failure = () => {
        throw Object.assign(new Error(`${code}: link`), { code });
      };
      try {
        // No file system at hand refuses links, so this one is made to.
        fs.linkSync = failure;
        syncBuiltinESMExports();
        await expect(store.put(identity, aFetchedPage())).rejects.toMatchObject({
          name: 'ConfigurationError',
          message: expect.stringMatching(/refuses hard links.*local disk/),
          cause: { code },
        });
      } finally {
        fs.linkSync = linkSync;
        syncBuiltinESMExports();
      }
      expect(await visibleFiles(directory.path)).toEqual([]);
      expect(await readdir(join(directory.path, '.incoming'))).toEqual([]);
      // Its facts had come to the disk: so it counts as stored by the attempt that left them.
      const again = await store.put(identity, aFetchedPage());
      expect(again).toEqual({ stored: false, page: await store.find(identity.key) });
    });

    it('shows no page whose facts it does not bring to the disk', async () => {
      await using directory = await temporaryDirectory();
      using store = directoryStore(directory.path);
      const { fdatasync } = fs;
      const failing = (_: number, done: fs.NoParamCallback) => {
        setImmediate(() => done(Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' })));
      };
      try {
        Object.assign(fs, { fdatasync: failing });
        syncBuiltinESMExports();
        await expect(store.put(aPageIdentity(), aFetchedPage())).rejects.toMatchObject({
          name: 'ConfigurationError',
          message: expect.stringMatching(/Could not sync .*\.facts\.sqlite-wal: EIO/),
        });
      } finally {
        Object.assign(fs, { fdatasync });
        syncBuiltinESMExports();
      }
      expect(await visibleFiles(directory.path)).toEqual([]);
      expect(await readdir(join(directory.path, '.incoming'))).toEqual([]);
    });
  });
});
