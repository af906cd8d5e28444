/**
 * The contract of page logs whose storage can be edited: a record that was changed is never returned.
 * Each test uses its own exports and runs.
 */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EndEntry, ExportState, LogEntry, PageEntry } from '../../lib/core/model.ts';
import type { PageLog } from '../../lib/core/ports.ts';
import {
  aCompletion,
  aCursor,
  aFullRun,
  anEndEntry,
  anExportName,
  aPageEntry,
  aRun,
  aWatermark,
  collect,
} from '../support/builders.ts';
import { fieldsOf, type Path, withField, withoutField } from '../support/fields.ts';

/** A state or an entry as it is stored: its fields and its checksum. */
export type StoredRecord = Readonly<Record<string, unknown>>;

export interface EditedPageLogHarness {
  readonly log: PageLog;
  /** The name of the storage, which is part of every message. */
  readonly name: string;
  /** Replaces the stored state, or the stored entry of the page, directly in the storage. */
  editState(exportName: string, change: (record: StoredRecord) => StoredRecord): Promise<void>;
  editPage(
    page: Pick<LogEntry, 'export' | 'run' | 'page'>,
    change: (record: StoredRecord) => StoredRecord,
  ): Promise<void>;
  cleanup(): Promise<void>;
}

/** The stored text after an edit of the fields of a record, or of its checksum. */
export function editStored(
  { json, checksum }: { readonly json?: unknown; readonly checksum?: unknown },
  change: (record: StoredRecord) => StoredRecord,
): { readonly json: string; readonly checksum: string } {
  const edited = change({ ...JSON.parse(String(json)), checksum });
  const { checksum: other, ...record } = edited;
  return { json: JSON.stringify(record), checksum: String(other) };
}

const aFullState = (exportName = anExportName()): ExportState => ({
  export: exportName,
  version: 1,
  sequence: 7,
  active: aFullRun({ export: exportName, sequence: 7 }),
  watermark: aWatermark({ filter: { type: 'invoice' } }),
  lastScheduledTime: '2026-11-20T02:00:00Z',
  lastCompleted: aCompletion('execution-6', { export: exportName }),
});
const aFullEntry = (overrides: Partial<PageEntry> = {}): PageEntry =>
  aPageEntry({ cursor: aCursor(), cycle: { tortoise: aCursor(), power: 4, steps: 3 }, ...overrides });

const aFullEnd = (): EndEntry => anEndEntry(aFullEntry());

/** Three edits of each field: another value, another type, and removal. */
const edits = (value: object): [string, (record: StoredRecord) => StoredRecord][] =>
  fieldsOf({ ...value, checksum: 'a checksum' }).flatMap(({ path, value: field }) =>
    [
      ['another value', (record: StoredRecord) => withField(record, path, another(field))] as const,
      [
        'another type',
        (record: StoredRecord) => withField(record, path, typeof field === 'boolean' ? 'true' : true),
      ] as const,
      ['nothing', (record: StoredRecord) => withoutField(record, path)] as const,
    ].map(([what, change]): [string, (record: StoredRecord) => StoredRecord] => [`${path.join('.')}: ${what}`, change]),
  );

function another(field: unknown): unknown {
  if (typeof field === 'number') return field + 1;
  if (typeof field === 'string') return `${field}1`;
  return typeof field === 'boolean' ? !field : 'something else';
}

