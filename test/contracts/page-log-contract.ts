/**
 * What every page log promises, whatever it is made of: the port's docstrings as tests.
 * Each test keeps to exports and runs of its own, so a slow storage may be shared.
 */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { asCursor, asRunId, type ExportState, type PageEntry, type RunId } from '../../lib/core/model.ts';
import type { PageLog, RunHistory } from '../../lib/core/ports.ts';
import {
  aCursor,
  aFullRun,
  aHead,
  anExportName,
  aPageEntry,
  aRun,
  aRunId,
  aRunResult,
  at,
  collect,
} from '../support/builders.ts';
import { inLanes } from '../support/in-lanes.ts';

export interface PageLogHarness {
  readonly log: PageLog & RunHistory;
  /** Another adapter on the same storage, as another process would make it. */
  readonly another?: PageLog;
  cleanup(): Promise<void>;
}

export interface PageLogContractOptions {
  /** How many write the same thing at once. */
  readonly writers?: number;
  /** Entries of the long run: more than the storage gives back at once. */
  readonly manyEntries?: number;
  /** For each test; storages behind a network need more. */
  readonly timeoutMs?: number;
}

export function pageLogContract(
  name: string,
  makeHarness: () => Promise<PageLogHarness> | PageLogHarness,
  options: PageLogContractOptions = {},
): void {
  const { writers = 8, manyEntries = 2_500, timeoutMs = 20_000 } = options;

  describe(`${name} keeps the page log's promises`, { timeout: timeoutMs }, () => {
    let harness: PageLogHarness;
    let log: PageLog & RunHistory;
    beforeAll(async () => {
      harness = await makeHarness();
      log = harness.log;
    }, timeoutMs);
    afterAll(async () => await harness?.cleanup(), timeoutMs);

    /** The adapters that write at once: two, where the harness has two. */
    const writer = (index: number): PageLog => (index % 2 === 1 && harness.another) || log;
    const atOnce = <T>(write: (log: PageLog, index: number) => Promise<T>): Promise<T[]> =>
      Promise.all(Array.from({ length: writers }, (_, index) => write(writer(index), index)));

    describe('export states', () => {
      it('an export that never ran has no head', async () => {
        expect(await log.exportState(anExportName())).toBeUndefined();
      });

      it('the first head is written, and read back at once, by whoever looks', async () => {
        const head = aHead();
        expect(await log.replaceState(head)).toBe(true);
        expect(await log.exportState(head.export)).toEqual(head);
        expect(await writer(1).exportState(head.export)).toEqual(head);
      });

      it('a head with everything in it comes back exactly', async () => {
        const exportName = anExportName();
        const head: Required<ExportState> = {
          export: exportName,
          version: 1,
          sequence: 7,
          active: aFullRun({ export: exportName, sequence: 7 }),
          watermark: {
            instant: at('2026-11-19T02:00:00.500Z'),
            source: 'https://service.example/api',
            filter: { 'z before a': [1.5, null], a: { '': '' } },
          },
          lastScheduledTime: '2026-11-20T02:00:00Z',
          lastCompleted: { execution: 'execution-6', result: aRunResult({ export: exportName }) },
        };
        await log.replaceState(head);
        expect(await log.exportState(exportName)).toEqual(head);
      });

      it('what is unknown stays unknown: no size, no reports, no watermark', async () => {
        const exportName = anExportName();
        const result = aRunResult({ export: exportName, reports: null, watermark: null });
        const head = aHead({
          export: exportName,
          active: aRun({ export: exportName }),
          lastCompleted: { execution: 'execution-1', result },
        });
        await log.replaceState(head);
        expect(await log.exportState(exportName)).toEqual(head);
      });

      it('a field given as undefined comes back as absent or undefined, and nothing else', async () => {
        const head = aHead({ active: undefined, watermark: undefined, lastScheduledTime: undefined });
        expect(await log.replaceState(head)).toBe(true);
        expect(await log.exportState(head.export)).toEqual(head);
      });

      it('a head is replaced as a whole: what the next version leaves out is gone', async () => {
        const first = aHead({ active: aRun(), lastScheduledTime: '2026-11-20T02:00:00Z' });
        const second = aHead({ export: first.export, version: 2, sequence: 1 });
        await log.replaceState(first);
        expect(await writer(1).replaceState(second)).toBe(true);
        expect(await log.exportState(first.export)).toEqual(second);
      });

      it('who decided on an old head is refused, and the newer one stays', async () => {
        const first = aHead();
        const second = aHead({ export: first.export, version: 2, sequence: 1 });
        await log.replaceState(first);
        await log.replaceState(second);

        const late = aHead({ export: first.export, version: 2, sequence: 99 });
        expect(await log.replaceState(late)).toBe(false);
        expect(await log.replaceState({ ...late, version: 1 })).toBe(false);
        expect(await log.exportState(first.export)).toEqual(second);
      });

      it('no version is skipped', async () => {
        const exportName = anExportName();
        expect(await log.replaceState(aHead({ export: exportName, version: 2 }))).toBe(false);
        expect(await log.exportState(exportName)).toBeUndefined();

        const first = aHead({ export: exportName });
        await log.replaceState(first);
        expect(await log.replaceState({ ...first, version: 3 })).toBe(false);
        expect(await log.exportState(exportName)).toEqual(first);
      });

      it.each([1, 2])('of many who write version %i at once, exactly one does', async (version) => {
        const exportName = anExportName();
        if (version === 2) await log.replaceState(aHead({ export: exportName }));

        const written = await atOnce((log, sequence) =>
          log.replaceState(aHead({ export: exportName, version, sequence })),
        );

        expect(written.filter(Boolean)).toHaveLength(1);
        expect(await log.exportState(exportName)).toMatchObject({ version, sequence: written.indexOf(true) });
      });

      it('no update is lost where many read, change and try until they succeed', async () => {
        const exportName = anExportName();
        await log.replaceState(aHead({ export: exportName }));

        await atOnce(async (log) => {
          for (;;) {
            const head = await log.exportState(exportName);
            if (head === undefined) throw new Error('the head is gone');
            if (await log.replaceState({ ...head, version: head.version + 1, sequence: head.sequence + 1 })) return;
          }
        });

        expect(await log.exportState(exportName)).toMatchObject({ version: 1 + writers, sequence: writers });
      });

      it('exports whose names are alike have states of their own', async () => {
        const exportName = anExportName();
        const names = [exportName, `${exportName}-daily`, exportName.slice(0, -1), exportName.toUpperCase()];
        for (const [sequence, name] of names.entries()) await log.replaceState(aHead({ export: name, sequence }));
        for (const [sequence, name] of names.entries()) expect(await log.exportState(name)).toMatchObject({ sequence });
      });
    });

    describe('pages', () => {
      it('an entry comes back exactly, read as the last one or in the row', async () => {
        const entry = aPageEntry({
          cursor: aCursor(),
          cycle: { tortoise: aCursor(), power: 4, steps: 3 },
          totals: { reports: 100, bytes: 5_000_000_000_000 },
        });
        expect(await log.append(entry)).toEqual(entry);
        expect(await log.last(entry)).toEqual(entry);
        expect(await writer(1).last(entry)).toEqual(entry);
        expect(await collect(log.entries(entry))).toEqual([entry]);
      });

      it('what is unknown stays unknown: the only page, not XML, of a service without a clock', async () => {
        const entry = aPageEntry({
          page: 1,
          cursor: null,
          nextCursor: null,
          serviceTime: null,
          timing: null,
          reports: null,
          bytes: 0,
        });
        await log.append(entry);
        expect(await log.last(entry)).toEqual(entry);
        expect(entry.totals.reports).toBeNull();
      });

      it('a walk that goes in circles is remembered as such', async () => {
        const entry = aPageEntry({ repeats: true });
        await log.append(entry);
        expect(await log.last(entry)).toEqual(entry);
      });

      it('cursors are kept whole, however long and odd', async () => {
        const printable = Array.from({ length: 95 }, (_, index) => String.fromCharCode(32 + index)).join('');
        const long = asCursor(printable.repeat(44).slice(0, 4_096));
        const entry = aPageEntry({
          cursor: asCursor('  "quoted", %2C, 1588888888888,\\u0041  '),
          nextCursor: long,
          cycle: { tortoise: long, power: 1, steps: 0 },
        });
        await log.append(entry);
        expect(await log.last(entry)).toEqual(entry);
      });

      it('a page logged once stays as it is: who comes later gets the first entry back', async () => {
        const first = aPageEntry();
        const second = { ...first, bytes: 1, sha256: 'another', nextCursor: aCursor() };
        await log.append(first);

        expect(await writer(1).append(second)).toEqual(first);
        expect(await log.append(first)).toEqual(first);
        expect(await collect(log.entries(first))).toEqual([first]);
      });

      it('of many who log a page at once, all agree on one entry', async () => {
        const entry = aPageEntry({ page: 2 });
        const agreed = await atOnce((log, index) => log.append({ ...entry, bytes: index, nextCursor: aCursor() }));

        const [logged] = await collect(log.entries(entry));
        expect(logged).toBeDefined();
        for (const result of agreed) expect(result).toEqual(logged);
      });

      it('a run without pages has neither a last one nor any', async () => {
        const run = aRun();
        expect(await log.last(run)).toBeUndefined();
        expect(await collect(log.entries(run))).toEqual([]);
      });

      it('pages go by number, not by spelling: 1,000,000 comes after 11, 10 and 9', async () => {
        const { export: exportName, run } = aRun();
        const numbers = [10, 1_000_000, 9, 999_999, 11, 2];
        for (const page of numbers) await log.append(aPageEntry({ export: exportName, run, page }));

        expect((await log.last({ export: exportName, run }))?.page).toBe(1_000_000);
        const pages = (await collect(log.entries({ export: exportName, run }))).map(({ page }) => page);
        expect(pages).toEqual([2, 9, 10, 11, 999_999, 1_000_000]);
      });

      it('the last page is the newest at every step', async () => {
        const { export: exportName, run } = aRun();
        for (let page = 1; page <= 12; page++) {
          await writer(page).append(aPageEntry({ export: exportName, run, page }));
          expect((await log.last({ export: exportName, run }))?.page).toBe(page);
        }
      });

      it('runs and exports whose names are alike keep their pages apart', async () => {
        const exportName = anExportName();
        const run = aRunId();
        const other = asRunId(`${run.slice(0, -1)}${run.endsWith('0') ? '1' : '0'}`);
        const walks: readonly { export: string; run: RunId }[] = [
          { export: exportName, run },
          { export: exportName, run: other },
          { export: exportName, run: asRunId(`${run}0`) },
          { export: exportName, run: asRunId(run.slice(0, -1)) },
          { export: `${exportName}-daily`, run },
          { export: exportName.slice(0, -1), run },
          { export: exportName.toUpperCase(), run },
        ];
        const logged: PageEntry[] = [];
        for (const [index, walk] of walks.entries()) {
          logged.push(await log.append(aPageEntry({ ...walk, page: index + 1 })));
        }
        for (const [index, walk] of walks.entries()) {
          expect(await log.last(walk)).toEqual(logged[index]);
          expect(await collect(log.entries(walk))).toEqual([logged[index]]);
        }
      });

      it(`a run of ${manyEntries} pages is read in order, each page once`, async () => {
        const { export: exportName, run } = aRun();
        // Long cursors, so that a storage that gives back a page of so many bytes at a time has to turn it too.
        const nextCursor = asCursor('c'.repeat(1_024));
        const pages = Array.from({ length: manyEntries }, (_, index) => index + 1);
        await inLanes(writers, pages, (page) =>
          writer(page).append(aPageEntry({ export: exportName, run, page, nextCursor })),
        );
        await log.append(aPageEntry({ export: exportName, run: asRunId(`${run}0`), page: 1 }));

        const seen: number[] = [];
        for await (const { page } of log.entries({ export: exportName, run })) seen.push(page);

        expect(seen).toEqual(pages);
        expect((await log.last({ export: exportName, run }))?.page).toBe(manyEntries);
      });

      it('pages may be logged while others are read, and a reader may leave early', async () => {
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

    describe('the history of runs', () => {
      it('shows the last entry of each run, the newest run first, and no run of another export', async () => {
        const exportName = anExportName();
        const runs = ['20261118T020000Z-aaaaaa', '20261119T020000Z-0b0b0b', '20261119T020000Z-0b0b0c'].map(asRunId);
        const logged: PageEntry[] = [];
        for (const [index, run] of runs.entries()) {
          for (let page = 1; page <= index + 1; page += 1) {
            const entry = await log.append(aPageEntry({ export: exportName, run, page }));
            if (page === index + 1) logged.unshift(entry);
          }
        }
        await log.append(aPageEntry({ export: `${exportName}-daily`, run: asRunId('20261120T020000Z-cccccc') }));
        await log.replaceState(aHead({ export: exportName }));

        expect(await collect(log.runs(exportName))).toEqual(logged);
      });

      it('is empty for an export without a page, and may be left early', async () => {
        const exportName = anExportName();
        await log.replaceState(aHead({ export: exportName }));
        expect(await collect(log.runs(exportName))).toEqual([]);

        for (const run of [aRunId(), aRunId()]) await log.append(aPageEntry({ export: exportName, run, page: 1 }));
        for await (const { page } of log.runs(exportName)) {
          expect(page).toBe(1);
          break;
        }
      });
    });
  });
}
