/** Whatever somebody does by hand to the directory and the SQLite file: a true manifest, or an error with a name. */

import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fc, test } from '@fast-check/vitest';
import { afterAll, beforeAll, describe } from 'vitest';
import { createSqlitePageLog } from '../../lib/local/sqlite/page-log.ts';
import { directoryStore } from '../support/directory-store.ts';
import { comeHalfWay, expectAnHonestEndAfter, exportName, type HalfWay } from '../support/half-way.ts';
import { handEdit, type KeptThing } from '../support/hand-edits.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../support/temporary-directory.ts';

let template: TemporaryDirectory;
/** The folder of the run that was cut off, below the directory. */
let folder: string;

beforeAll(async () => {
  template = await temporaryDirectory();
  const log = createSqlitePageLog(join(template.path, 'state.sqlite'));
  using store = directoryStore(template.path);
  await comeHalfWay({ store, log });
  const run = (await log.exportState(exportName))?.active;
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

/** A row as one object: what stands in its JSON, its checksum, and its `#number`. */
function row(hand: DatabaseSync, table: 'export_states' | 'pages', where: string, name: string): KeptThing {
  const [json, number] = table === 'export_states' ? ['state', 'version'] : ['entry', 'page'];
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
        JSON.stringify({ ...JSON.parse(String(found[json])), checksum: found.checksum, '#number': found[number] }),
      );
    },
    async write(bytes) {
      first ??= read();
      hand.exec(`DELETE FROM ${table} WHERE ${where}`);
      if (bytes === undefined || first === undefined) return;
      const { checksum = '', '#number': told, ...kept } = JSON.parse(bytes.toString()) as Record<string, unknown>;
      const changed = {
        ...first,
        [json]: JSON.stringify(kept),
        checksum: typeof checksum === 'string' ? checksum : JSON.stringify(checksum),
        ...(Number.isSafeInteger(told) ? { [number]: told } : {}),
      } as Record<string, string | number>;
      const names = Object.keys(changed);
      hand
        .prepare(`INSERT OR REPLACE INTO ${table} (${names.join()}) VALUES (${names.map(() => '?').join()})`)
        .run(...Object.values(changed));
    },
  };
}

/** The facts of a page as one text, with their checksum among them; what is no JSON stands where the facts stood. */
function factsRow(root: string, page: number): KeptThing {
  const key = `${folder}/page-00000${page}.xml`;
  /** Opened only for a moment, as the file may be edited, too; undefined where nobody can make sense of it any more. */
  const inFile = <T>(act: (hand: DatabaseSync) => T): T | undefined => {
    try {
      using hand = new DatabaseSync(join(root, folder, '.facts.sqlite'));
      // A hand is free to put there what the table would refuse.
      hand.exec('PRAGMA ignore_check_constraints = ON');
      return act(hand);
    } catch {
      return undefined;
    }
  };
  const read = () =>
    inFile((hand) => hand.prepare('SELECT sha256, facts, checksum FROM facts WHERE key = ?').get(key)) as
      | { readonly sha256: string; readonly facts: string; readonly checksum: string }
      | undefined;
  const first = read();
  if (first === undefined) throw new Error(`there are no facts of ${key} to edit`);
  const withSeal = ({ facts, checksum }: { readonly facts: string; readonly checksum: string }) => {
    try {
      return JSON.stringify({ ...JSON.parse(facts), checksum });
    } catch {
      return facts;
    }
  };
  const apart = (text: string) => {
    try {
      const { checksum = '', ...facts } = JSON.parse(text) as Record<string, unknown>;
      return {
        facts: JSON.stringify(facts),
        checksum: typeof checksum === 'string' ? checksum : JSON.stringify(checksum),
      };
    } catch {
      return { facts: text, checksum: first.checksum };
    }
  };
  return {
    name: `facts of page ${page}`,
    kind: 'facts',
    form: 'text',
    async read() {
      const found = read();
      return found && Buffer.from(withSeal(found));
    },
    async write(bytes) {
      inFile((hand) => {
        hand.prepare('DELETE FROM facts WHERE key = ?').run(key);
        if (bytes === undefined) return;
        const { facts, checksum } = apart(bytes.toString());
        hand.prepare('INSERT INTO facts VALUES (?, ?, ?, ?)').run(key, first.sha256, facts, checksum);
      });
    },
  };
}

async function halfWay(root: string): Promise<HalfWay & Disposable> {
  const store = directoryStore(root);
  const log = createSqlitePageLog(join(root, 'state.sqlite'));
  const hand = new DatabaseSync(join(root, 'state.sqlite'));
  const run = (await log.exportState(exportName))?.active?.run;
  const entry = (page: number) =>
    row(hand, 'pages', `export = '${exportName}' AND run = '${run}' AND page = ${page}`, `entry of page ${page}`);
  return {
    store,
    log,
    blindToSameSize: true,
    things: [
      row(hand, 'export_states', `export = '${exportName}'`, 'head'),
      entry(1),
      entry(2),
      ...[1, 2, 3].map((page) => factsRow(root, page)),
      file(root, `${folder}/.facts.sqlite`, 'file of facts', 'bytes'),
      ...[1, 2, 3, 4, 9].map((page) => file(root, `${folder}/page-00000${page}.xml`, 'page', 'bytes')),
      file(root, `${folder}/manifest.json`, 'manifest', 'bytes'),
      file(root, `${exportName}/latest.json`, 'latest', 'text'),
    ],
    deleteHead: async () => hand.exec('DELETE FROM export_states'),
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
      store.close();
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
