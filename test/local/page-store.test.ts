import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { cp, mkdir, readdir, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it, onTestFinished } from 'vitest';
import { pageStoreContract } from '../contracts/page-store-contract.ts';
import {
  aCursor,
  aFetchedPage,
  aLatest,
  aPageIdentity,
  aRunFolder,
  collect,
  sha256Of,
  putPage,
} from '../support/builders.ts';
import { compressAtOnce } from '../support/export/compress-at-once.ts';
import { directoryStore } from '../support/export/directory-store.ts';
import { changeRow, ofMetadata, type RowChange, stateRow } from '../support/export/state-rows.ts';
import { startScript } from '../support/process/child-script.ts';
import { replaceInFs } from '../support/replaced-fs.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const publisher = new URL('./children/publish.ts', import.meta.url);

pageStoreContract(
  'The directory page store',
  async () => {
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
  },
  { largeMiB: 1 },
);

/** The files as a reader lists them: without hidden names, like a shell's `**`. */
async function visibleFiles(root: string, prefix = ''): Promise<string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
    .filter((key) => key.startsWith(prefix) && !/(^|\/)\.|^state\.sqlite/.test(key));
}

/** A store in a new directory, with the path of a key in it. */
async function aStore() {
  const directory = await temporaryDirectory();
  const root = join(directory.path, 'exports');
  const store = directoryStore(root);
  onTestFinished(async () => {
    store.close();
    await directory.remove();
  });
  return { parent: directory.path, root, store, at: (key: string) => join(root, key) };
}

/** A store with a page, whose bytes are `body`. */
async function aStoredPage(body = 'as it came') {
  const created = await aStore();
  const identity = aPageIdentity();
  const { page } = await putPage(created.store, identity, aFetchedPage({ body }));
  return { ...created, identity, page, path: created.at(identity.key), state: created.at('state.sqlite') };
}
type StoredPage = Awaited<ReturnType<typeof aStoredPage>>;

const setMetadata = (change: (json: string, page: StoredPage) => RowChange | undefined) => (page: StoredPage) =>
  changeRow(page.state, ofMetadata(page.identity.key), ({ fields }) => change(JSON.stringify(fields), page));
const replaced = (from: string, to: string) => setMetadata((json) => ({ json: json.replace(from, to) }));

function createOtherDatabase(file: string): void {
  using database = new DatabaseSync(file);
  database.exec('CREATE TABLE recipes (dish)');
}

const createPipe = async (path: string) => {
  await rm(path, { force: true });
  execFileSync('sh', ['-c', 'mkfifo "$0"', path]);
};

/** The steps that show or acknowledge what a power loss would take at that moment. */
function unsafeSteps(lines: readonly string[]) {
  const log = 'state.sqlite-wal';
  /** Files and folders with changes that are not synced. */
  const unsafe = new Set<string>();
  return lines.flatMap((line) => {
    const [, step, path = '', name = ''] = /^(.*?) (spool \d+|\S+)(?: to (\S+))?$/.exec(line) ?? [];
    if (step === 'write' || step === 'left') unsafe.add(path);
    if (step === 'mkdir') unsafe.add(dirname(path));
    // A killed process may have created the log of the database without its name.
    if (step === 'INSERT INTO') for (const changed of [log, '.']) unsafe.add(changed);
    if (step === 'synced') unsafe.delete(path);
    const isVisible = step === 'link' || step === 'rename';
    // A page becomes visible with its bytes and its metadata.
    const needed = step === 'acknowledge' ? [...unsafe] : isVisible ? [path, log] : [];
    const lost = needed.filter((each) => unsafe.has(each));
    if (isVisible) unsafe.add(dirname(name));
    return lost.length === 0 ? [] : [{ line, lost }];
  });
}

const conflict = expect.objectContaining({ name: 'PageConflictError' });
const misconfigured = expect.objectContaining({ name: 'ConfigurationError' });

