/**
 * Edits of records in a state file, whatever its tables and columns are called. A record is a row that has JSON. Other
 * columns repeat a field of it, and one has its checksum.
 */

import { DatabaseSync } from 'node:sqlite';

type Fields = Readonly<Record<string, unknown>>;
/** No column is binary. */
type Value = string | number | bigint | null;
type Row = Readonly<Record<string, Value>>;

export interface RowChange {
  /** The text of the JSON, valid or not. */
  readonly json?: string;
  readonly checksum?: string;
  /** New values of the columns that repeat these fields. */
  readonly repeated?: Readonly<Record<string, Value>>;
}

export interface StoredRow {
  readonly fields: Fields;
  readonly checksum: string;
}

const fieldsIn = (value: Value | undefined): Fields | undefined =>
  typeof value === 'string' && value.startsWith('{"') ? (JSON.parse(value) as Fields) : undefined;
const isState = ({ sequence, version }: Fields) => version !== undefined && sequence !== undefined;

/** Which record is meant. Its JSON contains `text`. */
export interface Selection {
  readonly text: string;
  readonly isMeant: (fields: Fields) => boolean;
}

/** What a row is: the state of an export, the entry of a page, or the metadata of the page at a key. */
export const ofState = (name: string): Selection => ({
  text: name,
  isMeant: (fields) => isState(fields) && fields.export === name,
});
export const ofEntry = ({ export: name, run, page }: Fields): Selection => ({
  text: String(run),
  isMeant: (fields) =>
    fields.kind !== undefined && fields.export === name && fields.run === run && fields.page === page,
});
export const ofMetadata = (key: string): Selection => ({
  text: key,
  isMeant: (fields) => fields.kind === undefined && fields.key === key,
});

/** The names of its tables. */
export const tablesOf = (database: DatabaseSync): string[] =>
  database
    .prepare(`SELECT name FROM sqlite_schema WHERE type = 'table'`)
    .all()
    .map(({ name }) => String(name));

/** The rows that contain the text in any column. */
function rowsOf(database: DatabaseSync, table: string, text = ''): readonly Row[] {
  const columns = database.prepare('SELECT name FROM pragma_table_info(?)').all(table);
  const conditions = columns.map(({ name }) => `instr(${String(name)}, ?)`);
  const query = database.prepare(`SELECT * FROM ${table} WHERE ${conditions.join(' OR ')}`);
  return query.all(...conditions.map(() => text)) as Row[];
}

/** All that is stored in the file, as text. */
export function textOfState(file: string): string {
  using database = new DatabaseSync(file);
  return JSON.stringify(tablesOf(database).map((table) => rowsOf(database, table)));
}

/** The row of `file` whose record is selected, or was when it was read first. */
export function stateRow(file: string, { text, isMeant }: Selection) {
  let found: { readonly table: string; readonly first: Row; current: Row | undefined } | undefined;

  function locate(database: DatabaseSync) {
    if (found !== undefined) return found;
    for (const table of tablesOf(database)) {
      const rows = rowsOf(database, table, text);
      const first = rows.find((row) => Object.values(row).some((value) => isMeant(fieldsIn(value) ?? {})));
      if (first !== undefined) return (found = { table, first, current: first });
    }
    throw new Error(`${file} has no such row`);
  }
  const columnOfJson = (row: Row) => Object.keys(row).find((column) => fieldsIn(row[column]) !== undefined) ?? '';
  const columnOfField = (row: Row, field: string) => {
    const value = fieldsIn(row[columnOfJson(row)])?.[field];
    return Object.keys(row).find((column) => row[column] === value) ?? '';
  };
  const columnOfChecksum = (row: Row) => {
    const values = Object.values(fieldsIn(row[columnOfJson(row)]) ?? {});
    return (
      Object.keys(row).find((each) => /^[0-9a-f]{64}$/.test(String(row[each])) && !values.includes(row[each])) ?? ''
    );
  };

  return {
    read(): StoredRow | undefined {
      using database = new DatabaseSync(file);
      const { first, current } = locate(database);
      if (current === undefined) return undefined;
      const fields = JSON.parse(String(current[columnOfJson(first)])) as Fields;
      return { fields, checksum: String(current[columnOfChecksum(first)]) };
    },
    /** Changes the row as it was first, or removes it. */
    write(change: RowChange | undefined): void {
      using database = new DatabaseSync(file);
      database.exec('PRAGMA ignore_check_constraints = ON');
      const row = locate(database);
      const { table, first, current } = row;
      const columns = Object.keys(first);
      const values = (of: Row) => columns.map((column) => of[column] ?? null);
      if (current !== undefined) {
        database
          .prepare(`DELETE FROM ${table} WHERE ${columns.map((column) => `${column} = ?`).join(' AND ')}`)
          .run(...values(current));
      }
      if (change === undefined) {
        row.current = undefined;
        return;
      }
      const { json, checksum, repeated = {} } = change;
      row.current = {
        ...first,
        ...Object.fromEntries(Object.entries(repeated).map(([field, value]) => [columnOfField(first, field), value])),
        ...(json !== undefined && { [columnOfJson(first)]: json }),
        ...(checksum !== undefined && { [columnOfChecksum(first)]: checksum }),
      };
      const marks = columns.map(() => '?').join();
      database
        .prepare(`INSERT OR REPLACE INTO ${table} (${columns.join()}) VALUES (${marks})`)
        .run(...values(row.current));
    },
  };
}

/** Changes one row. */
export const changeRow = (
  file: string,
  selection: Selection,
  change: (row: StoredRow) => RowChange | undefined,
): void => {
  const row = stateRow(file, selection);
  const stored = row.read();
  if (stored !== undefined) row.write(change(stored));
};
