/** A run that is read again, from its manifest to its last byte: what was changed since is found, and named where it lies. */

import { Readable } from 'node:stream';
import { fc, test } from '@fast-check/vitest';
import { describe, expect, it } from 'vitest';
import { ExportError, isExportError } from '../../../lib/core/errors.ts';
import type { Cursor, PageEntry } from '../../../lib/core/model.ts';
import type { Finding } from '../../../lib/core/operations/expected-pages.ts';
import { type VerifiedRun, verifyPublishedRun, verifyUnpublishedRun } from '../../../lib/core/operations/verify-run.ts';
import type { PageIdentity, PageLog } from '../../../lib/core/ports.ts';
import { pageKey } from '../../../lib/core/storage/keys.ts';
import { openPublishedRun } from '../../../lib/core/storage/published-runs.ts';
import { aCursor, aFetchedPage, aRunId } from '../../support/builders.ts';
import { anExportBench, type Bench } from '../../support/export-bench.ts';
import { createMemoryLog } from '../../support/memory-adapters.ts';
import { cursorAt, someReports } from '../../support/scripted-service.ts';

/** Three pages, published. */
async function aPublishedRun(): Promise<Bench> {
  const bench = anExportBench({ reports: someReports(5), size: 2 });
  expect((await bench.start()).status).toBe('completed');
  return bench;
}

async function audit(bench: Bench, log: PageLog = bench.log): Promise<VerifiedRun & { readonly findings: Finding[] }> {
  const findings: Finding[] = [];
  const deps = { store: bench.store, log, onFinding: (each: Finding) => findings.push(each), onPage: () => {} };
  const audited = await verifyPublishedRun(deps, await openPublishedRun(bench.store, bench.deps.definition.name));
  return { ...audited, findings };
}
const keyOf = ({ store }: Bench, ends: string) => [...store.objects.keys()].find((key) => key.endsWith(ends)) ?? '';
const pageOf = (bench: Bench, page: number) => keyOf(bench, `/page-00000${page}.xml`);
const edit = (bench: Bench, key: string, change: (text: string) => string) => {
  const before = bench.store.objects.get(key) ?? '';
  expect(change(before)).not.toBe(before);
  bench.store.objects.set(key, change(before));
};
/** The log as it was, but for what `change` makes of its entries. */
const logWith = (bench: Bench, change: (entries: PageEntry[]) => readonly PageEntry[]): PageLog => ({
  ...bench.log,
  async *entries(run) {
    const entries: PageEntry[] = [];
    for await (const entry of bench.log.entries(run)) entries.push(entry);
    yield* change(entries);
  },
});
const changed = (entries: PageEntry[], page: number, change: Partial<PageEntry>) =>
  entries.map((entry) => (entry.page === page ? { ...entry, ...change } : entry));

describe('a run that nobody touched', () => {
  it('is found as it was exported, with what it amounts to', async () => {
    expect(await audit(await aPublishedRun())).toMatchObject({ findings: [], notes: [], pages: 3, reports: 5 });
  });

  it('is found so without a report, and behind newer runs', async () => {
    const bench = anExportBench({ reports: [] });
    await bench.start();
    expect(await audit(bench)).toMatchObject({ findings: [], pages: 1, reports: 0 });
    const first = bench.store.objects.get(keyOf(bench, 'latest.json')) ?? '';
    bench.pass(60_000);
    await bench.start();
    const findings: Finding[] = [];
    const deps = {
      store: bench.store,
      log: bench.log,
      onFinding: (each: Finding) => findings.push(each),
      onPage() {},
    };
    await verifyPublishedRun(deps, await openPublishedRun(bench.store, bench.deps.definition.name, JSON.parse(first).run));
    expect(findings).toEqual([]);
  });

  it('is checked by its manifest alone where the log has expired, and that is said', async () => {
    const bench = await aPublishedRun();
    const audited = await audit(
      bench,
      logWith(bench, () => []),
    );
    expect(audited).toMatchObject({ findings: [], pages: 3 });
    expect(audited.notes).toEqual([expect.stringContaining('no longer holds the run')]);
  });
});