export function editedPageLogContract(name: string, makeHarness: () => Promise<EditedPageLogHarness>): void {
  describe(`${name} rejects edited records`, () => {
    let harness: EditedPageLogHarness;
    let log: PageLog;
    beforeAll(async () => {
      harness = await makeHarness();
      log = harness.log;
    });
    afterAll(async () => await harness?.cleanup());

    /** The name of the error that `reading` throws, and the parts that its message lacks. */
    async function failureOf(reading: Promise<unknown>, ...parts: readonly string[]) {
      const failure: unknown = await reading.catch((error: unknown) => error);
      const { name, message } = failure instanceof Error ? failure : new Error('there was no failure');
      return {
        name,
        missing: [harness.name, 'Nothing was changed', ...parts].filter((part) => !message.includes(part)),
      };
    }
    const stateFailure = (exportName: string) =>
      failureOf(log.exportState(exportName), `The state of export ${exportName}`, 'delete');
    const pageFailures = (entry: LogEntry) => {
      const parts = [`page ${entry.page} of run ${entry.run} of export ${entry.export}`, 'start with --restart'];
      const readings = [log.last(entry), collect(log.entries(entry)), log.append(entry)];
      return Promise.all(readings.map((reading) => failureOf(reading, ...parts)));
    };
    const conflict = { name: 'PageConflictError', missing: [] };
    const conflicts = [conflict, conflict, conflict];

    it('accepts a record that was written back unchanged', async () => {
      const state = aFullState();
      const entry = aFullEntry();
      await log.replaceState(state);
      await log.append(entry);
      await harness.editState(state.export, (record) => ({ ...record }));
      await harness.editPage(entry, (record) => ({ ...record }));
      expect(await log.exportState(state.export)).toEqual(state);
      expect(await log.last(entry)).toEqual(entry);
    });

    it('rejects an edit of any field of a state, and of its checksum', async () => {
      for (const [what, change] of edits(aFullState())) {
        const state = aFullState();
        await log.replaceState(state);
        await harness.editState(state.export, change);
        expect({ what, found: await stateFailure(state.export) }).toEqual({ what, found: conflict });
      }
    });

    it('rejects an edit of a state or an entry that it has read before', async () => {
      const state = aFullState();
      const entry = aFullEntry();
      await log.replaceState(state);
      await log.append(entry);
      expect([await log.exportState(state.export), await log.last(entry)]).toEqual([state, entry]);
      await harness.editState(state.export, (record) => ({ ...record, sequence: 99 }));
      await harness.editPage(entry, (record) => ({ ...record, bytes: 1 }));
      expect(await stateFailure(state.export)).toEqual(conflict);
      expect(await pageFailures(entry)).toEqual(conflicts);
    });

    it.each([
      ['of a page', aFullEntry],
      ['of an end', aFullEnd],
    ])('rejects an edit of any field of an entry %s, and of its checksum', async (_, anEntry) => {
      for (const [what, change] of edits(anEntry())) {
        const entry = await log.append(anEntry());
        await harness.editPage(entry, change);
        expect({ what, found: await pageFailures(entry) }).toEqual({ what, found: conflicts });
      }
    });

    it.each(['text', '{"unfinished', '[[[[[[[[[[', 17, null])(
      'rejects %j as a filter, an active run or a watermark',
      async (value) => {
        for (const path of [
          ['active', 'request', 'filter'],
          ['active', 'request'],
          ['active'],
          ['watermark'],
        ] as Path[]) {
          const state = aFullState();
          await log.replaceState(state);
          await harness.editState(state.export, (record) => withField(record, path, value));
          expect(await stateFailure(state.export)).toEqual(conflict);
        }
      },
    );

    it('rejects the state of another export, with its checksum', async () => {
      const [state, other] = [aFullState(), aFullState()];
      await log.replaceState(state);
      await log.replaceState(other);
      let theirs: StoredRecord = {};
      await harness.editState(other.export, (record) => {
        theirs = record;
        return record;
      });
      await harness.editState(state.export, () => theirs);
      expect(await stateFailure(state.export)).toEqual(conflict);
      expect(await log.exportState(other.export)).toEqual(other);
    });

    it('rejects the entry of another page, run or export, with its checksum', async () => {
      const { export: exportName, run } = aRun();
      const elsewhere = [
        { export: exportName, run, page: 1 },
        { export: exportName, page: 2 },
        { run, page: 2 },
      ];
      for (const place of elsewhere) {
        const entry = await log.append(aFullEntry({ export: anExportName(), page: 2 }));
        const other = await log.append(aFullEntry({ ...place, export: place.export ?? anExportName() }));
        let theirs: StoredRecord = {};
        await harness.editPage(other, (record) => {
          theirs = record;
          return record;
        });
        await harness.editPage(entry, () => theirs);
        expect(await pageFailures(entry)).toEqual(conflicts);
      }
    });

    it('throws when a reader reaches the edited entry', async () => {
      const { export: exportName, run } = aRun();
      for (let page = 1; page <= 5; page += 1) await log.append(aFullEntry({ export: exportName, run, page }));
      await harness.editPage({ export: exportName, run, page: 4 }, (record) => ({ ...record, bytes: 4_097 }));
      const seen: number[] = [];
      const reading = (async () => {
        for await (const { page } of log.entries({ export: exportName, run })) seen.push(page);
      })();
      expect(await failureOf(reading, 'page 4 of run')).toEqual(conflict);
      expect(seen).toEqual([1, 2, 3]);
      expect(await log.last({ export: exportName, run })).toMatchObject({ page: 5 });
    });

    it('does not overwrite an edited entry', async () => {
      const entry = aFullEntry();
      await log.append(entry);
      await harness.editPage(entry, (record) => ({ ...record, reports: 5 }));
      expect(await failureOf(log.append({ ...entry, reports: 5 }), 'Restore the entry')).toEqual(conflict);
      let stored: StoredRecord = {};
      await harness.editPage(entry, (record) => {
        stored = record;
        return { ...record, reports: entry.reports };
      });
      expect(stored).toMatchObject({ reports: 5 });
      expect(await log.last(entry)).toEqual(entry);
    });
  });
}
