import { Readable } from 'node:stream';
import { gunzipSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { ExportError, isExportError } from '../../lib/core/errors.ts';
import type { Cursor, PageEntry, Run } from '../../lib/core/model.ts';
import { type VerifiedRun, verifyRun } from '../../lib/operator/verify-run.ts';
import type { PageIdentity } from '../../lib/core/ports.ts';
import { pageKey } from '../../lib/core/storage/keys.ts';
import { openPublishedRun } from '../../lib/core/storage/published-runs.ts';
import { aCursor, aFetchedPage, aRunId, collect, sha256Of, putPage } from '../support/builders.ts';
import { anExportBench, type Bench } from '../support/export/export-bench.ts';
import { createMemoryLog } from '../support/export/memory-adapters.ts';
import { cursorAt, someReports } from '../support/export/scripted-service.ts';
import { fc, test } from '../support/property.ts';

/** A published run of three pages. */
async function aPublishedRun(compression?: 'gzip'): Promise<Bench> {
  const bench = anExportBench({ reports: someReports(5), size: 2, definition: { compression } });
  expect((await bench.start()).status).toBe('completed');
  return bench;
}

async function verify(bench: Bench, log: Bench['log'] = bench.log, run?: string): Promise<VerifiedRun> {
  const published = await openPublishedRun(bench.store, bench.deps.definition.name, run);
  return await verifyRun({ store: bench.store, log, onPage() {} }, published);
}
const keyOf = ({ store }: Bench, ends: string) => [...store.objects.keys()].find((key) => key.endsWith(ends)) ?? '';
const pageOf = (bench: Bench, page: number) =>
  [...bench.store.objects.keys()].find((key) => key.includes(`/page-00000${page}.xml`)) ?? '';
const edit = (bench: Bench, key: string, change: (text: string) => string) => {
  const before = bench.store.objects.get(key) ?? '';
  expect(change(before)).not.toBe(before);
  bench.store.objects.set(key, change(before));
};
/** The bench's log with its entries replaced by `change`. */
const logWith = (bench: Bench, change: (entries: PageEntry[]) => readonly PageEntry[]): Bench['log'] => ({
  ...bench.log,
  async *entries(run) {
    const entries: PageEntry[] = [];
    for await (const entry of bench.log.entries(run)) entries.push(entry);
    yield* change(entries);
  },
});
const changed = (entries: PageEntry[], page: number, change: Partial<PageEntry>) =>
  entries.map((entry) => (entry.page === page ? { ...entry, ...change } : entry));

describe('verifying an unchanged run', () => {
  it('finds nothing if log and metadata of its pages are lost, as with state.sqlite; with the log, the metadata is missed', async () => {
    const bench = await aPublishedRun();
    const published = () => openPublishedRun(bench.store, bench.deps.definition.name);
    const store = {
      ...bench.store,
      find: async (key: string) => await Promise.reject(new ExportError('PageConflictError', `${key} has no metadata`)),
    };
    const onPage = () => {};
    const lost = await verifyRun({ store, log: logWith(bench, () => []), onPage }, await published());
    expect(lost).toMatchObject({ findings: [], notes: [expect.stringContaining('no longer has the run')] });
    expect((await verifyRun({ store, log: bench.log, onPage }, await published())).findingCount).toBe(3);
  });

  it('finds nothing, and returns its totals', async () => {
    expect(await verify(await aPublishedRun())).toMatchObject({ findings: [], notes: [], pages: 3, reports: 5 });
  });

  it('finds nothing in a run without reports, nor in one that is not the newest', async () => {
    const bench = anExportBench({ reports: [] });
    await bench.start();
    expect(await verify(bench)).toMatchObject({ findings: [], pages: 1, reports: 0 });
    const first = bench.store.objects.get(keyOf(bench, 'latest.json')) ?? '';
    bench.advance(60_000);
    await bench.start();
    expect((await verify(bench, bench.log, JSON.parse(first).run)).findings).toEqual([]);
  });

  it('finds nothing if its since has milliseconds, and its requests whole seconds', async () => {
    const bench = anExportBench();
    await bench.start({ since: '2026-11-19T02:00:00.250Z' });
    expect(bench.manifest(keyOf(bench, 'manifest.json'))).toMatchObject({
      since: '2026-11-19T02:00:00.250Z',
      filter: { date: { gte: '2026-11-19T02:00:00Z' } },
    });
    expect(await verify(bench)).toMatchObject({ findings: [] });
  });

  test.prop([fc.subarray([1, 2, 3])])(
    'finds nothing while the entries of its log expire, in any order',
    async (pagesLeft) => {
      const bench = await aPublishedRun();
      const log = logWith(bench, (entries) => entries.filter(({ page }) => pagesLeft.includes(page)));
      const { startedAt } = JSON.parse(bench.store.objects.get(keyOf(bench, 'manifest.json')) ?? '') as Run;
      const verified = await verify(bench, { ...log, mayHaveExpired: (loggedAt) => loggedAt === startedAt });
      expect(verified).toMatchObject({ findings: [], pages: 3 });
      expect(verified.notes).toEqual([expect.stringContaining('no longer has the run')]);
      edit(bench, pageOf(bench, 2), () => '<r/>');
      expect((await verify(bench, log)).findings).not.toEqual([]);
    },
  );

  it('notes that its log has expired, and verifies the manifest and the pages', async () => {
    const bench = await aPublishedRun();
    const verified = await verify(
      bench,
      logWith(bench, () => []),
    );
    expect(verified).toMatchObject({ findings: [], pages: 3 });
    expect(verified.notes).toEqual([expect.stringContaining('no longer has the run')]);
  });
});

describe('verifying a run that was copied to another bucket', () => {
  const copied = (entries: readonly PageEntry[]) => entries.map((entry) => ({ ...entry, revision: 'of the original' }));

  it('finds nothing, as its pages have the same bytes', async () => {
    const bench = await aPublishedRun();
    expect((await verify(bench, logWith(bench, copied))).findings).toEqual([]);
    edit(bench, pageOf(bench, 2), (text) => text.replace('r3', 'r9'));
    expect((await verify(bench, logWith(bench, copied))).findings).toEqual([
      { page: 2, message: expect.stringContaining('has other content') },
    ]);
  });
});

/** What is done to the object whose key ends like this; undefined: it is deleted. */
type Damage = readonly [what: string, ends: string, change: (text: string) => string | undefined, finding: RegExp];

async function findingsAfter(bench: Bench, [, ends, change]: Damage): Promise<readonly string[]> {
  const [, folder = '', run] = /^(.*run=([^/]+)\/)/.exec(keyOf(bench, 'manifest.json')) ?? [];
  const key = keyOf(bench, ends) || `${folder}${ends}`;
  const before = bench.store.objects.get(key) ?? '';
  const after = change(before);
  expect(after).not.toBe(before);
  if (after === undefined) bench.store.objects.delete(key);
  else bench.store.objects.set(key, after);
  return (await verify(bench, bench.log, run)).findings.map(({ message }) => message);
}

const replaced = (from: string | RegExp, to: string) => (text: string) => text.replace(from, to);
const deleted = () => undefined;
const added = () => '<r/>';
const otherDigitIn = (field: string) => (text: string) =>
  text.replace(new RegExp(`("${field}": "\\d{3})(\\d)`), (_, before, digit) => `${before}${digit === '9' ? 8 : 9}`);

describe('verifying a changed run', () => {
  it.each<Damage>([
    ['a page is missing', 'page-000002.xml', deleted, /page-000002\.xml is missing$/],
    ['a page was truncated', 'page-000003.xml', () => '<r/>', /page-000003\.xml has 4 bytes, not \d+$/],
    ['a page was extended', 'page-000003.xml', (text) => `${text}\n`, /page-000003\.xml has more than \d+ bytes$/],
    [
      'a page was edited without changing its size',
      'page-000001.xml',
      replaced('r1', 'r9'),
      /page-000001\.xml has other content: its SHA-256 is [0-9a-f]{64}, not [0-9a-f]{64}$/,
    ],
    ['there is a page after the last one', 'page-000004.xml', added, /page-000004\.xml exists, but neither/],
    [
      'two pages were swapped in the manifest',
      'manifest.json',
      replaced(/( {4}\{"page":1.*\n)( {4}\{"page":2.*\n)/, '$2$1'),
      /manifest\.json: it lists page 2 where page 1 is expected/,
    ],
    [
      'a page was removed from the manifest',
      'manifest.json',
      replaced(/\n {4}\{"page":2.*\n/, '\n'),
      /manifest\.json: it lists page 3 where page 2 is expected/,
    ],
    [
      'the manifest was truncated',
      'manifest.json',
      (text) => text.slice(0, -20),
      /manifest .*manifest\.json does not match what this exporter wrote: it/,
    ],
    ['the totals were edited', 'manifest.json', replaced('"pages": 3', '"pages": 4'), /the totals\.pages 4, not 3$/],
    ['its since is another', 'manifest.json', otherDigitIn('since'), /its since, .* is not that of its filter/],
    ['its startedAt is another', 'manifest.json', otherDigitIn('startedAt'), /its startedAt, .*, is not that of its/],
    ['its run is another', 'manifest.json', otherDigitIn('run'), /its export, run and date belong to/],
    [
      'its serviceStartedAt is another',
      'manifest.json',
      otherDigitIn('serviceStartedAt'),
      /the serviceStartedAt .*, not /,
    ],
    [
      'its serviceCompletedAt is another',
      'manifest.json',
      otherDigitIn('serviceCompletedAt'),
      /the serviceCompletedAt .*, not /,
    ],
    [
      'latest.json was set back',
      'latest.json',
      replaced(/"sequence":\d+/, '"sequence":1'),
      /latest\.json points to run .* older/,
    ],
    ['latest.json is missing', 'latest.json', deleted, /latest\.json is missing$/],
    ['run.json is missing', 'run.json', deleted, /run\.json is missing, so tables of runs lack this run$/],
    ['run.json is not JSON', 'run.json', () => '{', /run\.json does not match what this exporter wrote/],
    ['run.json lacks a field', 'run.json', replaced('"sequence"', '"other"'), /run\.json does not match what this/],
    [
      'run.json has another total',
      'run.json',
      replaced('"reports":5', '"reports":6'),
      /run\.json is not that of the manifest, which has the reports 5, not 6$/,
    ],
    [
      'run.json belongs to another manifest',
      'run.json',
      replaced(/(?<="manifest":".*)-\d{6}(?=\/manifest)/, '-ffffff'),
      /run\.json is not that of the manifest, which has the manifest .*, not ".*-ffffff\/manifest.json"$/,
    ],
  ])('reports that %s', async (...damage) => {
    expect(await findingsAfter(await aPublishedRun(), damage)).toContainEqual(expect.stringMatching(damage[3]));
  });

  it.each<[string, (entries: PageEntry[]) => readonly PageEntry[], RegExp]>([
    ['an entry is missing', (entries) => entries.filter(({ page }) => page !== 2), /page 3 follows page 1/],
    ['the last entry is missing', (entries) => entries.slice(0, 2), /ends after page 2, but the manifest lists 3/],
    [
      'there is an entry after the last page',
      (entries) => [...entries, ...changed(entries, 3, { page: 4 }).slice(-1)],
      /continues after page 3/,
    ],
    [
      'the last page has a next cursor',
      (entries) => changed(entries, 3, { nextCursor: aCursor() }),
      /page 3 has the nextCursor .*, not null$/,
    ],
    ['a cursor differs', (entries) => changed(entries, 2, { cursor: aCursor() }), /not requested with the cursor/],
    [
      'a hash differs',
      (entries) => changed(entries, 2, { sha256: 'f'.repeat(64) }),
      /page 2 has the sha256 "f+", not "/,
    ],
    [
      'the transferred bytes differ',
      (entries) => changed(entries, 2, { transferredBytes: 7 }),
      /page 2 has the transferredBytes 7, not undefined$/,
    ],
  ])('reports that in the log %s', async (_, change, message) => {
    const bench = await aPublishedRun();
    const { findings } = await verify(bench, logWith(bench, change));
    expect(findings.map((finding) => finding.message)).toContainEqual(expect.stringMatching(message));
  });

  it('reports a log that cannot be read, and still verifies the pages', async () => {
    const bench = await aPublishedRun();
    edit(bench, pageOf(bench, 3), () => '');
    const log: Bench['log'] = {
      ...bench.log,
      entries: (run) =>
        Readable.from(bench.log.entries(run)).map(() => {
          throw new ExportError('PageConflictError', 'the entry of page 1 was edited');
        }),
    };
    const messages = (await verify(bench, log)).findings.map(({ message }) => message);
    expect(messages).toEqual([expect.stringContaining('was edited'), expect.stringContaining('has 0 bytes')]);
  });

  test.prop([fc.nat(), fc.integer({ min: 1, max: 255 }), fc.constantFrom(undefined, 'gzip' as const)])(
    'reports every changed byte of a page, and of its line in the manifest',
    async (position, bits, compression) => {
      const bench = await aPublishedRun(compression);
      const manifest = keyOf(bench, 'manifest.json');
      const pagesStart = (bench.store.objects.get(manifest) ?? '').indexOf('"pages": [');
      const pages = [1, 2, 3].map((page): readonly [string, number] => [pageOf(bench, page), 0]);
      const objects = [...pages, [manifest, pagesStart] as const];
      const [key = '', start = 0] = objects[position % objects.length] ?? [];
      const text = bench.store.objects.get(key) ?? '';
      const at = start + (Math.floor(position / objects.length) % (text.length - start));
      const flipped = String.fromCharCode(text.charCodeAt(at) ^ bits);
      bench.store.objects.set(key, text.slice(0, at) + flipped + text.slice(at + 1));
      const found = await verify(bench).catch((error: unknown) => {
        if (!isExportError(error, 'PageConflictError')) throw error;
        return { findings: [error.message] };
      });
      const isSameJson = /\s/.test(flipped) && /\s/.test(text[at] ?? '');
      if (!isSameJson) expect(found.findings.length).toBeGreaterThan(0);
    },
  );
});

describe('verifying a run with compressed pages', () => {
  const changeObject = (bench: Bench, page: number, change: (object: Buffer) => Buffer) =>
    edit(bench, pageOf(bench, page), (object) => change(Buffer.from(object, 'latin1')).toString('latin1'));
  /** Makes the manifest name the object as it is now, as if it had been written like this. The log has expired. */
  async function verifyAsWritten(bench: Bench, page: number) {
    const object = Buffer.from(bench.store.objects.get(pageOf(bench, page)) ?? '', 'latin1');
    edit(bench, keyOf(bench, 'manifest.json'), (text) =>
      text.replace(
        new RegExp(`(\\{"page":${page},.*"storedBytes":)\\d+(,"storedSha256":")[0-9a-f]+`),
        `$1${object.length}$2${sha256Of(object)}`,
      ),
    );
    return await verify(
      bench,
      logWith(bench, () => []),
    );
  }

  it('finds nothing, and returns the totals of the pages before they were compressed', async () => {
    const [plain, compressed] = [await aPublishedRun(), await aPublishedRun('gzip')];
    const { bytes } = await verify(plain);
    expect(await verify(compressed)).toMatchObject({ findings: [], notes: [], pages: 3, reports: 5, bytes });
  });

  it.each<[string, (object: Buffer) => Buffer, RegExp]>([
    ['was truncated', (object) => object.subarray(0, -9), /\.xml\.gz is not a complete gzip file \(unexpected end of/],
    ['has no trailer', (object) => object.subarray(0, -8), /is not a complete gzip file/],
    ['has bytes after its end', (object) => Buffer.concat([object, Buffer.from('\n')]), /has more than \d+ bytes$/],
    ['has a second file', (object) => Buffer.concat([object, gzipSync('')]), /has more than \d+ bytes$/],
    ['decompresses to 1 MB', () => gzipSync(Buffer.alloc(1e6)), /has more than \d+ bytes$/],
    [
      'has a wrong checksum',
      (object) => Buffer.from(object.map((byte, index) => (index === object.length - 8 ? byte ^ 1 : byte))),
      /is not a complete gzip file \(incorrect data check\)$/,
    ],
    ['was compressed again', (object) => gzipSync(gunzipSync(object), { level: 0 }), /has more than \d+ bytes$/],
    ['is not compressed', () => Buffer.from('<reports/>'), /is not a complete gzip file \(incorrect header check\)$/],
  ])('reports a page that %s', async (_, change, message) => {
    const bench = await aPublishedRun('gzip');
    changeObject(bench, 2, change);
    expect((await verify(bench)).findings).toEqual([{ page: 2, message: expect.stringMatching(message) }]);
  });

  it.each<[string, (object: Buffer) => Buffer, RegExp]>([
    ['is not complete', (object) => object.subarray(0, -9), /is not a complete gzip file/],
    ['is that of another page', () => gzipSync('<reports/>'), /has 10 bytes after decompression, not \d+$/],
    ['decompresses to 1 MB', () => gzipSync(Buffer.alloc(1e6)), /has more than \d+ bytes after decompression$/],
    [
      'has another report',
      (object) => gzipSync(gunzipSync(object).toString().replace('r3', 'r9')),
      /has other content after decompression: its SHA-256 is [0-9a-f]{64}, not [0-9a-f]{64}$/,
    ],
    [
      'is followed by another page',
      (object) => Buffer.concat([object, gzipSync('<reports/>')]),
      /has more than \d+ bytes after decompression$/,
    ],
  ])('reports a page that %s, even if the manifest has the checksum of its object', async (_, change, message) => {
    const bench = await aPublishedRun('gzip');
    changeObject(bench, 2, change);
    const { findings } = await verifyAsWritten(bench, 2);
    expect(findings.filter(({ page }) => page === 2)).toContainEqual({
      page: 2,
      message: expect.stringMatching(message),
    });
  });

  it('reports pages in another form than the manifest says', async () => {
    const bench = await aPublishedRun('gzip');
    edit(bench, keyOf(bench, 'manifest.json'), (text) => text.replace('  "compression": "gzip",\n', ''));
    const messages = (await verify(bench)).findings.map(({ message }) => message);
    expect(messages).toContainEqual(expect.stringMatching(/page 1 has the key .*page-000001\.xml\.gz$/));
  });
});

describe('verifying an unfinished run', () => {
  async function anUnfinishedRun() {
    const bench = anExportBench({
      reports: someReports(5),
      size: 2,
      script: (_, nth) => {
        if (nth === 3) throw new ExportError('RequestRejectedError', 'no');
        return undefined;
      },
    });
    expect((await bench.start()).status).toBe('failed');
    const { active } = await bench.state();
    if (active === undefined) throw new Error('there is no unfinished run');
    const verify = async (changed: Partial<Pick<Bench, 'store' | 'log'>> = {}) =>
      await verifyRun({ store: bench.store, log: bench.log, onPage() {}, ...changed }, active);
    /** Stores a page as an invocation does that is interrupted before it logs the page. */
    const store = async (page: number, cursor: Cursor | null, changed: Partial<PageIdentity> = {}) => {
      const identity = { key: pageKey(active, { page }), run: active.run, page, cursor, ...changed };
      await putPage(bench.store, identity, aFetchedPage({ nextCursor: page < 9 ? cursorAt(100 + page) : null }));
    };
    return { bench, active, verify, store };
  }

  it('accepts pages that the run stores in the meantime', async () => {
    const { bench, active, verify, store } = await anUnfinishedRun();
    const pages: PageEntry[] = [];
    for await (const entry of bench.log.entries(active)) pages.push(entry);
    // The entries were read before the last page was logged, and the folder already has the page after it.
    const log: Bench['log'] = {
      ...bench.log,
      entries: async function* () {
        yield* pages.slice(0, -1);
      },
    };
    await store(pages.length + 1, pages.at(-1)?.nextCursor ?? null);
    expect((await verify({ log })).findings).toEqual([]);
  });

  it('reports a page that was replaced by one with the same bytes, which is not published', async () => {
    const { bench, verify } = await anUnfinishedRun();
    const log = logWith(bench, (entries) => changed(entries, 2, { revision: 'other' }));
    expect((await verify({ log })).findings).toEqual([
      { page: 2, message: expect.stringMatching(/was replaced: its revision is .*, but other was logged/) },
    ]);
  });

  it('verifies the pages it has, and notes that it is not published', async () => {
    const { verify } = await anUnfinishedRun();
    const notes = [expect.stringContaining('not published')];
    expect(await verify()).toMatchObject({ pages: 2, reports: 4, notes, findings: [] });
  });

  it('accepts stored pages that are not logged yet, each with the cursor of its predecessor', async () => {
    const { verify, store } = await anUnfinishedRun();
    await store(3, cursorAt(4));
    await store(4, cursorAt(103));
    await store(5, cursorAt(104));
    expect((await verify()).findings).toEqual([]);
    await store(7, cursorAt(106));
    expect((await verify()).findings).toEqual([
      { page: 7, message: expect.stringContaining('page-000007.xml exists') },
    ]);
  });

  it.each([
    ['another cursor', 3, cursorAt(77), {}],
    ['another run', 3, cursorAt(4), { run: aRunId() }],
    ['another page', 3, cursorAt(4), { page: 9 }],
    ['no predecessor', 4, cursorAt(103), {}],
  ])('reports a stored page with %s', async (_, page, cursor, changed) => {
    const { verify, store } = await anUnfinishedRun();
    await store(page, cursor, changed);
    expect((await verify()).findings).toEqual([
      { page, message: expect.stringContaining(`page-00000${page}.xml exists`) },
    ]);
  });

  it('reports a page after its last one', async () => {
    const { verify, store } = await anUnfinishedRun();
    await store(3, cursorAt(4));
    for (const page of [4, 5, 6, 7, 8, 9, 10]) await store(page, cursorAt(99 + page));
    expect((await verify()).findings).toEqual([
      { page: 10, message: expect.stringContaining('page-000010.xml exists') },
    ]);
  });

  it('verifies its folder if its log cannot be read, however many pages there are', async () => {
    const { bench, active, verify } = await anUnfinishedRun();
    const unreadable = new ExportError('PageConflictError', 'The log was edited');
    const log: Bench['log'] = {
      ...bench.log,
      async *entries() {
        yield* [];
        throw unreadable;
      },
      async last() {
        throw unreadable;
      },
    };
    const folder = pageKey(active, { page: 1 }).replace(/[^/]+$/, '');
    const store = {
      ...bench.store,
      find: async () => undefined,
      async *list() {
        for (let page = 1; page <= 200_000; page += 1) {
          yield { key: `${folder}page-${String(page).padStart(6, '0')}.xml`, bytes: 1, revision: null };
        }
      },
    };
    const { findings, findingCount } = await verify({ store, log });
    expect(findingCount).toBe(200_001);
    expect(findings).toHaveLength(100);
    expect(findings[0]?.message).toBe('The log was edited');
  });

  it('reports an unreadable page once, and the pages after it', async () => {
    const { bench, active, verify, store } = await anUnfinishedRun();
    for (const [page, cursor] of [
      [3, 4],
      [4, 103],
      [5, 104],
    ] as const)
      await store(page, cursorAt(cursor));
    const edited = pageKey(active, { page: 4 });
    const find = async (key: string) => {
      if (key === edited) throw new ExportError('PageConflictError', 'page 4 was edited');
      return await bench.store.find(key);
    };
    expect((await verify({ store: { ...bench.store, find } })).findings).toEqual([
      { page: 4, message: 'page 4 was edited' },
      { page: 5, message: expect.stringContaining('page-000005.xml exists') },
    ]);
  });

  it('accepts stored pages before any is logged', async () => {
    const log = createMemoryLog();
    const bench = anExportBench({ reports: someReports(9), size: 2, limits: { pagesPerInvocation: 25 } });
    const down = bench.with({
      log: {
        ...log,
        async append() {
          while (bench.store.objects.size < 4) await new Promise(setImmediate);
          throw new ExportError('ConfigurationError', 'no log');
        },
      },
    });
    expect((await down.start()).status).toBe('failed');
    const { active } = await down.state();
    const deps = { store: down.store, log, onPage() {} };
    expect(active && (await verifyRun(deps, active))).toMatchObject({ pages: 0, findings: [] });
  });
});

describe('verifying a run with several slices', () => {
  const since = '2026-11-01T00:00:00Z';
  const bounds = { since, until: '2026-11-01T00:08:00Z' };
  /** Two slices of two pages each. The second one is in its second attempt: its cursor was rejected once. */
  async function aSlicedRun(): Promise<Bench> {
    let rejections = 0;
    const bench = anExportBench({
      reports: someReports(8),
      size: 2,
      script: (request) => {
        const isRejected = request.since !== since && request.cursor !== null && rejections === 0;
        if (!isRejected) return undefined;
        rejections += 1;
        throw new ExportError('CursorRejectedError', 'gone');
      },
    });
    expect((await bench.start({ ...bounds, slice: 'PT4M' })).status).toBe('completed');
    return bench;
  }
  const manifestOf = (bench: Bench) => keyOf(bench, 'manifest.json');
  const verifySliced = async (bench: Bench, log: Bench['log'] = bench.log) =>
    await verify(bench, log, /run=([^/]+)/.exec(manifestOf(bench))?.[1]);

  it('finds nothing, and notes the pages of an earlier attempt', async () => {
    const bench = await aSlicedRun();
    const keys = [...bench.store.objects.keys()].map((key) => key.replace(/.*\//, ''));
    expect(keys.filter((key) => key.startsWith('page-0002'))).toEqual([
      'page-0002-000001.xml',
      'page-0002.2-000001.xml',
      'page-0002.2-000002.xml',
    ]);
    const verified = await verifySliced(bench);
    expect(verified).toMatchObject({ findings: [], pages: 4, reports: 8 });
    expect(verified.notes).toEqual([
      '1 page of an earlier attempt of slices left over in its folder: the run does not contain them',
    ]);
    const expired = await verifySliced(bench, { ...bench.log, mayHaveExpired: () => true });
    expect(expired).toMatchObject({
      findings: [],
      notes: [expect.stringContaining('no longer has the run'), expect.anything()],
    });
  });

  it.each<Damage>([
    [
      'a slice has other totals than its pages',
      'manifest.json',
      replaced(/("until": "2026-11-01T00:04:00Z",\n\s+"pages": )2/, '$13'),
      /it has the slices\.0\.pages 3, not 2$/,
    ],
    [
      'there is a gap between two slices',
      'manifest.json',
      replaced('"since": "2026-11-01T00:04:00Z"', '"since": "2026-11-01T00:05:00Z"'),
      /it has the slices\.1\.since "2026-11-01T00:05:00Z", not "2026-11-01T00:04:00Z"$/,
    ],
    [
      'the last slice ends before the run',
      'manifest.json',
      replaced(/"until": "2026-11-01T00:08:00Z"(,\n\s+"pages": 2)/, '"until": "2026-11-01T00:07:00Z"$1'),
      /it has the slices\.1\.until "2026-11-01T00:07:00Z", not "2026-11-01T00:08:00Z"$/,
    ],
    [
      'a page is said to be of another slice',
      'manifest.json',
      replaced('"page":2,"slice":1', '"page":2,"slice":2'),
      /page 2 has the key .*page-0001-000002\.xml/,
    ],
    ['no page is of a slice', 'manifest.json', replaced(/"slice":2/g, '"slice":3'), /page 3 is of slice 3, not 2$/],
    ['it lacks a slice', 'manifest.json', replaced(/,\n.*"page":3.*\n.*"page":4.*/, ''), /its slices are not those of/],
    [
      'it lists the page of an earlier attempt',
      'manifest.json',
      replaced('page-0002.2-000002', 'page-0002-000002'),
      /page 4 has the key .*page-0002-000002\.xml/,
    ],
    ['a slice has a further page', 'page-0001-000003.xml', added, /page-0001-000003\.xml exists, but neither/],
    ['there is a page of a later attempt', 'page-0001.2-000002.xml', added, /page-0001\.2-000002\.xml exists, but/],
    ['the summary of its bounds is missing', 'bounded.json', deleted, /bounded\.json is missing/],
    ['it began at another time', 'manifest.json', otherDigitIn('serviceStartedAt'), /the serviceStartedAt .*, not /],
  ])('reports that %s', async (...damage) => {
    expect(await findingsAfter(await aSlicedRun(), damage)).toContainEqual(expect.stringMatching(damage[3]));
  });

  it('reports a slice that is missing in the log', async () => {
    const bench = await aSlicedRun();
    const { findings } = await verifySliced(bench, {
      ...bench.log,
      async *entries(chain) {
        if (chain.slice !== 1) yield* bench.log.entries(chain);
      },
    });
    expect(findings).toEqual([
      { page: 1, message: 'The page log ends after page 0 of slice 1, but the manifest lists 2 pages' },
    ]);
  });

  it('verifies an unfinished one by its slices', async () => {
    const bench = anExportBench({
      reports: someReports(8),
      size: 2,
      script: (request) => {
        if (request.since === since && request.cursor !== null) throw new ExportError('RequestRejectedError', 'no');
        return undefined;
      },
    });
    expect((await bench.start({ ...bounds, slice: 'PT4M' })).status).toBe('failed');
    const states = await collect(bench.log.boundedStates(bench.deps.definition.name));
    const active = states[0]?.active;
    if (active === undefined) throw new Error('there is no unfinished run');
    const verifyIt = async () => await verifyRun({ store: bench.store, log: bench.log, onPage() {} }, active);
    expect(await verifyIt()).toMatchObject({ pages: 3, reports: 6, findings: [] });
    bench.store.objects.set(pageKey(active, { slice: 2, attempt: 1, page: 3 }), '<r/>');
    expect((await verifyIt()).findings).toEqual([
      { page: 3, message: expect.stringContaining('page-0002-000003.xml exists') },
    ]);
  });
});
