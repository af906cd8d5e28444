/** After any edits of directory and SQLite files, a run publishes correctly or fails with a known error. */

import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe } from 'vitest';
import {
  createInterruptedExport,
  expectConsistentEndAfter,
  exportName,
  type InterruptedExport,
} from '../support/export/interrupted-export.ts';
import { ofEntry, ofMetadata, ofState, type Selection, stateRow } from '../support/export/state-rows.ts';
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

/** A row as one object: the fields of its JSON, its checksum, and `#field` for a column that repeats a field. */
function row(file: string, selection: Selection, repeated: string, kind: string): StoredItem {
  const stored = stateRow(file, selection);
  return {
    name: kind,
    kind: kind.replace(/ \d$/, ''),
    form: 'fields',
    async read() {
      const found = stored.read();
      if (found === undefined) return undefined;
      const { fields, checksum } = found;
      return Buffer.from(JSON.stringify({ ...fields, checksum, '#repeated': fields[repeated] }));
    },
    async write(bytes) {
      if (bytes === undefined) {
        stored.write(undefined);
        return;
      }
      const { checksum = '', '#repeated': value, ...fields } = JSON.parse(bytes.toString()) as Record<string, unknown>;
      const isValid = typeof fields[repeated] === 'number' ? Number.isSafeInteger(value) : typeof value === 'string';
      stored.write({
        json: JSON.stringify(fields),
        checksum: typeof checksum === 'string' ? checksum : JSON.stringify(checksum),
        ...(isValid && { repeated: { [repeated]: value as string | number } }),
      });
    },
  };
}

async function halfWay(root: string): Promise<InterruptedExport & Disposable> {
  const store = directoryStore(root);
  const log = createSqlitePageLog(join(root, 'state.sqlite'));
  const state = join(root, 'state.sqlite');
  const run = (await log.exportState(exportName))?.active?.run;
  const exportState = row(state, ofState(exportName), 'version', 'export state');
  // Located before it is edited.
  await exportState.read();
  return {
    store,
    log,
    items: [
      exportState,
      ...[1, 2].map((page) => row(state, ofEntry({ export: exportName, run, page }), 'page', `entry of page ${page}`)),
      ...[1, 2, 3].map((page) =>
        row(state, ofMetadata(`${folder}/page-00000${page}.xml`), 'sha256', `metadata of page ${page}`),
      ),
      ...[1, 2, 3, 4, 9].map((page) => file(root, `${folder}/page-00000${page}.xml`, 'page', 'bytes')),
      file(root, `${folder}/manifest.json`, 'manifest', 'bytes'),
      file(root, `${exportName}/latest.json`, 'latest', 'text'),
    ],
    deleteState: async () => await exportState.write(undefined),
    async objects() {
      const found = await readdir(root, { recursive: true, withFileTypes: true });
      const keys = found
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
        .filter((key) => key.startsWith(`${exportName}/`) && !key.includes('/.'));
      return new Map(await Promise.all(keys.map(async (key) => [key, await readFile(join(root, key))] as const)));
    },
    [Symbol.dispose]() {
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
