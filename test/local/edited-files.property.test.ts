/** After arbitrary manual edits of the directory and its SQLite files, a run publishes a correct manifest or fails with a known error. */

import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe } from 'vitest';
import {
  createInterruptedExport,
  expectConsistentEndAfter,
  exportName,
  type InterruptedExport,
} from '../support/export/interrupted-export.ts';
import { anyStorageEdit, type StoredItem } from '../support/export/storage-edits.ts';
import { cases, fc, test } from '../support/property.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../support/temporary-directory.ts';
import { createSqlitePageLog, directoryStore } from '../support/export/directory-store.ts';

let template: TemporaryDirectory;
/** The folder of the interrupted run, relative to the directory. */
let folder: string;

beforeAll(async () => {
  template = await temporaryDirectory();
  const log = createSqlitePageLog(join(template.path, 'state.sqlite'));
  using store = directoryStore(template.path);
  await createInterruptedExport({ store, log });
  const run = (await log.exportState(exportName))?.active;
  log.close();
  folder = `${exportName}/date=2026-11-20/run=${run?.run}`;
});
afterAll(async () => await template.remove());

const file = (root: string, key: string, kind: string, form: StoredItem['form']): StoredItem => ({
  name: key.split('/').at(-1) ?? '',
  kind,
  form,
  read: () => readFile(join(root, key)).catch(() => undefined),
  async write(bytes) {
    await mkdir(dirname(join(root, key)), { recursive: true });
    await (bytes === undefined ? rm(join(root, key), { force: true }) : writeFile(join(root, key), bytes));
  },
});

/** A row as one object: the fields of its JSON, its checksum, and `#number` for its version or page. */
function row(database: DatabaseSync, table: 'export_states' | 'pages', where: string, name: string): StoredItem {
  const [json, number] = table === 'export_states' ? ['state', 'version'] : ['entry', 'page'];
  let first: Record<string, unknown> | undefined;
  const read = () =>
    database.prepare(`SELECT * FROM ${table} WHERE ${where}`).get() as Record<string, unknown> | undefined;
  return {
    name,
    kind: table,
    form: 'fields',
    async read() {
      const found = read();
      first ??= found;
      if (found === undefined) return undefined;
      return Buffer.from(
        JSON.stringify({ ...JSON.parse(String(found[json])), checksum: found.checksum, '#number': found[number] }),
      );
    },
    async write(bytes) {
      first ??= read();
      database.exec(`DELETE FROM ${table} WHERE ${where}`);
      if (bytes === undefined || first === undefined) return;
      const {
        checksum = '',
        '#number': newNumber,
        ...fields
      } = JSON.parse(bytes.toString()) as Record<string, unknown>;
      const changed = {
        ...first,
        [json]: JSON.stringify(fields),
        checksum: typeof checksum === 'string' ? checksum : JSON.stringify(checksum),
        ...(Number.isSafeInteger(newNumber) ? { [number]: newNumber } : {}),
      } as Record<string, string | number>;
      const names = Object.keys(changed);
      database
        .prepare(`INSERT OR REPLACE INTO ${table} (${names.join()}) VALUES (${names.map(() => '?').join()})`)
        .run(...Object.values(changed));
    },
  };
}

/** A page's metadata and its checksum as one JSON text. Text that is not JSON replaces the metadata as it is. */
function metadataRow(root: string, page: number): StoredItem {
  const key = `${folder}/page-00000${page}.xml`;
  /** Opens the file for one operation, as it may be edited as well. Returns undefined if it is no longer usable. */
  const inFile = <T>(operation: (database: DatabaseSync) => T): T | undefined => {
    try {
      using database = new DatabaseSync(join(root, 'state.sqlite'));
      // Edits are not limited to what the table's constraints allow.
      database.exec('PRAGMA ignore_check_constraints = ON');
      return operation(database);
    } catch {
      return undefined;
    }
  };
  const read = () =>
    inFile((database) =>
      database.prepare('SELECT sha256, metadata, checksum FROM page_metadata WHERE key = ?').get(key),
    ) as { readonly sha256: string; readonly metadata: string; readonly checksum: string } | undefined;
  const first = read();
  if (first === undefined) throw new Error(`there is no metadata of ${key} to edit`);
  const joinFields = ({ metadata, checksum }: { readonly metadata: string; readonly checksum: string }) => {
    try {
      return JSON.stringify({ ...JSON.parse(metadata), checksum });
    } catch {
      return metadata;
    }
  };
  const splitFields = (text: string) => {
    try {
      const { checksum = '', ...metadata } = JSON.parse(text) as Record<string, unknown>;
      return {
        metadata: JSON.stringify(metadata),
        checksum: typeof checksum === 'string' ? checksum : JSON.stringify(checksum),
      };
    } catch {
      return { metadata: text, checksum: first.checksum };
    }
  };
  return {
    name: `metadata of page ${page}`,
    kind: 'metadata',
    form: 'text',
    async read() {
      const found = read();
      return found && Buffer.from(joinFields(found));
    },
    async write(bytes) {
      inFile((database) => {
        database.prepare('DELETE FROM page_metadata WHERE key = ?').run(key);
        if (bytes === undefined) return;
        const { metadata, checksum } = splitFields(bytes.toString());
        database
          .prepare('INSERT INTO page_metadata (key, sha256, metadata, checksum) VALUES (?, ?, ?, ?)')
          .run(key, first.sha256, metadata, checksum);
      });
    },
  };
}

async function halfWay(root: string): Promise<InterruptedExport & Disposable> {
  const store = directoryStore(root);
  const log = createSqlitePageLog(join(root, 'state.sqlite'));
  const database = new DatabaseSync(join(root, 'state.sqlite'));
  const run = (await log.exportState(exportName))?.active?.run;
  const entry = (page: number) =>
    row(database, 'pages', `export = '${exportName}' AND run = '${run}' AND page = ${page}`, `entry of page ${page}`);
  return {
    store,
    log,
    items: [
      row(database, 'export_states', `export = '${exportName}'`, 'export state'),
      entry(1),
      entry(2),
      ...[1, 2, 3].map((page) => metadataRow(root, page)),
      ...[1, 2, 3, 4, 9].map((page) => file(root, `${folder}/page-00000${page}.xml`, 'page', 'bytes')),
      file(root, `${folder}/manifest.json`, 'manifest', 'bytes'),
      file(root, `${exportName}/latest.json`, 'latest', 'text'),
    ],
    deleteState: async () => database.exec('DELETE FROM export_states'),
    async objects() {
      const found = await readdir(root, { recursive: true, withFileTypes: true });
      const keys = found
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
        .filter((key) => key.startsWith(`${exportName}/`) && !key.includes('/.'));
      return new Map(await Promise.all(keys.map(async (key) => [key, await readFile(join(root, key))] as const)));
    },
    [Symbol.dispose]() {
      database.close();
      log.close();
      store.close();
    },
  };
}

describe('after arbitrary edits of the directory and its state', () => {
  test.prop([fc.array(anyStorageEdit, { minLength: 1, maxLength: 3 })], { numRuns: cases(20) })(
    'a run publishes a correct manifest, or fails with an error that says why',
    async (edits) => {
      await using directory = await temporaryDirectory();
      await cp(template.path, directory.path, { recursive: true });
      using edited = await halfWay(directory.path);
      await expectConsistentEndAfter(edits, edited);
    },
    300_000,
  );
});
