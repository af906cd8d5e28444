import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { cp, mkdir, readdir, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
import { createDirectoryPageStore } from '../../../lib/local/files/page-store.ts';
import { pageStoreContract } from '../../contracts/page-store-contract.ts';
import {
  aCursor,
  aFetchedPage,
  aLatest,
  aPageIdentity,
  aRunFolder,
  collect,
  sha256Of,
  putPage,
} from '../../support/builders.ts';
import { compressAtOnce } from '../../support/export/compress-at-once.ts';
import { directoryStore } from '../../support/export/directory-store.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

pageStoreContract('The directory page store', async () => {
  const directory = await temporaryDirectory();
  const store = directoryStore(directory.path);
  const another = directoryStore(directory.path, compressAtOnce(0));
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

/** The files as a reader lists them: without hidden names, like a shell's `**`. */
async function visibleFiles(root: string, prefix = ''): Promise<string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
    .filter((key) => key.startsWith(prefix) && !/(^|\/)\.|^state\.sqlite/.test(key));
}

/** Where the store in `root` keeps the metadata of its pages. */
const metadataFileIn = (root: string) => join(root, 'state.sqlite');

type MetadataRow = { readonly [column in 'key' | 'sha256' | 'metadata' | 'checksum']: string };

/** Runs statements in a metadata file, without the table's constraints. */
function sql(file: string, statements: string): void {
  using database = new DatabaseSync(file);
  database.exec(`PRAGMA ignore_check_constraints = ON; ${statements}`);
}

const dropConstraints =
  'CREATE TABLE copy AS SELECT * FROM page_metadata; DROP TABLE page_metadata; ALTER TABLE copy RENAME TO page_metadata';

/** Identifies the file. */
const setApplicationId = 'PRAGMA application_id = 0x52455850';

function readMetadataRow(file: string): MetadataRow {
  using database = new DatabaseSync(file);
  return database.prepare('SELECT * FROM page_metadata').get() as MetadataRow;
}

/** Changes the only row. A change without effect is a mistake in the test. */
function editMetadata(file: string, change: (row: MetadataRow) => Partial<MetadataRow>): void {
  const row = readMetadataRow(file);
  const { key, sha256, metadata, checksum } = { ...row, ...change(row) };
  expect({ key, sha256, metadata, checksum }).not.toEqual({ ...row });
  using database = new DatabaseSync(file);
  database.exec('PRAGMA ignore_check_constraints = ON');
  database
    .prepare('UPDATE page_metadata SET key = ?, sha256 = ?, metadata = ?, checksum = ?')
    .run(key, sha256, metadata, checksum);
}

const conflict = expect.objectContaining({ name: 'PageConflictError' });
const misconfigured = expect.objectContaining({ name: 'ConfigurationError' });

describe('the directory page store', () => {
  it('creates nothing until the first write', async () => {
    await using directory = await temporaryDirectory();
    const root = join(directory.path, 'exports');
    using store = directoryStore(root);
    expect(await store.find(aPageIdentity().key)).toBeUndefined();
    expect(await readdir(directory.path)).toEqual([]);

    await putPage(store, aPageIdentity(), aFetchedPage());
    expect(await readdir(directory.path)).toEqual(['exports']);
  });

  it('can be copied to another directory', async () => {
    await using directory = await temporaryDirectory();
    const [here, there] = [join(directory.path, 'here'), join(directory.path, 'there')];
    const identity = aPageIdentity();
    using store = directoryStore(here);
    const { page } = await putPage(store, identity, aFetchedPage());
    store.close();

    await cp(here, there, { recursive: true });

    using copy = directoryStore(there);
    expect(await copy.find(identity.key)).toEqual(page);
  });

  it('locates keys in the directory as it was given', () => {
    expect(createDirectoryPageStore('./exports').locate('reports/latest.json')).toBe('exports/reports/latest.json');
  });

  it('creates files with the permissions of the umask', async () => {
    await using directory = await temporaryDirectory();
    using store = directoryStore(directory.path);
    const { key } = aPageIdentity();
    await putPage(store, aPageIdentity({ key }), aFetchedPage());
    const { mode } = await fs.promises.stat(join(directory.path, key));
    expect(mode & 0o777).toBe(0o666 & ~process.umask());
  });

  describe('metadata of an attempt that was killed before it linked the page', () => {
    /** A store in the state after step 2: with the metadata of `body`, without the page. */
    async function storeWithMetadataOnly(root: string, body: string) {
      const identity = aPageIdentity();
      const store = directoryStore(root);
      const { page } = await putPage(store, identity, aFetchedPage({ body }));
      await rm(join(root, identity.key));
      return {
        identity,
        store,
        page,
        metadata: metadataFileIn(root),
        [Symbol.dispose]: () => store.close(),
      };
    }

    it('is not used for other bytes', async () => {
      await using directory = await temporaryDirectory();
      using left = await storeWithMetadataOnly(directory.path, 'the killed attempt');
      const { identity, store } = left;
      const nextCursor = aCursor();

      const put = await putPage(store, identity, aFetchedPage({ body: 'the next attempt', nextCursor }));

      expect(put).toMatchObject({ stored: true, page: { nextCursor, sha256: sha256Of('the next attempt') } });
      expect(await store.find(identity.key)).toEqual(put.page);
    });

    it('is adopted for the same bytes, including its next cursor', async () => {
      await using directory = await temporaryDirectory();
      using left = await storeWithMetadataOnly(directory.path, 'the same');
      const { identity, store, page } = left;

      const put = await putPage(store, identity, aFetchedPage({ body: 'the same', nextCursor: aCursor() }));

      expect(put).toEqual({ stored: false, page });
      expect(await store.find(identity.key)).toEqual(page);
    });

    it('leaves a spool file, which is removed after a day', async () => {
      await using directory = await temporaryDirectory();
      const incoming = join(directory.path, '.incoming');
      await mkdir(incoming);
      for (const name of ['old.spool', 'young.spool', 'old.other']) await writeFile(join(incoming, name), '<rep');
      const dayAgo = new Date(Date.now() - 86_401_000);
      for (const name of ['old.spool', 'old.other']) await utimes(join(incoming, name), dayAgo, dayAgo);

      using store = directoryStore(directory.path);
      await putPage(store, aPageIdentity(), aFetchedPage());

      expect((await readdir(incoming)).sort()).toEqual(['old.other', 'young.spool']);
    });

    it('is a conflict if it is unreadable', async () => {
      await using directory = await temporaryDirectory();
      using left = await storeWithMetadataOnly(directory.path, 'the same');
      const { identity, store, metadata } = left;
      editMetadata(metadata, () => ({ metadata: '{' }));
      await expect(putPage(store, identity, aFetchedPage({ body: 'the same' }))).rejects.toEqual(conflict);
    });
  });

  describe('a page that does not match what this exporter wrote', () => {
    async function storeWithPage(root: string) {
      const identity = aPageIdentity();
      const store = directoryStore(root);
      await putPage(store, identity, aFetchedPage({ body: 'as it came' }));
      const page = join(root, identity.key);
      return { identity, store, page, metadata: metadataFileIn(root), [Symbol.dispose]: () => store.close() };
    }

    const replacing = (from: string | RegExp, to: string) => (row: MetadataRow) => ({
      metadata: row.metadata.replace(from, to),
    });

    it.each<[string, (files: { page: string; metadata: string }) => unknown]>([
      ['its bytes were changed', ({ page }) => writeFile(page, 'as it goes')],
      ['it was truncated', ({ page }) => writeFile(page, '')],
      ['it was replaced by a directory', ({ page }) => rm(page).then(() => mkdir(page))],
      ['it was replaced by a pipe without a writer', ({ page }) => createPipe(page)],
      ['its metadata was deleted', ({ metadata }) => sql(metadata, 'DELETE FROM page_metadata')],
      ['its metadata is not JSON', ({ metadata }) => editMetadata(metadata, () => ({ metadata: '{"key":' }))],
      [
        'its metadata has the key of another page',
        ({ metadata }) => editMetadata(metadata, replacing('page-000001', 'page-000002')),
      ],
      [
        'its metadata is in the row of another key',
        ({ metadata }) => editMetadata(metadata, ({ key }) => ({ key: `${key}2` })),
      ],
      [
        'its metadata is in the row of other bytes',
        ({ metadata }) => editMetadata(metadata, () => ({ sha256: sha256Of('others') })),
      ],
      [
        'its metadata has no next cursor',
        ({ metadata }) => editMetadata(metadata, replacing('"nextCursor"', '"next"')),
      ],
      [
        'its metadata has no checksum',
        ({ metadata }) => sql(metadata, `${dropConstraints}; UPDATE page_metadata SET checksum = NULL`),
      ],
      ['its metadata has an empty checksum', ({ metadata }) => editMetadata(metadata, () => ({ checksum: '' }))],
      [
        'its metadata has another checksum',
        ({ metadata }) => editMetadata(metadata, ({ checksum }) => ({ checksum: `0${checksum}` })),
      ],
      ['its metadata is JSON null', ({ metadata }) => editMetadata(metadata, () => ({ metadata: 'null' }))],
      [
        'its metadata is SQL NULL',
        ({ metadata }) => sql(metadata, `${dropConstraints}; UPDATE page_metadata SET metadata = NULL`),
      ],
    ])('is a conflict and stays unchanged: %s', async (_, change) => {
      await using directory = await temporaryDirectory();
      using stored = await storeWithPage(directory.path);
      const { identity, store } = stored;
      await change(stored);

      await expect(store.find(identity.key)).rejects.toEqual(conflict);
      await expect(store.find(identity.key)).rejects.toThrow(identity.key);
      await expect(putPage(store, identity, aFetchedPage({ body: 'another' }))).rejects.toEqual(conflict);
    });

    it('is a conflict if it has the valid metadata of another page', async () => {
      await using directory = await temporaryDirectory();
      using stored = await storeWithPage(join(directory.path, 'one'));
      using other = await storeWithPage(join(directory.path, 'other'));
      const { metadata, checksum } = readMetadataRow(other.metadata);
      editMetadata(stored.metadata, () => ({ metadata, checksum }));
      await expect(stored.store.find(stored.identity.key)).rejects.toThrow(
        `the entry describes 10 bytes of ${other.identity.key}`,
      );
    });

    /** A store with a page whose metadata file is replaced by what `replace` writes. */
    async function storeWithReplacedMetadata(root: string, replace: (file: string) => unknown) {
      const stored = await storeWithPage(root);
      stored.store.close();
      await rm(stored.metadata);
      await replace(stored.metadata);
      const next = { ...stored.identity, key: stored.identity.key.replace('000001', '000002'), page: 2 };
      return { ...stored, next };
    }

    it('is a conflict if the state file is missing, and other pages can still be stored', async () => {
      await using directory = await temporaryDirectory();
      using stored = await storeWithReplacedMetadata(directory.path, () => {});
      const { identity, next, store, page, metadata } = stored;

      await expect(store.find(identity.key)).rejects.toMatchObject({
        name: 'PageConflictError',
        message: expect.stringContaining(`${metadata}: the file does not exist`),
      });
      await expect(putPage(store, identity, aFetchedPage({ body: 'another' }))).rejects.toEqual(conflict);
      expect(await readFile(page, 'utf8')).toBe('as it came');
      expect((await putPage(store, next, aFetchedPage())).stored).toBe(true);
    });

    it.each<[string, (file: string) => unknown, string | RegExp]>([
      [
        'belongs to another program',
        (file) => sql(file, 'CREATE TABLE recipes (dish)'),
        'SQLite file of another program',
      ],
      ['is empty', (file) => writeFile(file, ''), /is empty, although .* has runs/],
      [
        'has a newer version',
        (file) => sql(file, `${setApplicationId}; PRAGMA user_version = 9`),
        /newer.* \(schema 9;.* 8\)/,
      ],
      [
        'has an older version',
        (file) => sql(file, `${setApplicationId}; CREATE TABLE page_metadata (key)`),
        /has schema 0,/,
      ],
      [
        'has no table',
        (file) => sql(file, `${setApplicationId}; PRAGMA user_version = 8`),
        'no such table: page_metadata',
      ],
      ['is not a SQLite file', (file) => writeFile(file, '{"key":'.repeat(1_000)), 'is not a SQLite database'],
      ['is a directory', (file) => mkdir(file), 'is a directory, not a file'],
      ['is a pipe without a writer', (file) => createPipe(file), 'is a pipe or a device, not a file'],
    ])('is a conflict if the state file %s, and other pages cannot be stored', async (_, replace, reason) => {
      await using directory = await temporaryDirectory();
      using stored = await storeWithReplacedMetadata(directory.path, replace);
      const { identity, next, store, metadata } = stored;

      await expect(store.find(identity.key)).rejects.toEqual(conflict);
      for (const page of [identity, next]) {
        const failure = putPage(store, page, aFetchedPage({ body: 'another' }));
        await expect(failure).rejects.toEqual(misconfigured);
        await expect(failure).rejects.toThrow(metadata);
        await expect(failure).rejects.toThrow(reason);
      }
      expect(await visibleFiles(directory.path)).toEqual([identity.key]);
      expect(await readFile(stored.page, 'utf8')).toBe('as it came');
    });

    it('is a conflict if a pipe takes the place of the manifest', async () => {
      await using directory = await temporaryDirectory();
      using stored = await storeWithPage(directory.path);
      const { identity, store } = stored;
      const key = identity.key.replace('page-000001.xml', 'manifest.json');
      await createPipe(join(directory.path, key));
      async function* chunks() {
        yield '{}';
      }
      await expect(store.putDocument(key, chunks())).rejects.toEqual(conflict);
    });

    it('is a conflict if it is a dangling link', async () => {
      await using directory = await temporaryDirectory();
      using stored = await storeWithPage(directory.path);
      const { identity, store, page } = stored;
      await rm(page);
      await symlink('nowhere', page);
      await expect(putPage(store, identity, aFetchedPage())).rejects.toEqual(conflict);
    });
  });

  const createPipe = async (path: string) => {
    await rm(path, { force: true });
    execFileSync('sh', ['-c', 'mkfifo "$0"', path]);
  };

  describe('a listing', () => {
    it('contains only files and links to files', async () => {
      await using directory = await temporaryDirectory();
      using store = directoryStore(directory.path);
      const folder = aRunFolder();
      const at = (name: string) => join(directory.path, folder, name);
      await putPage(store, aPageIdentity({ folder, page: 1 }), aFetchedPage({ body: 'one' }));
      await writeFile(join(directory.path, 'elsewhere'), 'elsewhere');
      await mkdir(at('page-000002.xml'));
      await createPipe(at('page-000003.xml'));
      await symlink('nowhere', at('page-000004.xml'));
      await symlink(join(directory.path, 'elsewhere'), at('page-000005.xml'));
      await writeFile(at('.DS_Store'), '');

      expect((await collect(store.list(folder))).sort((a, b) => (a.key < b.key ? -1 : 1))).toEqual([
        { key: `${folder}/page-000001.xml`, bytes: 3, revision: null },
        { key: `${folder}/page-000005.xml`, bytes: 9, revision: null },
      ]);
    });

    it('reports the error of the file system', async () => {
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

    it('of a file is empty, and of a hidden folder rejected', async () => {
      await using directory = await temporaryDirectory();
      using store = directoryStore(directory.path);
      await writeFile(join(directory.path, 'file'), '');
      expect(await collect(store.list('file'))).toEqual([]);
      await expect(collect(store.list('.incoming'))).rejects.toEqual(misconfigured);
    });
  });

  it.each<[string, (path: string) => Promise<unknown>]>([
    ['a pipe without a writer', (path) => createPipe(path)],
    ['a link to itself', (path) => symlink('latest.json', path)],
    ['a dangling link', (path) => symlink('nowhere', path)],
    ['a file that is too large', (path) => writeFile(path, `{"sequence":9}${' '.repeat(2 ** 20)}`)],
  ])('replaces an invalid pointer: %s', async (_, create) => {
    await using directory = await temporaryDirectory();
    using store = directoryStore(directory.path);
    const latest = aLatest({ sequence: 8 });
    const key = `${latest.export}/latest.json`;
    await mkdir(join(directory.path, latest.export));
    await create(join(directory.path, key));
    await store.putLatest(key, latest, async () => true);
    expect(JSON.parse(await readFile(join(directory.path, key), 'utf8'))).toEqual(latest);
  });

  it('names a directory in the place of the pointer', async () => {
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

  it('replaces an unreadable pointer', async () => {
    await using directory = await temporaryDirectory();
    using store = directoryStore(directory.path);
    const latest = aLatest();
    const key = `${latest.export}/latest.json`;
    for (const content of ['', '{"seque', 'null', '[]', '{"sequence":"9"}']) {
      await mkdir(join(directory.path, latest.export), { recursive: true });
      await writeFile(join(directory.path, key), content);
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
  ])('rejects the key %j, which leads elsewhere', async (key) => {
    await using directory = await temporaryDirectory();
    using store = directoryStore(join(directory.path, 'exports'));
    await expect(store.find(key)).rejects.toEqual(misconfigured);
    await expect(putPage(store, aPageIdentity({ key }), aFetchedPage())).rejects.toEqual(misconfigured);
    expect(await readdir(directory.path)).toEqual([]);
  });

  it.each(['.hidden/page.xml', 'reports/.incoming/page.xml'])('rejects the hidden key %s', async (key) => {
    using store = directoryStore('exports');
    await expect(store.find(key)).rejects.toEqual(misconfigured);
  });

  describe('a file-system error', () => {
    it('names the path and the cause', async () => {
      await using directory = await temporaryDirectory();
      const root = join(directory.path, 'a file', 'exports');
      await writeFile(join(directory.path, 'a file'), '');
      const failure = putPage(createDirectoryPageStore(root), aPageIdentity(), aFetchedPage());

      await expect(failure).rejects.toEqual(misconfigured);
      await expect(failure).rejects.toMatchObject({
        message: `${dirname(root)} is a file, not a directory. Choose another --out`,
        cause: expect.objectContaining({ code: 'ENOTDIR' }),
      });
    });

    it.each([
      ['EPERM', /does not support hard links.*local disk/],
      ['ENOTSUP', /does not support hard links.*local disk/],
      ['EXDEV', /page-.*is not on the file system of the folder \.incoming\. Keep the whole/],
    ])('rejects a file system without hard links, and several ones (%s)', async (code, message) => {
      await using directory = await temporaryDirectory();
      const { linkSync } = fs;
      const identity = aPageIdentity();
      using store = directoryStore(directory.path);
      const failure = () => {
        throw Object.assign(new Error(`${code}: link`), { code });
      };
      try {
        // Simulated: the file systems of development machines support links.
        fs.linkSync = failure;
        syncBuiltinESMExports();
        await expect(putPage(store, identity, aFetchedPage())).rejects.toMatchObject({
          name: 'ConfigurationError',
          message: expect.stringMatching(message),
          cause: { code },
        });
      } finally {
        fs.linkSync = linkSync;
        syncBuiltinESMExports();
      }
      expect(await visibleFiles(directory.path)).toEqual([]);
      expect(await readdir(join(directory.path, '.incoming'))).toEqual([]);
      // The first attempt added the metadata, so it counts as the one that stored the page.
      const again = await putPage(store, identity, aFetchedPage());
      expect(again).toEqual({ stored: false, page: await store.find(identity.key) });
    });

    it('in syncing the metadata leaves no page visible', async () => {
      await using directory = await temporaryDirectory();
      using store = directoryStore(directory.path);
      const { fdatasync } = fs;
      const failing = (_: number, done: fs.NoParamCallback) => {
        setImmediate(() => done(Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' })));
      };
      try {
        Object.assign(fs, { fdatasync: failing });
        syncBuiltinESMExports();
        await expect(putPage(store, aPageIdentity(), aFetchedPage())).rejects.toMatchObject({
          name: 'ConfigurationError',
          message: expect.stringMatching(/Could not sync .*state\.sqlite-wal: the disk failed/),
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
