/**
 * Stores the state of each export and the progress of each run, in one SQLite file. A page counts as exported once it
 * is logged here, so every write is durable before it resolves.
 *
 * States and entries are stored as JSON, with a checksum and the columns that queries need. Each write is one
 * conditional statement, so concurrent processes need no lock besides SQLite's own.
 */

import { isDeepStrictEqual } from 'node:util';
import { systemRuntime } from '../../core/clock.ts';
import { type ExportState, jobRecordSchema, progressSchema } from '../../core/model.ts';
import { boundedStatePrefix } from '../../core/bounded-runs.ts';
import type { ChainRef, PageLog } from '../../core/ports.ts';
import {
  parseExportState,
  parseLogEntry,
  type RecordStore,
  type StoredRecord,
  toStoredRecord,
} from '../../core/storage/stored-records.ts';
import { sharedRecordIn } from './shared-record.ts';
import type { StateFile } from './state-file.ts';

/** Entries per query: memory stays constant, and between queries no open read delays the writers' checkpoints. */
const batchSize = 500;

const columns = 'page, entry AS json, checksum';
const ofChain = 'export = ? AND run = ? AND slice = ? AND attempt = ?';
const sql = {
  state: 'SELECT export, version, state AS json, checksum FROM export_states WHERE export = ?',
  // All that begins with the prefix: text is compared byte by byte.
  statesAfter: `SELECT export, version, state AS json, checksum FROM export_states WHERE export > ? AND export < ? ORDER BY export LIMIT ${batchSize}`,
  insertState:
    'INSERT INTO export_states (export, version, state, checksum) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING',
  // With the parameters in the same order as `insertState`.
  updateState:
    'WITH given (export, version, state, checksum) AS (VALUES (?, ?, ?, ?)) ' +
    'UPDATE export_states SET version = given.version, state = given.state, checksum = given.checksum FROM given ' +
    'WHERE export_states.export = given.export AND export_states.version = given.version - 1',
  insertEntry:
    'INSERT INTO pages (export, run, slice, attempt, page, entry, checksum) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING',
  entry: `SELECT ${columns} FROM pages WHERE ${ofChain} AND page = ?`,
  lastEntry: `SELECT ${columns} FROM pages WHERE ${ofChain} ORDER BY page DESC LIMIT 1`,
  entriesAfter: `SELECT ${columns} FROM pages WHERE ${ofChain} AND page > ? ORDER BY page LIMIT ${batchSize}`,
  runEntriesAfter: `SELECT slice, attempt, ${columns} FROM pages WHERE export = ? AND run = ? AND (slice, attempt, page) > (?, ?, ?) ORDER BY slice, attempt, page LIMIT ${batchSize}`,
};

/** Attempts count down, so that the newest one of a slice comes first. */
const keyOf = ({ export: exportName, run, slice = 0, attempt = 0 }: ChainRef) =>
  [exportName, run, slice, 0 - attempt] as const;

/** The page log in a state file. @throws ConfigurationError on use, as `openStateFile` does */
export function pageLogIn(state: StateFile): PageLog {
  const { file, all, write } = state;
  const store: RecordStore = {
    name: file,
    repairHint: (stateName) =>
      `restore the file from a backup, or delete the row of ${stateName} from its table export_states`,
    startHint: 'start with --since',
  };

  const rows = <Row>(...query: Parameters<typeof all>) => all(...query) as unknown as Row[];

  let cached: { readonly row: StateRow; readonly state: ExportState } | undefined;
  const parseState = (row: StateRow): ExportState => {
    // Every page reads the state, which seldom changes: parse it once.
    if (cached !== undefined && isDeepStrictEqual(cached.row, row)) return cached.state;
    cached = { row, state: parseExportState(row.export, store, row) };
    return cached.state;
  };
  const parseEntry = (chain: ChainRef, row: EntryRow) => parseLogEntry({ ...chain, page: row.page }, store, row);

  return {
    async exportState(exportName) {
      const [row] = rows<StateRow>(sql.state, exportName);
      return row && parseState(row);
    },

    replaceState(state) {
      const { json, checksum } = toStoredRecord(state);
      const statement = state.version === 1 ? sql.insertState : sql.updateState;
      return write(statement, state.export, state.version, json, checksum);
    },

    async append(entry) {
      const { page } = entry;
      const key = keyOf(entry);
      const { json, checksum } = toStoredRecord(entry);
      if (await write(sql.insertEntry, ...key, page, json, checksum)) return entry;
      // Entries are never deleted, so the conflicting one exists.
      const [existing] = rows(sql.entry, ...key, page) as [EntryRow];
      return parseEntry(entry, existing);
    },

    async last(chain) {
      const [row] = rows<EntryRow>(sql.lastEntry, ...keyOf(chain));
      return row && parseEntry(chain, row);
    },

    async *entries(chain) {
      const after = (last?: EntryRow) => rows<EntryRow>(sql.entriesAfter, ...keyOf(chain), last?.page ?? 0);
      for (const row of inBatches(after)) yield parseEntry(chain, row);
    },

    async *runEntries({ export: exportName, run }, afterSlice = 0) {
      const first = { slice: afterSlice, attempt: 1, page: 0 };
      const after = ({ slice, attempt, page }: Omit<RunEntryRow, keyof StoredRecord> = first) =>
        rows<RunEntryRow>(sql.runEntriesAfter, exportName, run, slice, attempt, page);
      for (const row of inBatches(after)) {
        yield parseEntry({ export: exportName, run, slice: row.slice, attempt: 0 - row.attempt }, row);
      }
    },

    progress: (stateName) => sharedRecordIn(state, `progress of ${stateName}`, progressSchema, systemRuntime),

    job: (stateName, slice) =>
      sharedRecordIn({ all, run: write }, `job ${slice} of ${stateName}`, jobRecordSchema, systemRuntime),

    mayHaveExpired: () => false,

    async *boundedStates(exportName) {
      const prefix = boundedStatePrefix(exportName);
      const end = `${prefix}\u{10ffff}`;
      const after = (last?: StateRow) => rows<StateRow>(sql.statesAfter, last?.export ?? prefix, end);
      for (const row of inBatches(after)) yield parseState(row);
    },
  };
}

/** All rows, of which `readAfter` reads a batch after a row, or the first one. */
function* inBatches<Row>(readAfter: (last?: Row) => readonly Row[]): Generator<Row> {
  for (let last: Row | undefined; ;) {
    const batch = readAfter(last);
    yield* batch;
    last = batch.at(-1);
    if (batch.length < batchSize) return;
  }
}

const sources = `
  SELECT export, coalesce(state ->> '$.active.request.source', state ->> '$.lastCompleted.selection.source') AS source
  FROM export_states ORDER BY export`;

/** The exports that have a state, by name: the address of the service of a run, or null before there is one. */
export function sourcesIn({ all }: Pick<StateFile, 'all'>): ReadonlyMap<string, string | null> {
  const found = new Map<string, string | null>();
  for (const { export: stateName, source } of all(sources)) {
    // A bounded run has a state of its own, whose name begins with that of the export.
    const [name = ''] = String(stateName).split('/');
    found.set(name, found.get(name) ?? (typeof source === 'string' ? source : null));
  }
  return found;
}

interface StateRow extends StoredRecord {
  readonly export: string;
  readonly version: number;
}

interface EntryRow extends StoredRecord {
  readonly page: number;
}

interface RunEntryRow extends EntryRow {
  readonly slice: number;
  readonly attempt: number;
}
