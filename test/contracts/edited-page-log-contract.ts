/**
 * What every page log that lies somewhere for hands to reach promises on top: what was edited there is never taken for
 * the truth. Each test keeps to exports and runs of its own.
 */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ExportState, PageEntry } from '../../lib/core/model.ts';
import type { PageLog } from '../../lib/core/ports.ts';
import { aCursor, aFullRun, anExportName, aPageEntry, aRun, aRunResult, at, collect } from '../support/builders.ts';
import { fieldsOf, type Path, withField, withoutField } from '../support/fields.ts';

/** A head or an entry as it lies in the store: its fields, and its checksum among them. */
export type Kept = Readonly<Record<string, unknown>>;

export interface EditedPageLogHarness {
  readonly log: PageLog;
  /** Where a person is told to look: part of every message. */
  readonly name: string;
  /** Puts `change` of what is kept of the head, or of the page, in its place, past the page log. */
  editHead(exportName: string, change: (kept: Kept) => Kept): Promise<void>;
  editPage(page: Pick<PageEntry, 'export' | 'run' | 'page'>, change: (kept: Kept) => Kept): Promise<void>;
  cleanup(): Promise<void>;
}

const aFullHead = (exportName = anExportName()): ExportState => ({
  export: exportName,
  version: 1,
  sequence: 7,
  active: aFullRun({ export: exportName, sequence: 7 }),
  watermark: { instant: at('2026-11-19T02:00:00Z'), source: 'simulator', filter: { type: 'invoice' } },
  lastScheduledTime: '2026-11-20T02:00:00Z',
  lastCompleted: { execution: 'execution-6', result: aRunResult({ export: exportName }) },
});
const aFullEntry = (overrides: Partial<PageEntry> = {}): PageEntry =>
  aPageEntry({ cursor: aCursor(), cycle: { tortoise: aCursor(), power: 4, steps: 3 }, ...overrides });

/** One edit of each field: another value of its own type, another type, or none at all. */
const edits = (value: object): [string, (kept: Kept) => Kept][] =>
  fieldsOf({ ...value, checksum: 'a checksum' })
    // A filter may be kept as text, and is then edited as a whole.
    .filter(({ path }) => !path.slice(0, -1).includes('filter'))
    .flatMap(({ path, value: field }) =>
      [
        ['another value', (kept: Kept) => withField(kept, path, another(field))] as const,
        ['another type', (kept: Kept) => withField(kept, path, typeof field === 'boolean' ? 'true' : true)] as const,
        ['nothing', (kept: Kept) => withoutField(kept, path)] as const,
      ].map(([what, change]): [string, (kept: Kept) => Kept] => [`${path.join('.')}: ${what}`, change]),
    );

function another(field: unknown): unknown {
  if (typeof field === 'number') return field + 1;
  if (typeof field === 'string') return `${field}1`;
  return typeof field === 'boolean' ? !field : 'something else';
}