describe('what was changed is found', () => {
  it.each<[string, (bench: Bench) => unknown, RegExp]>([
    ['a page is gone', (bench) => bench.store.objects.delete(pageOf(bench, 2)), /page-000002\.xml is gone$/],
    [
      'a page was cut',
      (bench) => edit(bench, pageOf(bench, 3), () => '<r/>'),
      /page-000003\.xml has 4 bytes, not \d+$/,
    ],
    [
      'a page was edited to the same size',
      (bench) => edit(bench, pageOf(bench, 1), (text) => text.replace('r1', 'r9')),
      /page-000001\.xml has other bytes: their SHA-256 is [0-9a-f]{64}, not [0-9a-f]{64}$/,
    ],
    [
      'a page lies behind the last one',
      (bench) => bench.store.objects.set(pageOf(bench, 1).replace('page-000001', 'page-000004'), '<r/>'),
      /page-000004\.xml is there, but neither/,
    ],
    [
      'two pages changed places in the manifest',
      (bench) =>
        edit(bench, keyOf(bench, 'manifest.json'), (text) => {
          const lines = text.split('\n');
          const at = lines.indexOf('  "pages": [') + 1;
          const [one = '', two = ''] = lines.slice(at, at + 2);
          return [...lines.slice(0, at), two, one, ...lines.slice(at + 2)].join('\n');
        }),
      /manifest\.json: page 2 stands where page 1 should/,
    ],
    [
      'a page was taken out of the manifest',
      (bench) => edit(bench, keyOf(bench, 'manifest.json'), (text) => text.replace(/\n {4}\{"page":2.*\n/, '\n')),
      /manifest\.json: page 3 stands where page 2 should/,
    ],
    [
      'the manifest ends early',
      (bench) => edit(bench, keyOf(bench, 'manifest.json'), (text) => text.slice(0, -20)),
      /manifest .*manifest\.json is not as this exporter wrote it: it/,
    ],
    [
      'the totals were edited',
      (bench) => edit(bench, keyOf(bench, 'manifest.json'), (text) => text.replace('"pages": 3', '"pages": 4')),
      /its totals say 4 pages, its pages come to 3/,
    ],
    ...[
      ['since', /its since, .* is not that of its filter/],
      ['startedAt', /it says that the run began at/],
      ['run', /it says of itself that it is/],
      ['serviceStartedAt', /its serviceStartedAt is not that of page 1/],
      ['serviceCompletedAt', /its serviceCompletedAt is not that of page 3/],
    ].map(([field, message]): [string, (bench: Bench) => unknown, RegExp] => [
      `the head of the manifest says another ${String(field)}`,
      (bench) =>
        edit(bench, keyOf(bench, 'manifest.json'), (text) =>
          text.replace(
            new RegExp(`("${String(field)}": "\\d{3})(\\d)`),
            (_, before, digit) => `${before}${digit === '9' ? 8 : 9}`,
          ),
        ),
      message as RegExp,
    ]),
    [
      'latest.json was put back',
      (bench) => edit(bench, keyOf(bench, 'latest.json'), (text) => text.replace(/"sequence":\d+/, '"sequence":1')),
      /latest\.json names run .* which is older/,
    ],
  ])('%s', async (_, change, message) => {
    const bench = await aPublishedRun();
    change(bench);
    expect((await audit(bench)).findings.map((finding) => finding.message)).toContainEqual(
      expect.stringMatching(message),
    );
  });

  it('latest.json is gone, but the run was named', async () => {
    const bench = await aPublishedRun();
    const run = await openPublishedRun(bench.store, bench.deps.definition.name);
    bench.store.objects.delete(keyOf(bench, 'latest.json'));
    const findings: Finding[] = [];
    await verifyPublishedRun(
      { store: bench.store, log: bench.log, onFinding: (each) => findings.push(each), onPage() {} },
      run,
    );
    expect(findings).toEqual([{ page: null, message: expect.stringMatching(/latest\.json is gone$/) }]);
  });

  it.each<[string, (entries: PageEntry[]) => readonly PageEntry[], RegExp]>([
    ['an entry is missing', (entries) => entries.filter(({ page }) => page !== 2), /page 3 follows page 1/],
    ['the last entry is missing', (entries) => entries.slice(0, 2), /ends behind page 2, the manifest has 3/],
    [
      'the log goes on',
      (entries) => [...entries, ...changed(entries, 3, { page: 4 }).slice(-1)],
      /goes on behind page 3/,
    ],
    [
      'the log says it is not over',
      (entries) => changed(entries, 3, { nextCursor: aCursor() }),
      /goes on with a cursor/,
    ],
    ['a cursor is another', (entries) => changed(entries, 2, { cursor: aCursor() }), /not asked for with the cursor/],
    [
      'a hash is another',
      (entries) => changed(entries, 2, { sha256: 'f'.repeat(64) }),
      /page 2 has sha256 "f+", the man/,
    ],
    [
      'a revision is another',
      (entries) => changed(entries, 2, { revision: 'other' }),
      /other was logged: it was replaced/,
    ],
  ])('in the log: %s', async (_, change, message) => {
    const bench = await aPublishedRun();
    const { findings } = await audit(bench, logWith(bench, change));
    expect(findings.map((finding) => finding.message)).toContainEqual(expect.stringMatching(message));
  });

  it('a log that cannot be read is a finding, and its pages are looked at all the same', async () => {
    const bench = await aPublishedRun();
    edit(bench, pageOf(bench, 3), () => '');
    const log: PageLog = {
      ...bench.log,
      entries: (run) =>
        Readable.from(bench.log.entries(run)).map(() => {
          throw new ExportError('PageConflictError', 'the entry of page 1 was edited');
        }),
    };
    const messages = (await audit(bench, log)).findings.map(({ message }) => message);
    expect(messages).toEqual([expect.stringContaining('was edited'), expect.stringContaining('has 0 bytes')]);
  });

  test.prop([fc.nat(), fc.integer({ min: 1, max: 255 })])(
    'whichever byte of a page or of its line in the manifest it is',
    async (place, bits) => {
      const bench = await aPublishedRun();
      const manifest = keyOf(bench, 'manifest.json');
      const from = (bench.store.objects.get(manifest) ?? '').indexOf('"pages": [');
      const pages = [1, 2, 3].map((page): readonly [string, number] => [pageOf(bench, page), 0]);
      const places = [...pages, [manifest, from] as const];
      const [key = '', start = 0] = places[place % places.length] ?? [];
      const text = bench.store.objects.get(key) ?? '';
      const at = start + (Math.floor(place / places.length) % (text.length - start));
      const flipped = String.fromCharCode(text.charCodeAt(at) ^ bits);
      bench.store.objects.set(key, text.slice(0, at) + flipped + text.slice(at + 1));
      const found = await audit(bench).catch((error: unknown) => {
        if (!isExportError(error, 'PageConflictError')) throw error;
        return { findings: [error.message] };
      });
      const isJsonAlike = /\s/.test(flipped) && /\s/.test(text[at] ?? '');
      if (!isJsonAlike) expect(found.findings.length).toBeGreaterThan(0);
    },
  );
});

describe('an unfinished run', () => {
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
    const { active } = await bench.head();
    if (active === undefined) throw new Error('nothing is unfinished');
    const findings: Finding[] = [];
    const check = () =>
      verifyUnpublishedRun(
        { store: bench.store, log: bench.log, onFinding: (each) => findings.push(each), onPage() {} },
        active,
      );
    /** As an invocation does that is cut off before it logs the page. */
    const store = async (page: number, cursor: Cursor | null, changed: Partial<PageIdentity> = {}) => {
      const identity = { key: pageKey(active, page), run: active.run, page, cursor, ...changed };
      await bench.store.put(identity, aFetchedPage({ nextCursor: page < 9 ? cursorAt(100 + page) : null }));
    };
    return { bench, active, findings, check, store };
  }

  it('may come further while it is looked at', async () => {
    const { bench, active, findings, store } = await anUnfinishedRun();
    const pages: PageEntry[] = [];
    for await (const entry of bench.log.entries(active)) pages.push(entry);
    // As the log was when it was read: before its last page, and the folder has one more than that by now.
    const log: PageLog = {
      ...bench.log,
      entries: async function* () {
        yield* pages.slice(0, -1);
      },
    };
    await store(pages.length + 1, pages.at(-1)?.nextCursor ?? null);
    const onFinding = (each: Finding) => findings.push(each);
    await verifyUnpublishedRun({ store: bench.store, log, onFinding, onPage() {} }, active);
    expect(findings).toEqual([]);
  });

  it('is looked at as far as it has come, and said not to be published', async () => {
    const { findings, check } = await anUnfinishedRun();
    expect(await check()).toMatchObject({ pages: 2, reports: 4, notes: [expect.stringContaining('not published')] });
    expect(findings).toEqual([]);
  });

  it('may have pages stored that are not logged yet, as long as each follows from the one before', async () => {
    const { findings, check, store } = await anUnfinishedRun();
    await store(3, cursorAt(4));
    await store(4, cursorAt(103));
    await store(5, cursorAt(104));
    await check();
    expect(findings).toEqual([]);
    await store(7, cursorAt(106));
    await check();
    expect(findings).toEqual([{ page: 7, message: expect.stringContaining('page-000007.xml is there') }]);
  });

  it.each([
    ['another cursor', 3, cursorAt(77), {}],
    ['another run', 3, cursorAt(4), { run: aRunId() }],
    ['another page', 3, cursorAt(4), { page: 9 }],
    ['the last but one', 4, cursorAt(103), {}],
  ])('but none of %s', async (_, page, cursor, changed) => {
    const { findings, check, store } = await anUnfinishedRun();
    await store(page, cursor, changed);
    await check();
    expect(findings).toEqual([{ page, message: expect.stringContaining(`page-00000${page}.xml is there`) }]);
  });

  it('has none behind its last page', async () => {
    const { findings, check, store } = await anUnfinishedRun();
    await store(3, cursorAt(4));
    for (const page of [4, 5, 6, 7, 8, 9, 10]) await store(page, cursorAt(99 + page));
    await check();
    expect(findings).toEqual([{ page: 10, message: expect.stringContaining('page-000010.xml is there') }]);
  });

  it('is looked at however many pages lie behind what can be read of its log', async () => {
    const { bench, active, findings } = await anUnfinishedRun();
    const unreadable = new ExportError('PageConflictError', 'The log was edited');
    const log: PageLog = {
      ...bench.log,
      entries() {
        throw unreadable;
      },
      async last() {
        throw unreadable;
      },
    };
    const folder = pageKey(active, 1).replace(/[^/]+$/, '');
    const store = {
      ...bench.store,
      find: async () => undefined,
      async *list() {
        for (let page = 1; page <= 200_000; page += 1) {
          yield { key: `${folder}page-${String(page).padStart(6, '0')}.xml`, bytes: 1, revision: null };
        }
      },
    };
    await verifyUnpublishedRun({ store, log, onFinding: (each) => findings.push(each), onPage() {} }, active);
    expect(findings).toHaveLength(200_001);
    expect(findings[0]?.message).toBe('The log was edited');
  });

  it('tells once of a page that cannot be read, and of what lies behind it', async () => {
    const { bench, active, findings, store } = await anUnfinishedRun();
    for (const [page, cursor] of [
      [3, 4],
      [4, 103],
      [5, 104],
    ] as const)
      await store(page, cursorAt(cursor));
    const edited = pageKey(active, 4);
    const find = async (key: string) => {
      if (key === edited) throw new ExportError('PageConflictError', 'page 4 was edited');
      return await bench.store.find(key);
    };
    const deps = { store: { ...bench.store, find }, log: bench.log, onPage() {} };
    await verifyUnpublishedRun({ ...deps, onFinding: (each) => findings.push(each) }, active);
    expect(findings).toEqual([
      { page: 4, message: 'page 4 was edited' },
      { page: 5, message: expect.stringContaining('page-000005.xml is there') },
    ]);
  });

  it('may have pages stored before any is logged', async () => {
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
    const { active } = await down.head();
    const findings: Finding[] = [];
    const deps = { store: down.store, log, onFinding: (each: Finding) => findings.push(each), onPage() {} };
    expect(active && (await verifyUnpublishedRun(deps, active))).toMatchObject({ pages: 0 });
    expect(findings).toEqual([]);
  });
});