describe('the directory page store', () => {
  it('neither shows nor acknowledges what a power loss could take', async () => {
    await using directory = await temporaryDirectory();
    await using child = startScript(publisher, directory.path);
    expect(await child.ended).toBe(0);
    expect(unsafeSteps(child.lines)).toEqual([]);
    expect(child.lines.filter((line) => line.startsWith('acknowledge'))).toHaveLength(4);
  });

  it('creates nothing until the first write, and files with the permissions of the umask', async () => {
    const { parent, store, at } = await aStore();
    const identity = aPageIdentity();
    expect(await store.find(identity.key)).toBeUndefined();
    expect(await readdir(parent)).toEqual([]);

    await putPage(store, identity, aFetchedPage());
    expect(await readdir(parent)).toEqual(['exports']);
    expect(fs.statSync(at(identity.key)).mode & 0o777).toBe(0o666 & ~process.umask());
  });

  it('can be copied to another directory', async () => {
    const { parent, root, store, identity, page } = await aStoredPage();
    store.close();
    await cp(root, join(parent, 'there'), { recursive: true });
    using copy = directoryStore(join(parent, 'there'));
    expect(await copy.find(identity.key)).toEqual(page);
  });

  it('locates keys in the directory as it was given', () => {
    expect(directoryStore('./exports').locate('reports/latest.json')).toBe('exports/reports/latest.json');
  });

  it('removes the spool file of an attempt that was killed after a day', async () => {
    const { store, at } = await aStore();
    await mkdir(at('.incoming'), { recursive: true });
    const dayAgo = new Date(Date.now() - 86_401_000);
    for (const name of ['old.spool', 'young.spool', 'old.other']) {
      await writeFile(at(`.incoming/${name}`), '<rep');
      if (name.startsWith('old')) await utimes(at(`.incoming/${name}`), dayAgo, dayAgo);
    }
    await putPage(store, aPageIdentity(), aFetchedPage());
    expect((await readdir(at('.incoming'))).sort()).toEqual(['old.other', 'young.spool']);
  });

  it('uses the metadata of an attempt that was killed before it linked the page only for the same bytes', async () => {
    for (const body of ['the same', 'the next attempt']) {
      const { store, identity, path, page } = await aStoredPage('the same');
      await rm(path);
      const nextCursor = aCursor();
      const put = await putPage(store, identity, aFetchedPage({ body, nextCursor }));
      const isSame = body === 'the same';
      const stored = { nextCursor: isSame ? page.nextCursor : nextCursor, sha256: sha256Of(body) };
      expect(put).toMatchObject({ stored: !isSame, page: stored });
      expect(await store.find(identity.key)).toEqual(put.page);
    }
  });

  describe('a page that does not match what this exporter wrote', () => {
    it.each<[string, (page: StoredPage) => unknown]>([
      ['its bytes were changed', ({ path }) => writeFile(path, 'as it goes')],
      ['it was truncated', ({ path }) => writeFile(path, '')],
      ['it was replaced by a directory', ({ path }) => rm(path).then(() => mkdir(path))],
      ['it was replaced by a pipe without a writer', ({ path }) => createPipe(path)],
      ['its metadata was deleted', setMetadata(() => undefined)],
      ['its metadata is not JSON', setMetadata(() => ({ json: '{"key":' }))],
      ['its metadata is JSON null', setMetadata(() => ({ json: 'null' }))],
      ['its metadata has the key of another page', replaced('000001', '000002')],
      ['its metadata has no next cursor', replaced('"nextCursor"', '"next"')],
      [
        'its metadata is in the row of another key',
        setMetadata((_, { identity }) => ({ repeated: { key: `${identity.key}2` } })),
      ],
      ['its metadata is in the row of other bytes', setMetadata(() => ({ repeated: { sha256: sha256Of('others') } }))],
      ['its metadata has an empty checksum', setMetadata(() => ({ checksum: '' }))],
      ['its metadata has another checksum', setMetadata(() => ({ checksum: sha256Of('others') }))],
    ])('is a conflict and stays unchanged: %s', async (_, change) => {
      const page = await aStoredPage();
      const { identity, store } = page;
      await change(page);
      await expect(store.find(identity.key)).rejects.toEqual(conflict);
      await expect(store.find(identity.key)).rejects.toThrow(identity.key);
      await expect(putPage(store, identity, aFetchedPage({ body: 'another' }))).rejects.toEqual(conflict);
    });

    it('is a conflict if it has the valid metadata of another page', async () => {
      const [stored, other] = [await aStoredPage(), await aStoredPage()];
      const theirs = stateRow(other.state, ofMetadata(other.identity.key)).read();
      changeRow(stored.state, ofMetadata(stored.identity.key), () => ({
        json: JSON.stringify(theirs?.fields),
        checksum: String(theirs?.checksum),
      }));
      await expect(stored.store.find(stored.identity.key)).rejects.toThrow(
        `the entry describes 10 bytes of ${other.identity.key}`,
      );
    });

    /** Writes something else in the place of the state file. Returns the page after the stored one, too. */
    async function withoutState(replace: (file: string) => unknown) {
      const stored = await aStoredPage();
      stored.store.close();
      await rm(stored.state);
      await replace(stored.state);
      const key = stored.identity.key.replace('000001', '000002');
      return { ...stored, next: { ...stored.identity, key, page: 2 } };
    }

    it('is a conflict if the state file is missing, and other pages can still be stored', async () => {
      const { identity, next, store, path, state } = await withoutState(() => {});
      await expect(store.find(identity.key)).rejects.toMatchObject({
        name: 'PageConflictError',
        message: expect.stringContaining(`${state}: the file does not exist`),
      });
      await expect(putPage(store, identity, aFetchedPage({ body: 'another' }))).rejects.toEqual(conflict);
      expect(await readFile(path, 'utf8')).toBe('as it came');
      expect((await putPage(store, next, aFetchedPage())).stored).toBe(true);
    });

    it.each<[string, (file: string) => unknown, string | RegExp]>([
      ['belongs to another program', createOtherDatabase, 'of another program'],
      ['is empty', (file) => writeFile(file, ''), /is empty, although .* has runs/],
      ['is a pipe without a writer', (file) => createPipe(file), 'is a pipe or a device, not a file'],
    ])('is a conflict if the state file %s, and other pages cannot be stored', async (_, replace, reason) => {
      const { identity, next, store, state, path, root } = await withoutState(replace);
      await expect(store.find(identity.key)).rejects.toEqual(conflict);
      for (const page of [identity, next]) {
        const failure = putPage(store, page, aFetchedPage({ body: 'another' }));
        await expect(failure).rejects.toEqual(misconfigured);
        await expect(failure).rejects.toThrow(state);
        await expect(failure).rejects.toThrow(reason);
      }
      expect(await visibleFiles(root)).toEqual([identity.key]);
      expect(await readFile(path, 'utf8')).toBe('as it came');
    });

    it('is a conflict if it has become a directory, and the message says so', async () => {
      const { identity, store, path } = await aStoredPage();
      await rm(path);
      await mkdir(path);
      const message = expect.stringMatching(/page-000001\.xml cannot be read: it is no file\. Nothing was changed/);
      await expect(store.read(identity.key)).rejects.toMatchObject({ name: 'PageConflictError', message });
    });

    it('is a conflict if it is a dangling link, or if a pipe takes the place of the manifest', async () => {
      const { identity, store, path, at } = await aStoredPage();
      await rm(path);
      await symlink('nowhere', path);
      await expect(putPage(store, identity, aFetchedPage())).rejects.toEqual(conflict);

      const key = identity.key.replace('page-000001.xml', 'manifest.json');
      await createPipe(at(key));
      async function* chunks() {
        yield '{}';
      }
      await expect(store.putDocument(key, chunks())).rejects.toEqual(conflict);
    });
  });

  describe('a listing', () => {
    it('contains only files and links to files', async () => {
      const { parent, store, at } = await aStore();
      const folder = aRunFolder();
      const inFolder = (name: string) => at(`${folder}/${name}`);
      await putPage(store, aPageIdentity({ folder, page: 1 }), aFetchedPage({ body: 'one' }));
      await writeFile(join(parent, 'elsewhere'), 'elsewhere');
      await mkdir(inFolder('page-000002.xml'));
      await createPipe(inFolder('page-000003.xml'));
      await symlink('nowhere', inFolder('page-000004.xml'));
      await symlink(join(parent, 'elsewhere'), inFolder('page-000005.xml'));
      await writeFile(inFolder('.DS_Store'), '');

      expect((await collect(store.list(folder))).sort((a, b) => (a.key < b.key ? -1 : 1))).toEqual([
        { key: `${folder}/page-000001.xml`, bytes: 3, revision: null },
        { key: `${folder}/page-000005.xml`, bytes: 9, revision: null },
      ]);
    });

    it('reports the error of the file system', async () => {
      const { store, at } = await aStore();
      const folder = aRunFolder();
      await mkdir(dirname(at(folder)), { recursive: true });
      await symlink(basename(folder), at(folder));
      await expect(collect(store.list(folder))).rejects.toMatchObject({
        name: 'ConfigurationError',
        message: expect.stringContaining(`Could not list ${at(folder)}`),
      });
    });

    it('of a file is empty, and of a hidden folder rejected', async () => {
      const { root, store, at } = await aStore();
      await mkdir(root);
      await writeFile(at('file'), '');
      expect(await collect(store.list('file'))).toEqual([]);
      await expect(collect(store.list('.incoming'))).rejects.toEqual(misconfigured);
    });
  });

  const containing = (content: string) => async (path: string) => await writeFile(path, content);

  it.each<[string, (path: string) => Promise<unknown>]>([
    ['a pipe without a writer', (path) => createPipe(path)],
    ['a link to itself', (path) => symlink('latest.json', path)],
    ['a dangling link', (path) => symlink('nowhere', path)],
    ['too large', containing(`{"sequence":9}${' '.repeat(2 ** 20)}`)],
    ['no JSON', containing('{"seque')],
  ])('replaces a pointer that is %s', async (_, create) => {
    const { store, at } = await aStore();
    const latest = aLatest({ sequence: 8 });
    const key = `${latest.export}/latest.json`;
    await mkdir(at(latest.export), { recursive: true });
    await create(at(key));
    await store.putLatest(key, latest, async () => true);
    expect(JSON.parse(await readFile(at(key), 'utf8'))).toEqual(latest);
  });

  it('names a directory in the place of the pointer', async () => {
    const { store, at } = await aStore();
    const latest = aLatest();
    const key = `${latest.export}/latest.json`;
    await mkdir(at(key), { recursive: true });
    await expect(store.putLatest(key, latest, async () => true)).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringContaining(`Could not replace ${at(key)}`),
    });
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
    '.hidden/page.xml',
    'reports/.incoming/page.xml',
  ])('rejects the key %j, which leads elsewhere or is hidden', async (key) => {
    const { parent, store } = await aStore();
    await expect(store.find(key)).rejects.toEqual(misconfigured);
    await expect(putPage(store, aPageIdentity({ key }), aFetchedPage())).rejects.toEqual(misconfigured);
    expect(await readdir(parent)).toEqual([]);
  });

  describe('a file-system error', () => {
    it('names the path and the cause', async () => {
      const { parent } = await aStore();
      const root = join(parent, 'a file', 'exports');
      await writeFile(join(parent, 'a file'), '');
      const failure = putPage(directoryStore(root), aPageIdentity(), aFetchedPage());
      await expect(failure).rejects.toMatchObject({
        name: 'ConfigurationError',
        message: expect.stringMatching(/^Could not create .*\/a file\/exports: part of its path is a file, not a dir/),
        cause: expect.objectContaining({ code: 'ENOTDIR' }),
      });
    });

    // Simulated: the file systems of development machines support links.
    it.each([
      ['EPERM', /does not support hard links.*local disk/],
      ['ENOTSUP', /does not support hard links.*local disk/],
      ['EXDEV', /page-.*is not on the file system of the folder \.incoming\. Keep the whole/],
    ])('in linking a page leaves none visible (%s)', async (code, message) => {
      const { root, store, at } = await aStore();
      const identity = aPageIdentity();
      const failing = () => {
        throw Object.assign(new Error(`${code}: link`), { code });
      };
      const restore = replaceInFs({ linkSync: failing });
      await expect(putPage(store, identity, aFetchedPage())).rejects.toMatchObject({
        name: 'ConfigurationError',
        message: expect.stringMatching(message),
        cause: { code },
      });
      restore();
      expect(await visibleFiles(root)).toEqual([]);
      expect(await readdir(at('.incoming'))).toEqual([]);
      // The first attempt added the metadata, so it counts as the one that stored the page.
      const again = await putPage(store, identity, aFetchedPage());
      expect(again).toEqual({ stored: false, page: await store.find(identity.key) });
    });

    it('in syncing the metadata leaves no page visible', async () => {
      const { root, store, at } = await aStore();
      const failing = (_: number, done: fs.NoParamCallback) => {
        setImmediate(() => done(Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' })));
      };
      replaceInFs({ fdatasync: failing as typeof fs.fdatasync });
      await expect(putPage(store, aPageIdentity(), aFetchedPage())).rejects.toMatchObject({
        name: 'ConfigurationError',
        message: expect.stringMatching(/Could not sync .*state\.sqlite-wal: the disk failed/),
      });
      expect(await visibleFiles(root)).toEqual([]);
      expect(await readdir(at('.incoming'))).toEqual([]);
    });
  });
});