export function editedPageLogContract(
  name: string,
  makeHarness: () => Promise<EditedPageLogHarness>,
  { timeoutMs = 20_000 }: { readonly timeoutMs?: number } = {},
): void {
  describe(`${name} notices what was edited`, { timeout: timeoutMs }, () => {
    let harness: EditedPageLogHarness;
    let log: PageLog;
    beforeAll(async () => {
      harness = await makeHarness();
      log = harness.log;
    }, timeoutMs);
    afterAll(async () => await harness?.cleanup(), timeoutMs);

    /** What `reading` fails with: its name, and what its message should say but does not. */
    async function failureOf(reading: Promise<unknown>, ...says: readonly string[]) {
      const failure: unknown = await reading.catch((error: unknown) => error);
      const { name, message } = failure instanceof Error ? failure : new Error('there was no failure');
      return { name, misses: [harness.name, 'Nothing was changed', ...says].filter((part) => !message.includes(part)) };
    }
    const headFailure = (exportName: string) =>
      failureOf(log.exportState(exportName), `The head of export ${exportName}`, 'delete');
    const pageFailures = (entry: PageEntry) => {
      const says = [`page ${entry.page} of run ${entry.run} of export ${entry.export}`, 'start with restart'];
      const readings = [log.last(entry), collect(log.entries(entry)), log.append(entry)];
      return Promise.all(readings.map((reading) => failureOf(reading, ...says)));
    };
    const conflict = { name: 'PageConflictError', misses: [] };
    const conflicts = [conflict, conflict, conflict];

    it('and takes what was put there again, as it was, for what it is', async () => {
      const head = aFullHead();
      const entry = aFullEntry();
      await log.replaceState(head);
      await log.append(entry);
      await harness.editHead(head.export, (kept) => ({ ...kept }));
      await harness.editPage(entry, (kept) => Object.fromEntries(Object.entries(kept).reverse()));
      expect(await log.exportState(head.export)).toEqual(head);
      expect(await log.last(entry)).toEqual(entry);
    });

    it('in a head: any field, and the checksum', async () => {
      for (const [what, change] of edits(aFullHead())) {
        const head = aFullHead();
        await log.replaceState(head);
        await harness.editHead(head.export, change);
        expect({ what, found: await headFailure(head.export) }).toEqual({ what, found: conflict });
      }
    });

    it('in an entry: any field, and the checksum', async () => {
      for (const [what, change] of edits(aFullEntry())) {
        const entry = await log.append(aFullEntry());
        await harness.editPage(entry, change);
        expect({ what, found: await pageFailures(entry) }).toEqual({ what, found: conflicts });
      }
    });

    it.each(['text', '{"unfinished', '[[[[[[[[[[', 17, null])(
      'in a head: a filter, an active run or a watermark that is %j',
      async (value) => {
        for (const path of [
          ['active', 'request', 'filter'],
          ['active', 'request'],
          ['active'],
          ['watermark'],
        ] as Path[]) {
          const head = aFullHead();
          await log.replaceState(head);
          await harness.editHead(head.export, (kept) => withField(kept, path, value));
          expect(await headFailure(head.export)).toEqual(conflict);
        }
      },
    );

    it('in a head: that it is another export’s, checksum and all', async () => {
      const [head, other] = [aFullHead(), aFullHead()];
      await log.replaceState(head);
      await log.replaceState(other);
      let theirs: Kept = {};
      await harness.editHead(other.export, (kept) => {
        theirs = kept;
        return kept;
      });
      await harness.editHead(head.export, () => theirs);
      expect(await headFailure(head.export)).toEqual(conflict);
      expect(await log.exportState(other.export)).toEqual(other);
    });

    it('in an entry: that it is another page’s, run’s or export’s, checksum and all', async () => {
      const { export: exportName, run } = aRun();
      const elsewhere = [
        { export: exportName, run, page: 1 },
        { export: exportName, page: 2 },
        { run, page: 2 },
      ];
      for (const place of elsewhere) {
        const entry = await log.append(aFullEntry({ export: anExportName(), page: 2 }));
        const other = await log.append(aFullEntry({ ...place, export: place.export ?? anExportName() }));
        let theirs: Kept = {};
        await harness.editPage(other, (kept) => {
          theirs = kept;
          return kept;
        });
        await harness.editPage(entry, () => theirs);
        expect(await pageFailures(entry)).toEqual(conflicts);
      }
    });

    it('in an entry among many, where a reader comes to it', async () => {
      const { export: exportName, run } = aRun();
      for (let page = 1; page <= 5; page += 1) await log.append(aFullEntry({ export: exportName, run, page }));
      await harness.editPage({ export: exportName, run, page: 4 }, (kept) => ({ ...kept, bytes: 4_097 }));
      const seen: number[] = [];
      const reading = (async () => {
        for await (const { page } of log.entries({ export: exportName, run })) seen.push(page);
      })();
      expect(await failureOf(reading, 'page 4 of run')).toEqual(conflict);
      expect(seen).toEqual([1, 2, 3]);
      expect(await log.last({ export: exportName, run })).toMatchObject({ page: 5 });
    });

    it('and then does not write over it', async () => {
      const entry = await log.append(aFullEntry());
      await harness.editPage(entry, (kept) => ({ ...kept, reports: 5 }));
      expect(await failureOf(log.append({ ...entry, reports: 5 }), 'put it back as it was')).toEqual(conflict);
      let lies: Kept = {};
      await harness.editPage(entry, (kept) => {
        lies = kept;
        return { ...kept, reports: entry.reports };
      });
      expect(lies).toMatchObject({ reports: 5 });
      expect(await log.last(entry)).toEqual(entry);
    });
  });
}
