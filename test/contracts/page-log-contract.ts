/**
 * The contract of the port `PageLog`: every implementation passes these tests.
 * Each test uses its own exports and runs, so that implementations may share one slow storage.
 */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { boundedStateName } from '../../lib/core/bounded-runs.ts';
import { asDocumentRoot } from '../../lib/core/document-root.ts';
import {
  asCursor,
  asRunId,
  type Cursor,
  maxCursorLength,
  type PageEntry,
  type ExportState,
  type LogEntry,
  type RunId,
} from '../../lib/core/model.ts';
import type { ChainRef, PageLog } from '../../lib/core/ports.ts';
import { exportSettingsSchema } from '../../lib/settings/settings.ts';
import { openManifest } from '../../lib/core/storage/manifest-reader.ts';
import { epochMsOf, instantOf } from '../../lib/core/timestamps.ts';
import {
  aCompletion,
  aCursor,
  aFullRun,
  aJobRecord,
  aProgressRecord,
  anEndEntry,
  anExportName,
  anExportRequest,
  anExportState,
  aPageEntry,
  aRun,
  aRunId,
  aWatermark,
  at,
  collect,
} from '../support/builders.ts';
import { mapConcurrently } from '../../lib/core/concurrency.ts';
import { anExportBench } from '../support/export/export-bench.ts';
import { someReports } from '../support/export/scripted-service.ts';
import { anyCodePoint, cases, fc } from '../support/property.ts';

export interface PageLogHarness {
  readonly log: PageLog;
  /** A second adapter on the same storage, as another process would create it. */
  readonly another?: PageLog;
  cleanup(): Promise<void>;
}

export interface PageLogContractOptions {
  /** The number of concurrent writers. */
  readonly writers?: number;
  /** The length of the long run: more entries than the storage returns at once. */
  readonly manyEntries?: number;
}

const bounds = { since: at('2020-01-01T00:00:00Z'), until: at('2020-01-26T00:00:00Z') };

