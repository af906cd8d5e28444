/** Whatever somebody does by hand to the directory and the SQLite file: a true manifest, or an error with a name. */

import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fc, test } from '@fast-check/vitest';
import { afterAll, beforeAll, describe } from 'vitest';
import { createDirectoryPageStore } from '../../lib/local/directory-page-store.ts';
import { createSqlitePageLog } from '../../lib/local/sqlite-page-log.ts';
import { comeHalfWay, expectAnHonestEndAfter, exportName, type HalfWay } from '../support/half-way.ts';
import { handEdit, type KeptThing } from '../support/hand-edits.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../support/temporary-directory.ts';

let template: TemporaryDirectory;
/** The folder of the run that was cut off, below the directory. */
let folder: string;

beforeAll(async () => {
  template = await temporaryDirectory();
  const log = createSqlitePageLog(join(template.path, 'state.sqlite'));
  await comeHalfWay({ store: createDirectoryPageStore(template.path), log });
  const run = (await log.head(exportName))?.active;
  log.close();
  folder = `${exportName}/date=2026-11-20/run=${run?.run}`;
});
afterAll(async () => await template.remove());

const file = (root: string, key: string, kind: string, form: KeptThing['form']): KeptThing => ({
  name: key.split('/').at(-1) ?? '',
  kind,
  form,
  read: () => readFile(join(root, key)).catch(() => undefined),
  async write(bytes) {
    await mkdir(dirname(join(root, key)), { recursive: true });
    await (bytes === undefined ? rm(join(root, key), { force: true }) : writeFile(join(root, key), bytes));
  },
});

/** A row as one object: what stands in its JSON, its seal, and its `#number`. */
function row(hand: DatabaseSync, table: 'heads' | 'pages', where: string, name: string): KeptThing {
  const [json, number] = table === 'heads' ? ['head', 'version'] : ['entry', 'page'];
  let first: Record<string, unknown> | undefined;
  const read = () => hand.prepare(`SELECT * FROM ${table} WHERE ${where}`).get() as Record<string, unknown> | undefined;
  return {
    name,
    kind: table,
    form: 'fields',
    async read() {
      const found = read();
      first ??= found;
      if (found === undefined) return undefined;
      return Buffer.from(
        JSON.stringify({ ...JSON.parse(String(found[json])), seal: found.seal, '#number': found[number] }),
      );
    },
    async write(bytes) {
      first ??= read();
      hand.exec(`DELETE FROM ${table} WHERE ${where}`);
      if (bytes === undefined || first === undefined) return;
      const { seal = '', '#number': told, ...kept } = JSON.parse(bytes.toString()) as Record<string, unknown>;
      const changed = {
        ...first,
        [json]: JSON.stringify(kept),
        seal: typeof seal === 'string' ? seal : JSON.stringify(seal),
        ...(Number.isSafeInteger(told) ? { [number]: told } : {}),
      } as Record<string, string | number>;
      const names = Object.keys(changed);
      hand
        .prepare(`INSERT OR REPLACE INTO ${table} (${names.join()}) VALUES (${names.map(() => '?').join()})`)
        .run(...Object.values(changed));
    },
  };
}

async function halfWay(root: string): Promise<HalfWay & Disposable> {
  const log = createSqlitePageLog(join(root, 'state.sqlite'));
  const hand = new DatabaseSync(join(root, 'state.sqlite'));
  const run = (await log.head(exportName))?.active?.run;
  const facts = (await readdir(join(root, folder, '.facts'))).toSorted();
  const entry = (page: number) =>
    row(hand, 'pages', `export = '${exportName}' AND run = '${run}' AND page = ${page}`, `entry of page ${page}`);
  return {
    store: createDirectoryPageStore(root),
    log,
    blindToSameSize: true,
    things: [
      row(hand, 'heads', `export = '${exportName}'`, 'head'),
      entry(1),
      entry(2),
      ...facts.map((name) => file(root, `${folder}/.facts/${name}`, 'facts', 'text')),
      ...[1, 2, 3, 4, 9].map((page) => file(root, `${folder}/page-00000${page}.xml`, 'page', 'bytes')),
      file(root, `${folder}/manifest.json`, 'manifest', 'bytes'),
      file(root, `${exportName}/latest.json`, 'latest', 'text'),
    ],
    deleteHead: async () => hand.exec('DELETE FROM heads'),
    async objects() {
      const found = await readdir(root, { recursive: true, withFileTypes: true });
      const keys = found
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
        .filter((key) => key.startsWith(`${exportName}/`) && !key.includes('/.'));
      return new Map(await Promise.all(keys.map(async (key) => [key, await readFile(join(root, key))] as const)));
    },
    [Symbol.dispose]() {
      hand.close();
      log.close();
    },
  };
}

describe('whatever somebody edits in the directory or the state', () => {
  test.prop([fc.array(handEdit, { minLength: 1, maxLength: 3 })], { numRuns: 20 })(
    'the run is published as it is, or not at all, with an error that says why',
    async (edits) => {
      await using directory = await temporaryDirectory();
      await cp(template.path, directory.path, { recursive: true });
      using edited = await halfWay(directory.path);
      await expectAnHonestEndAfter(edits, edited);
    },
    300_000,
  );
});
