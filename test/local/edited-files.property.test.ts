/** After any edits of directory and SQLite files, a run publishes correctly or fails with a known error. */

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

const columns = {
  export_states: ['state', 'version'],
  pages: ['entry', 'page'],
  page_metadata: ['metadata', 'sha256'],
} as const;

/** A row as one object: the fields of its JSON, its checksum, and `#column` for its version, its page or its hash. */
function row(database: DatabaseSync, table: keyof typeof columns, where: string, name: string): StoredItem {
  const [json, column] = columns[table];
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
      const fields = JSON.parse(String(found[json])) as object;
      return Buffer.from(JSON.stringify({ ...fields, checksum: found.checksum, '#column': found[column] }));
    },
    async write(bytes) {
      first ??= read();
      database.exec(`DELETE FROM ${table} WHERE ${where}`);
      if (bytes === undefined || first === undefined) return;
      const { checksum = '', '#column': value, ...fields } = JSON.parse(bytes.toString()) as Record<string, unknown>;
      const isValid = typeof first[column] === 'number' ? Number.isSafeInteger(value) : typeof value === 'string';
      const changed = {
        ...first,
        [json]: JSON.stringify(fields),
        checksum: typeof checksum === 'string' ? checksum : JSON.stringify(checksum),
        ...(isValid ? { [column]: value } : {}),
      } as Record<string, string | number>;
      const names = Object.keys(changed);
      database
        .prepare(`INSERT OR REPLACE INTO ${table} (${names.join()}) VALUES (${names.map(() => '?').join()})`)
        .run(...Object.values(changed));
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
      ...[1, 2, 3].map((page) =>
        row(database, 'page_metadata', `key = '${folder}/page-00000${page}.xml'`, `metadata of page ${page}`),
      ),
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