export function pageLogContract(
  name: string,
  makeHarness: () => Promise<PageLogHarness> | PageLogHarness,
  options: PageLogContractOptions = {},
): void {
  const { writers = 8, manyEntries = 2_500 } = options;

  describe(`${name} implements the PageLog port`, () => {
    let harness: PageLogHarness;
    let log: PageLog;
    beforeAll(async () => {
      harness = await makeHarness();
      log = harness.log;
    });
    afterAll(async () => await harness?.cleanup());

    /** Alternates between the two adapters, if the harness has two. */
    const writer = (index: number): PageLog => (index % 2 === 1 && harness.another) || log;
    const concurrently = <T>(write: (log: PageLog, index: number) => Promise<T>): Promise<T[]> =>
      Promise.all(Array.from({ length: writers }, (_, index) => write(writer(index), index)));

    describe('export states', () => {
      it('returns nothing for an export that has never run, and then its state with all fields as it was written', async () => {
        const exportName = anExportName();
        expect(await log.exportState(exportName)).toBeUndefined();
        const state: Required<ExportState> = {
          export: exportName,
          version: 1,
          sequence: 7,
          active: aFullRun({ export: exportName, sequence: 7 }),
          watermark: aWatermark({
            instant: at('2026-11-19T02:00:00.500Z'),
            source: 'https://service.example/api',
            filter: { 'z before a': [1.5, null], a: { '': '' } },
          }),
          documentRoot: asDocumentRoot('{https://service.example/}reports'),
          lastScheduledTime: '2026-11-20T02:00:00Z',
          firstStart: at('2026-11-19T02:00:00Z'),
          lastCompleted: aCompletion('execution-6', { export: exportName }),
          recentExecutions: ['execution-7', 'execution-6'],
          beginning: { stateName: `${exportName}/2025-01-01T00:00:00Z/2026-01-01T00:00:00Z`, execution: 'execution-8' },
          failedStart: { error: 'CursorRejectedError', message: 'responded with 410', at: at('2026-11-20T02:05:00Z') },
        };
        expect(await log.replaceState(state)).toBe(true);
        expect(await log.exportState(exportName)).toEqual(state);
        expect(await writer(1).exportState(exportName)).toEqual(state);
      });

      it.each<[what: string, parts: Partial<ExportState>]>([
        ['null', { active: aRun(), lastCompleted: aCompletion('execution-1', { reports: null, watermark: null }) }],
        ['absent or undefined', { active: undefined, watermark: undefined, lastScheduledTime: undefined }],
      ])('keeps values that are %s', async (_, parts) => {
        const state = anExportState(parts);
        expect(await log.replaceState(state)).toBe(true);
        expect(await log.exportState(state.export)).toEqual(state);
      });

      it('replaces the state as a whole, including fields that the new version lacks', async () => {
        const first = anExportState({ active: aRun(), lastScheduledTime: '2026-11-20T02:00:00Z' });
        const second = anExportState({ export: first.export, version: 2, sequence: 1 });
        await log.replaceState(first);
        expect(await writer(1).replaceState(second)).toBe(true);
        expect(await log.exportState(first.export)).toEqual(second);
      });

      it('rejects a state that is based on an outdated version', async () => {
        const first = anExportState();
        const second = anExportState({ export: first.export, version: 2, sequence: 1 });
        await log.replaceState(first);
        await log.replaceState(second);

        const late = anExportState({ export: first.export, version: 2, sequence: 99 });
        expect(await log.replaceState(late)).toBe(false);
        expect(await log.replaceState({ ...late, version: 1 })).toBe(false);
        expect(await log.exportState(first.export)).toEqual(second);
      });

      it('rejects a state that skips a version', async () => {
        const exportName = anExportName();
        expect(await log.replaceState(anExportState({ export: exportName, version: 2 }))).toBe(false);
        expect(await log.exportState(exportName)).toBeUndefined();

        const first = anExportState({ export: exportName });
        await log.replaceState(first);
        expect(await log.replaceState({ ...first, version: 3 })).toBe(false);
        expect(await log.exportState(exportName)).toEqual(first);
      });

      it.each([1, 2])('accepts one of several concurrent writers of version %i', async (version) => {
        const exportName = anExportName();
        if (version === 2) await log.replaceState(anExportState({ export: exportName }));

        const written = await concurrently((log, sequence) =>
          log.replaceState(anExportState({ export: exportName, version, sequence })),
        );

        expect(written.filter(Boolean)).toHaveLength(1);
        expect(await log.exportState(exportName)).toMatchObject({ version, sequence: written.indexOf(true) });
      });

      it('loses no update if concurrent writers retry until they succeed', async () => {
        const exportName = anExportName();
        await log.replaceState(anExportState({ export: exportName }));

        await concurrently(async (log) => {
          for (;;) {
            const state = await log.exportState(exportName);
            if (state === undefined) throw new Error('the state is gone');
            if (await log.replaceState({ ...state, version: state.version + 1, sequence: state.sequence + 1 })) return;
          }
        });

        expect(await log.exportState(exportName)).toMatchObject({ version: 1 + writers, sequence: writers });
      });

      it('separates exports with similar names', async () => {
        const exportName = anExportName();
        const names = [exportName, `${exportName}-daily`, exportName.slice(0, -1), exportName.toUpperCase()];
        for (const [sequence, name] of names.entries())
          await log.replaceState(anExportState({ export: name, sequence }));
        for (const [sequence, name] of names.entries()) expect(await log.exportState(name)).toMatchObject({ sequence });
      });
    });

    describe('pages', () => {
      const printable = Array.from({ length: 95 }, (_, index) => String.fromCharCode(32 + index)).join('');
      const longest = asCursor(printable.padEnd(maxCursorLength, printable));
      const nothing = { cursor: null, nextCursor: null, serviceTime: null, timing: null, reports: null, bytes: 0 };
      const far = { totals: { reports: 100, bytes: 5_000_000_000_000 }, transferredBytes: 600_000_000_000 };
      const withCursors = (cursor: Cursor) => ({
        cursor,
        nextCursor: longest,
        cycle: { tortoise: longest, power: 4, steps: 3 },
      });
      it.each<[what: string, parts: Partial<PageEntry>]>([
        ['with all its numbers', { ...withCursors(aCursor()), ...far }],
        ['with null values: the only page, not XML, of a service without a clock', { page: 1, ...nothing }],
        ['of a run whose cursors repeat', { repeats: true }],
        ['with the longest cursor', withCursors(longest)],
        ['with an unusual cursor', withCursors(asCursor('  "quoted", %2C, 1588888888888,\\u0041  '))],
      ])('returns an entry exactly as it was logged, from last and from entries: %s', async (_, parts) => {
        const entry = aPageEntry(parts);
        expect(await log.append(entry)).toEqual(entry);
        expect(await log.last(entry)).toEqual(entry);
        expect(await writer(1).last(entry)).toEqual(entry);
        expect(await collect(log.entries(entry))).toEqual([entry]);
      });

      it('returns the existing entry if the page is already logged', async () => {
        const first = aPageEntry();
        const second = { ...first, bytes: 1, sha256: 'another', nextCursor: aCursor() };
        await log.append(first);

        expect(await writer(1).append(second)).toEqual(first);
        expect(await log.append(first)).toEqual(first);
        expect(await collect(log.entries(first))).toEqual([first]);
      });

      it('keeps an end in the place of a page, and as the last entry', async () => {
        const page = aPageEntry({ page: 9, reports: null, serviceTime: null });
        const end = anEndEntry(page);
        await log.append(page);
        expect(await log.append(end)).toEqual(end);
        const late = aPageEntry({ export: end.export, run: end.run, page: end.page });
        expect(await writer(1).append(late)).toEqual(end);
        expect(await writer(1).last(page)).toEqual(end);
        expect(await collect(log.entries(page))).toEqual([page, end]);
      });

      it('returns the same entry to all concurrent writers of a page and of an end in its place', async () => {
        const entry = aPageEntry({ page: 2 });
        const end = anEndEntry(aPageEntry({ export: entry.export, run: entry.run }));
        const agreed = await concurrently((log, index) =>
          log.append(index % 3 === 0 ? { ...end, status: 400 + index } : { ...entry, bytes: index }),
        );

        const [logged] = await collect(log.entries(entry));
        expect(logged).toBeDefined();
        for (const result of agreed) expect(result).toEqual(logged);
      });

      it('returns nothing for a run without pages', async () => {
        const run = aRun();
        expect(await log.last(run)).toBeUndefined();
        expect(await collect(log.entries(run))).toEqual([]);
      });

      it('orders pages by number, not alphabetically', async () => {
        const { export: exportName, run } = aRun();
        const numbers = [10, 1_000_000, 9, 999_999, 11, 2];
        for (const page of numbers) await log.append(aPageEntry({ export: exportName, run, page }));

        expect((await log.last({ export: exportName, run }))?.page).toBe(1_000_000);
        const pages = (await collect(log.entries({ export: exportName, run }))).map(({ page }) => page);
        expect(pages).toEqual([2, 9, 10, 11, 999_999, 1_000_000]);
      });

      it('returns the newest entry as the last one after every append', async () => {
        const { export: exportName, run } = aRun();
        for (let page = 1; page <= 12; page++) {
          await writer(page).append(aPageEntry({ export: exportName, run, page }));
          expect((await log.last({ export: exportName, run }))?.page).toBe(page);
        }
      });

      it('separates runs and exports with similar names', async () => {
        const exportName = anExportName();
        const run = aRunId();
        const other = asRunId(`${run.slice(0, -1)}${run.endsWith('0') ? '1' : '0'}`);
        const runs: readonly { export: string; run: RunId }[] = [
          { export: exportName, run },
          { export: exportName, run: other },
          { export: exportName, run: asRunId(`${run}0`) },
          { export: exportName, run: asRunId(run.slice(0, -1)) },
          { export: `${exportName}-daily`, run },
          { export: exportName.slice(0, -1), run },
          { export: exportName.toUpperCase(), run },
        ];
        const logged: LogEntry[] = [];
        for (const [index, run] of runs.entries()) {
          logged.push(await log.append(aPageEntry({ ...run, page: index + 1 })));
        }
        for (const [index, run] of runs.entries()) {
          expect(await log.last(run)).toEqual(logged[index]);
          expect(await collect(log.entries(run))).toEqual([logged[index]]);
        }
      });

      it(`returns ${manyEntries} entries of a run in order, each once`, async () => {
        const { export: exportName, run } = aRun();
        // With long cursors, a storage that limits the size of a response needs several.
        const nextCursor = asCursor('c'.repeat(1_024));
        const pages = Array.from({ length: manyEntries }, (_, index) => index + 1);
        await mapConcurrently(pages, writers, (page) =>
          writer(page).append(aPageEntry({ export: exportName, run, page, nextCursor })),
        );
        await log.append(aPageEntry({ export: exportName, run: asRunId(`${run}0`), page: 1 }));

        const seen: number[] = [];
        for await (const { page } of log.entries({ export: exportName, run })) seen.push(page);

        expect(seen).toEqual(pages);
        expect((await log.last({ export: exportName, run }))?.page).toBe(manyEntries);
      });

      it('allows appending while entries are read, and reading only some of them', async () => {
        const { export: exportName, run } = aRun();
        for (const page of [1, 2, 3]) await log.append(aPageEntry({ export: exportName, run, page }));

        for await (const entry of log.entries({ export: exportName, run })) {
          await writer(1).append(aPageEntry({ export: exportName, run, page: 3 + entry.page }));
          if (entry.page === 2) break;
        }

        const pages = (await collect(log.entries({ export: exportName, run }))).map(({ page }) => page);
        expect(pages).toEqual([1, 2, 3, 4, 5]);
      });
    });

    describe('slices', () => {
      const ofSlice = (slice: number, attempt: number) => ({ slice, attempt });

      it('keeps a chain of pages for each attempt of each slice, apart from that of a run with one slice', async () => {
        const { export: exportName, run } = aRun();
        const chains = [{}, ofSlice(1, 1), ofSlice(1, 2), ofSlice(2, 1), ofSlice(10, 1), ofSlice(2, 10)];
        const logged: LogEntry[] = [];
        for (const [index, chain] of chains.entries()) {
          for (let page = 1; page <= index + 1; page += 1) {
            logged.push(await writer(index).append(aPageEntry({ export: exportName, run, ...chain, page })));
          }
        }
        for (const [index, chain] of chains.entries()) {
          const ref: ChainRef = { export: exportName, run, ...chain };
          const entries = await collect(log.entries(ref));
          expect(entries).toEqual(
            logged.filter(({ slice, attempt }) => slice === ref.slice && attempt === ref.attempt),
          );
          expect(await log.last(ref)).toEqual(entries.at(-1));
          expect(entries.at(-1)?.page).toBe(index + 1);
        }
        const newestFirst = (one: LogEntry, other: LogEntry) =>
          (one.slice ?? 0) - (other.slice ?? 0) || (other.attempt ?? 0) - (one.attempt ?? 0) || one.page - other.page;
        const inSlices = logged.filter(({ slice }) => slice !== undefined).toSorted(newestFirst);
        expect(await collect(log.runEntries({ export: exportName, run }))).toEqual(inSlices);
        expect(await collect(log.runEntries({ export: exportName, run }, 1))).toEqual(
          inSlices.filter(({ slice = 0 }) => slice > 1),
        );
        expect(await log.last({ export: exportName, run, ...ofSlice(3, 1) })).toBeUndefined();
      });

      it('streams thousands of slices in order, and none of another run', async () => {
        const ref = { export: anExportName(), run: aRunId() };
        await log.append(aPageEntry({ ...ref, run: asRunId(`${ref.run}0`), ...ofSlice(7, 1), page: 1 }));
        await log.append(aPageEntry({ ...ref, page: 1 }));
        expect(await collect(log.runEntries(ref))).toEqual([]);
        const slices = [...Array.from({ length: 1_100 }, (_, index) => index + 1), 99_999, 100_000, 999_999];
        await mapConcurrently(slices.toReversed(), writers, (slice) =>
          writer(slice).append(aPageEntry({ ...ref, ...ofSlice(slice, 1), page: 1 })),
        );
        expect((await collect(log.runEntries(ref))).map(({ slice }) => slice)).toEqual(slices);
        expect((await collect(writer(1).runEntries(ref, 1_100))).map(({ slice }) => slice)).toEqual([
          99_999, 100_000, 999_999,
        ]);
      });
    });

    it('keeps the progress of each state, and replaces only the one that was read', async () => {
      const [one, other] = [anExportName(), anExportName()];
      const names = [one, other, boundedStateName(one, bounds)];
      const record = aProgressRecord();
      for (const [index, name] of names.entries()) {
        const read = await log.progress(name).read();
        expect(read.content).toBeUndefined();
        await log.progress(name).replace(read, { ...record, begun: index });
      }
      for (const [index, name] of names.entries()) {
        const read = await writer(1).progress(name).read();
        expect(read.content).toEqual({ ...record, begun: index });
        expect((await log.progress(name).replace(read, record))?.content).toEqual(record);
        expect(await writer(1).progress(name).replace(read, record)).toBeUndefined();
      }
      expect(await collect(log.boundedStates(one))).toEqual([]);
      expect(await log.exportState(one)).toBeUndefined();
    });

    it('keeps the job of each chain of a state, and replaces only the one that was read', async () => {
      const name = anExportName();
      const chains: readonly (readonly [string, number])[] = [
        [name, 1],
        [name, 2],
        [boundedStateName(name, bounds), 1],
      ];
      const record = aJobRecord();
      for (const [index, chain] of chains.entries()) {
        const read = await log.job(...chain).read();
        expect(read.content).toBeUndefined();
        await log.job(...chain).replace(read, { ...record, id: `job-${index}` });
      }
      for (const [index, chain] of chains.entries()) {
        const read = await writer(1)
          .job(...chain)
          .read();
        expect(read.content).toEqual({ ...record, id: `job-${index}` });
        expect((await log.job(...chain).replace(read, record))?.content).toEqual(record);
        expect(
          await writer(1)
            .job(...chain)
            .replace(read, record),
        ).toBeUndefined();
      }
      expect(await collect(log.boundedStates(name))).toEqual([]);
    });

    describe('states of bounded runs', () => {
      it('keeps a state for each, apart from that of the export, and lists hundreds of them', async () => {
        const exportName = anExportName();
        const hourAfter = (hours: number) => instantOf(epochMsOf(bounds.since) + hours * 3_600_000);
        const names = Array.from({ length: 600 }, (_, hour) =>
          boundedStateName(exportName, { since: hourAfter(hour), until: hourAfter(hour + 1) }),
        );
        const states = [exportName, ...names].map((name, index) =>
          anExportState({ export: name, sequence: index + 1 }),
        );
        await mapConcurrently([...states.entries()], 16, async ([index, state]) => {
          expect(await writer(index).replaceState(state)).toBe(true);
        });
        await log.replaceState(anExportState({ export: boundedStateName(`${exportName}x`, bounds) }));
        const changed = anExportState({ export: names[7] ?? '', version: 2, active: aFullRun({ export: exportName }) });
        expect(await writer(1).replaceState(changed)).toBe(true);
        expect(await log.replaceState({ ...changed, sequence: 99 })).toBe(false);

        const found = await collect(log.boundedStates(exportName));
        expect(found.map((state) => state.export).toSorted()).toEqual(names.toSorted());
        expect(found.find(({ version }) => version === 2)).toEqual(changed);
        expect(await log.exportState(exportName)).toEqual(states[0]);
        expect(await collect(log.boundedStates(`${exportName}y`))).toEqual([]);
      });
    });

    describe('runs with any filter that the settings accept', () => {
      const nested = (depth: number): object => (depth === 0 ? {} : { '': nested(depth - 1) });
      /** As long as the settings allow, and written in the manifest with one value per line, indented by its depth. */
      const inManyLines = (depth: number, list: object): object =>
        depth === 0 ? { list } : { a: inManyLines(depth - 1, list) };
      const extreme = [
        { '': { ' ': [null, true, '', 5e-324, 1.7976931348623157e308] }, '\ud800': '\udfff' },
        { bytes: { lte: 2 ** 63 } },
        { bytes: { gte: Number.MIN_SAFE_INTEGER, lte: Number.MAX_SAFE_INTEGER } },
        nested(29),
        nested(32),
        { text: 'x'.repeat(65_000) },
        { text: '€'.repeat(21_000) },
        { text: 'x'.repeat(140_000) },
        inManyLines(
          29,
          Array.from({ length: 32_000 }, () => 1),
        ),
      ];

      it('lets every run that begins be finished, and read back', async () => {
        const finish = async (filter: object) => {
          const parsed = exportSettingsSchema.safeParse({ name: anExportName(), filter });
          if (!parsed.success) return;
          const { name, filter: accepted } = parsed.data;
          const request = anExportRequest({ filter: accepted });
          const reports = someReports(1);
          const bench = anExportBench({ reports, definition: { name, request } }).with({ log });
          // The second run has an active run and a watermark at the same time.
          for (const start of ['first', 'second']) {
            const end = await bench.start();
            expect({ start, end }).toMatchObject({ end: { status: 'completed', result: { pages: 1 } } });
          }
          const { active, watermark, lastCompleted } = await bench.state();
          expect({ active, filter: watermark?.filter }).toEqual({ active: undefined, filter: accepted });
          const address = lastCompleted?.result.manifest ?? '';
          const { header } = await openManifest(
            address,
            (await bench.store.read(address)) ?? (async function* () {})(),
          );
          const { date: _, ...written } = header.filter;
          expect(JSON.stringify(written)).toBe(JSON.stringify(accepted));
        };
        for (const filter of extreme) await finish(filter);
        const anyFilter = fc.dictionary(fc.string({ unit: anyCodePoint }), fc.jsonValue({ maxDepth: 8 }));
        await fc.assert(fc.asyncProperty(anyFilter, finish), { numRuns: cases(200) });
      });
    });

    it('keeps the entries of a year', () => {
      expect(log.mayHaveExpired(instantOf(Date.now() - 366 * 86_400_000))).toBe(false);
    });
  });
}
