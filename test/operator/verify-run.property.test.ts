import { gunzipSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { ExportError, isExportError } from '../../lib/core/errors.ts';
import type { LogEntry, PageEntry, Run } from '../../lib/core/model.ts';
import { type VerifiedRun, verifyRun, verifyUnfinishedRun } from '../../lib/operator/verify-run.ts';
import { pageKey } from '../../lib/core/storage/keys.ts';
import { openPublishedRun, readLatestPointer } from '../../lib/core/storage/published-runs.ts';
import { aCursor, aFetchedPage, collect, putPage, sha256Of } from '../support/builders.ts';
import { anExportBench, type Bench } from '../support/export/export-bench.ts';
import { cursorAt, type Script, someReports } from '../support/export/scripted-service.ts';
import { fc, test } from '../support/property.ts';

/** A published run of three pages. */
async function aPublishedRun(compression?: 'gzip'): Promise<Bench> {
  const bench = anExportBench({ reports: someReports(5), size: 2, definition: { compression } });
  expect((await bench.start()).status).toBe('completed');
  return bench;
}

const onPage = () => {};

async function verify(
  bench: Bench,
  changed: Partial<Pick<Bench, 'store' | 'log'>> = {},
  run?: string,
): Promise<VerifiedRun> {
  const { name } = bench.deps.definition;
  const published = await openPublishedRun(
    bench.store,
    name,
    run ?? (await readLatestPointer(bench.store, name))?.run ?? '',
  );
  return await verifyRun({ store: bench.store, log: bench.log, onPage, ...changed }, published);
}
const keyOf = ({ store }: Bench, ends: string) => [...store.objects.keys()].find((key) => key.endsWith(ends)) ?? '';
const runOf = (bench: Bench) => /run=([^/]+)/.exec(keyOf(bench, 'manifest.json'))?.[1];
const messagesOf = ({ findings }: VerifiedRun) => findings.map(({ message }) => message);

/** A change of the object whose key ends like this, and the finding. undefined: it is deleted. */
type Damage = readonly [ends: string, finding: RegExp, change: (text: string) => string | undefined];

function edit(bench: Bench, ends: string, change: Damage[2]): void {
  const key = keyOf(bench, ends) || keyOf(bench, 'manifest.json').replace('manifest.json', ends);
  const before = bench.store.objects.get(key) ?? '';
  const after = change(before);
  expect(after).not.toBe(before);
  if (after === undefined) bench.store.objects.delete(key);
  else bench.store.objects.set(key, after);
}

/** The bench's log, each entry of which `change` replaces. */
const logWith = (bench: Bench, change: (entry: LogEntry) => LogEntry | undefined): Bench['log'] => {
  async function* changedIn(entries: AsyncIterable<LogEntry>) {
    for await (const entry of entries) {
      const changed = change(entry);
      if (changed !== undefined) yield changed;
    }
  }
  return {
    ...bench.log,
    entries: (chain) => changedIn(bench.log.entries(chain)),
    runEntries: (...run) => changedIn(bench.log.runEntries(...run)),
  };
};
const noEntry = () => undefined;

const replaced = (from: string | RegExp, to: string) => (text: string) => text.replace(from, to);
const deleted = () => undefined;
const added = () => '<r/>';
const otherDigitIn = (field: string) => (text: string) =>
  text.replace(new RegExp(`("${field}": "\\d{3})(\\d)`), (_, before, digit) => `${before}${digit === '9' ? 8 : 9}`);

const lostLog = expect.stringContaining('no longer has the run');

describe('verifying an unchanged run', () => {
  it.each([undefined, 'gzip'] as const)(
    'finds nothing, and returns its totals: compression %s',
    async (compression) => {
      const { bytes } = await verify(await aPublishedRun());
      const verified = await verify(await aPublishedRun(compression));
      expect(verified).toMatchObject({ findings: [], notes: [], pages: 3, reports: 5, bytes });
    },
  );

  it('finds nothing if log and metadata of its pages are lost, as with state.sqlite; with the log, the metadata is missed', async () => {
    const bench = await aPublishedRun();
    const find = async (key: string) =>
      await Promise.reject(new ExportError('PageConflictError', `${key} has no metadata`));
    const store = { ...bench.store, find };
    const lost = await verify(bench, { store, log: logWith(bench, noEntry) });
    expect(lost).toMatchObject({ findings: [], pages: 3, notes: [lostLog] });
    expect((await verify(bench, { store })).findingCount).toBe(3);
  });

  it('finds nothing in a run without reports, nor in one that is not the newest', async () => {
    const bench = anExportBench({ reports: [] });
    await bench.start();
    expect(await verify(bench)).toMatchObject({ findings: [], pages: 1, reports: 0 });
    const first = runOf(bench);
    bench.advance(60_000);
    await bench.start();
    expect((await verify(bench, {}, first)).findings).toEqual([]);
  });

  it.each([false, true])('finds nothing in a run whose job has no reports: log expired %s', async (hasExpired) => {
    const bench = anExportBench({ script: () => ({ kind: 'end', reason: 'empty', status: 200 }) });
    expect((await bench.start()).status).toBe('completed');
    const log = { ...bench.log, mayHaveExpired: () => hasExpired };
    expect(await verify(bench, { log })).toMatchObject({ findings: [], pages: 0, reports: 0 });
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

  it('does not read a log whose entries may have expired', async () => {
    const bench = await aPublishedRun();
    const { startedAt } = JSON.parse(bench.store.objects.get(keyOf(bench, 'manifest.json')) ?? '') as Run;
    const expiring = logWith(bench, () => expect.fail('it was read'));
    const log = { ...expiring, mayHaveExpired: (loggedAt: string) => loggedAt === startedAt };
    expect(await verify(bench, { log })).toMatchObject({ findings: [], pages: 3, notes: [lostLog] });
    edit(bench, 'page-000002.xml', added);
    expect((await verify(bench, { log })).findings).not.toEqual([]);
  });
});

describe('a run whose last page has a cursor that was answered with no page', () => {
  it.each([
    ['with its log', false],
    ['whose log has expired', true],
  ])('has its pages only, and may have one of an attempt that was late: %s', async (_, hasExpired) => {
    const bench = anExportBench({ endStatus: 204 });
    await bench.start();
    const log = { ...bench.log, mayHaveExpired: () => hasExpired };
    const lost = hasExpired ? [lostLog] : [];
    expect(await verify(bench, { log })).toMatchObject({ findings: [], pages: 3, notes: lost });
    edit(bench, 'page-000004.xml', added);
    const left = '1 page of another attempt left over in its folder: the run does not contain them';
    expect(await verify(bench, { log })).toMatchObject({ findings: [], notes: [...lost, left] });
    edit(bench, 'page-000005.xml', added);
    expect(messagesOf(await verify(bench, { log }))).toEqual([expect.stringContaining('page-000005.xml exists')]);
  });

  it('is compared with the end in its log', async () => {
    const bench = anExportBench({ endStatus: 204 });
    await bench.start();
    const changed = (change: object) =>
      logWith(bench, (entry) => (entry.kind === 'end' ? { ...entry, ...change } : entry));
    const verified = await verify(bench, { log: changed({ cursor: cursorAt(9), totals: { reports: 4, bytes: 9 } }) });
    expect(messagesOf(verified)).toEqual([
      'The page log: page 4 was not requested with the cursor that the page before it returned',
    ]);
    const { findings } = await verify(bench, { log: changed({ totals: { reports: 4, bytes: 9 } }) });
    expect(findings).toEqual([{ page: null, message: expect.stringContaining('the totals of page 4') }]);
  });
});

describe('a change of a run', () => {
  it.each<Damage>([
    ['page-000002.xml', /page-000002\.xml is missing$/, deleted],
    ['page-000003.xml', /page-000003\.xml has 4 bytes, not \d+$/, added],
    ['page-000003.xml', /page-000003\.xml has more than \d+ bytes$/, (text) => `${text}\n`],
    ['page-000001.xml', /has other content: its SHA-256 is [0-9a-f]{64}, not [0-9a-f]{64}$/, replaced('r1', 'r9')],
    ['page-000004.xml', /page-000004\.xml exists, but the manifest/, added],
    ['manifest.json', /line 1 has the page 2, not 1/, replaced(/( {4}\{"page":1.*\n)( {4}\{"page":2.*\n)/, '$2$1')],
    ['manifest.json', /the page in line 2 has the page 3, not 2/, replaced(/\n {4}\{"page":2.*\n/, '\n')],
    ['manifest.json', /manifest\.json does not match what this exporter wrote: it/, (text) => text.slice(0, -20)],
    ['manifest.json', /the totals\.pages 4, not 3$/, replaced('"pages": 3', '"pages": 4')],
    ['manifest.json', /its since, .*, is not that of its filter/, otherDigitIn('since')],
    ['manifest.json', /the startedAt .*, not /, otherDigitIn('startedAt')],
    ['manifest.json', /the serviceCompletedAt .*, not /, otherDigitIn('serviceCompletedAt')],
    ['latest.json', /points to this run with the sequence 1, not /, replaced(/"sequence":\d+/, '"sequence":1')],
    [
      'latest.json',
      /points to this run with the manifest ".*-ffffffffffff\/m/,
      replaced(/-\d{12}(?=\/)/, '-ffffffffffff'),
    ],
    ['run.json', /run\.json is missing, so tables of runs lack this run$/, deleted],
    ['run.json', /run\.json does not match what this exporter wrote/, replaced('"sequence"', '"other"')],
    ['run.json', /which has the reports 5, not 6$/, replaced('"reports":5', '"reports":6')],
  ])('is reported: %s %s', async (ends, finding, change) => {
    const bench = await aPublishedRun();
    const run = runOf(bench);
    edit(bench, ends, change);
    expect(messagesOf(await verify(bench, {}, run))).toContainEqual(expect.stringMatching(finding));
  });

  it.each<[RegExp, number, Partial<PageEntry> | undefined]>([
    [/line 2 has the sha256 "[^"]+", not "f+"$/, 2, { sha256: 'f'.repeat(64) }],
    [/line 2 has the transferredBytes undefined, not 9$/, 2, { transferredBytes: 9 }],
    [/the serviceStartedAt .*, not null$/, 1, { serviceTime: null }],
    [/The page log: page 2 was not requested with the cursor /, 2, { cursor: aCursor() }],
    [/The page log: page 2 follows page 0$/, 1, undefined],
    [/The page log: it ends with page 2$/, 3, undefined],
  ])('of its log is reported: %s', async (message, page, change) => {
    const bench = await aPublishedRun();
    const log = logWith(bench, (entry) =>
      entry.page === page ? change && ({ ...entry, ...change } as PageEntry) : entry,
    );
    expect(messagesOf(await verify(bench, { log }))).toContainEqual(expect.stringMatching(message));
  });

  it('is reported if it removes the last page from the manifest and its totals, also if that page is deleted', async () => {
    const bench = await aPublishedRun();
    edit(bench, 'manifest.json', (text) => text.replace(/,\n.*"page":3.*/, '').replace('"pages": 3', '"pages": 2'));
    edit(bench, 'page-000003.xml', deleted);
    expect(messagesOf(await verify(bench))).toContainEqual(
      expect.stringMatching(/manifest\.json: it does not list page 3, which the page log has$/),
    );
  });

  it('does not hide those of pages if its log cannot be read', async () => {
    const bench = await aPublishedRun();
    edit(bench, 'page-000003.xml', () => '');
    const log = logWith(bench, () => {
      throw new ExportError('PageConflictError', 'the entry of page 1 was edited');
    });
    expect(messagesOf(await verify(bench, { log }))).toEqual([
      expect.stringContaining('was edited'),
      expect.stringContaining('has 0 bytes'),
    ]);
  });

  test.prop([fc.nat(), fc.integer({ min: 1, max: 255 }), fc.constantFrom(undefined, 'gzip' as const)])(
    'reports every changed byte of a page, and of its line in the manifest',
    async (position, bits, compression) => {
      const bench = await aPublishedRun(compression);
      const manifest = keyOf(bench, 'manifest.json');
      const pagesStart = (bench.store.objects.get(manifest) ?? '').indexOf('"pages": [');
      const objects = [1, 2, 3].map((page) =>
        [...bench.store.objects.keys()].find((key) => key.includes(`-00000${page}.`)),
      );
      const key = objects[position % 4] ?? manifest;
      const start = key === manifest ? pagesStart : 0;
      const text = bench.store.objects.get(key) ?? '';
      const at = start + (Math.floor(position / 4) % (text.length - start));
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
  async function aChangedRun(change: (object: Buffer) => Buffer) {
    const bench = await aPublishedRun('gzip');
    let object: Buffer = Buffer.of();
    edit(bench, 'page-000002.xml.gz', (text) => {
      object = change(Buffer.from(text, 'latin1'));
      return object.toString('latin1');
    });
    return { bench, object };
  }

  it.each<[RegExp, (object: Buffer) => Buffer]>([
    [/\.xml\.gz is not a complete gzip file \(unexpected end of/, (object) => object.subarray(0, -9)],
    [/has more than \d+ bytes$/, (object) => Buffer.concat([object, gzipSync('')])],
    [/has more than \d+ bytes$/, () => gzipSync(Buffer.alloc(1e6))],
    [/has more than \d+ bytes$/, (object) => gzipSync(gunzipSync(object), { level: 0 })],
    [
      /is not a complete gzip file \(incorrect data check\)$/,
      (object) => Buffer.from(object.map((byte, index) => (index === object.length - 8 ? byte ^ 1 : byte))),
    ],
  ])('reports that a page %s', async (message, change) => {
    const { bench } = await aChangedRun(change);
    expect((await verify(bench)).findings).toEqual([{ page: 2, message: expect.stringMatching(message) }]);
  });

  it.each<[RegExp, (object: Buffer) => Buffer]>([
    [/is not a complete gzip file/, (object) => object.subarray(0, -9)],
    [/has 10 bytes after decompression, not \d+$/, () => gzipSync('<reports/>')],
    [/has more than \d+ bytes after decompression$/, () => gzipSync(Buffer.alloc(1e6))],
    [
      /has other content after decompression: its SHA-256 is [0-9a-f]{64}, not [0-9a-f]{64}$/,
      (object) => gzipSync(gunzipSync(object).toString().replace('r3', 'r9')),
    ],
    [/has more than \d+ bytes after decomp/, (object) => Buffer.concat([object, gzipSync('<reports/>')])],
  ])('reports that a page %s, even if the manifest has the checksum of its object', async (message, change) => {
    const { bench, object } = await aChangedRun(change);
    // The manifest names the object as it is now, as if it had been written like this. The log has expired.
    const page2 = /(\{"page":2,.*"storedBytes":)\d+(,"storedSha256":")[0-9a-f]+/;
    edit(bench, 'manifest.json', replaced(page2, `$1${object.length}$2${sha256Of(object)}`));
    const { findings } = await verify(bench, { log: logWith(bench, noEntry) });
    expect(findings).toContainEqual({ page: 2, message: expect.stringMatching(message) });
  });

  it('reports pages in another form than the manifest says', async () => {
    const bench = await aPublishedRun('gzip');
    edit(bench, 'manifest.json', replaced('  "compression": "gzip",\n', ''));
    expect(messagesOf(await verify(bench))).toContainEqual(
      expect.stringMatching(/page in line 1 has the key .*\.xml\.gz", not .*\.xml"$/),
    );
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
    /** `change` replaces page 2 of the log. */
    const verifyWith = async (change: (entry: LogEntry) => LogEntry | undefined) => {
      const log = logWith(bench, (entry) => (entry.page === 2 ? change(entry) : entry));
      return await verifyUnfinishedRun({ store: bench.store, log, onPage }, active);
    };
    return { bench, active, verifyWith };
  }

  it('verifies the pages it has, and notes that it is not published', async () => {
    const { verifyWith } = await anUnfinishedRun();
    const notes = [expect.stringContaining('as they were logged'), 'It has failed: RequestRejectedError: no'];
    expect(await verifyWith((entry) => entry)).toMatchObject({ pages: 2, reports: 4, notes, findings: [] });
  });

  it('accepts pages that are stored and not logged, as of a run that continues in the meantime', async () => {
    const { bench, active, verifyWith } = await anUnfinishedRun();
    const identity = { key: pageKey(active, { page: 3 }), run: active.run, page: 3, cursor: cursorAt(4) };
    await putPage(bench.store, identity, aFetchedPage({ nextCursor: cursorAt(103) }));
    expect(await verifyWith(noEntry)).toMatchObject({ pages: 1, findings: [] });
  });

  it.each<[RegExp, Partial<PageEntry>]>([
    [/was replaced: its revision is .* instead of other/, { revision: 'other' }],
    [/page 2 was not requested with the cursor/, { cursor: aCursor() }],
  ])('reports what FinishRun would refuse: %s', async (message, change) => {
    const { verifyWith } = await anUnfinishedRun();
    const verified = await verifyWith((entry) => ({ ...entry, ...change }) as LogEntry);
    expect(messagesOf(verified)).toContainEqual(expect.stringMatching(message));
  });
});

describe('findings', () => {
  it('are counted after the first hundred', async () => {
    const bench = await aPublishedRun();
    const folder = keyOf(bench, 'manifest.json').replace('manifest.json', '');
    const store = {
      ...bench.store,
      async *list() {
        for (let page = 4; page <= 200_000; page += 1) {
          yield { key: `${folder}page-${String(page).padStart(6, '0')}.xml`, bytes: 1, revision: null };
        }
      },
    };
    const { findings, findingCount } = await verify(bench, { store });
    expect([findings.length, findingCount]).toEqual([100, 199_997]);
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
  const verifySliced = async (bench: Bench, log = bench.log) => await verify(bench, { log }, runOf(bench));

  it('finds nothing, and notes the pages of an earlier attempt', async () => {
    const bench = await aSlicedRun();
    expect([...bench.store.objects.keys()].filter((key) => key.includes('/page-000002-'))).toHaveLength(1);
    const verified = await verifySliced(bench);
    expect(verified).toMatchObject({ findings: [], pages: 4, reports: 8 });
    expect(verified.notes).toEqual([
      '1 page of another attempt left over in its folder: the run does not contain them',
    ]);
    const expired = await verifySliced(bench, { ...bench.log, mayHaveExpired: () => true });
    expect(expired).toMatchObject({
      findings: [],
      notes: [expect.stringContaining('no longer has the run'), expect.anything()],
    });
  });

  it.each<Damage>([
    [
      'manifest.json',
      /it has the slices\.0\.pages 3, not 2$/,
      replaced(/("until": ".*T00:04:00Z",\n\s+"pages": )2/, '$13'),
    ],
    [
      'manifest.json',
      /the slices\.1\.since ".*T00:05:00Z", not ".*T00:04:00Z"$/,
      replaced('"since": "2026-11-01T00:04', '"since": "2026-11-01T00:05'),
    ],
    ['manifest.json', /line 2 has the slice 2, not 1/, replaced('"page":2,"slice":1', '"page":2,"slice":2')],
    ['manifest.json', /page in line 3 has the slice 3, not 2$/, replaced(/"slice":2/g, '"slice":3')],
    ['manifest.json', /the slicesWithPages 2, not 1$/, replaced(/,\n.*"page":3.*\n.*"page":4.*/, '')],
    [
      'manifest.json',
      /line 4 has the key .*page-000002-000002\.xml/,
      replaced('page-000002.2-000002', 'page-000002-000002'),
    ],
    ['page-000001-000003.xml', /page-000001-000003\.xml exists, but/, added],
    ['page-000001.2-000002.xml', /page-000001\.2-000002\.xml exists, but/, added],
    ['bounded.json', /bounded\.json is missing/, deleted],
  ])('reports a change of %s: %s', async (ends, finding, change) => {
    const bench = await aSlicedRun();
    edit(bench, ends, change);
    expect(messagesOf(await verifySliced(bench))).toContainEqual(expect.stringMatching(finding));
  });

  it.each([false, true])('finds nothing if the job of a slice has no reports: log expired %s', async (hasExpired) => {
    const script: Script = (request) =>
      request.since === since && request.cursor === null ? { kind: 'end', reason: 'empty', status: 200 } : undefined;
    const bench = anExportBench({ reports: someReports(8), size: 2, script });
    expect((await bench.start({ ...bounds, slice: 'PT2M' })).status).toBe('completed');
    const verified = await verifySliced(bench, { ...bench.log, mayHaveExpired: () => hasExpired });
    expect(verified).toMatchObject({ findings: [], pages: 3, reports: 6 });
  });

  it('reports a slice that is missing in the log', async () => {
    const bench = await aSlicedRun();
    const log = logWith(bench, (entry) => (entry.slice === 1 ? undefined : entry));
    expect(messagesOf(await verifySliced(bench, log))).toContainEqual(
      'The page log: page 1 of slice 2 is not of slice 1',
    );
  });

  it('reads the log once, not for each slice', async () => {
    const bench = await aSlicedRun();
    let reads = 0;
    const runEntries: Bench['log']['runEntries'] = (...run) => {
      reads += 1;
      return bench.log.runEntries(...run);
    };
    const entries = () => expect.fail('it was read by slice');
    expect((await verifySliced(bench, { ...bench.log, runEntries, entries })).findings).toEqual([]);
    expect(reads).toBe(1);
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
    const verified = await verifyUnfinishedRun({ store: bench.store, log: bench.log, onPage }, active);
    expect(verified).toMatchObject({ pages: 3, reports: 6, findings: [] });
  });
});
