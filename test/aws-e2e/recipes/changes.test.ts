/** The programs that say which reports a full export no longer has: in Python, and as queries of DuckDB. */

import { readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { recipe } from '../../support/docs/recipes.ts';
import { aTreeExport, type Tree } from '../../support/export/tree-export.ts';
import { engineTimeoutMs, recipesPython, runProgram } from '../support/consumed-export.ts';

const queries = ['runs', 'pages', 'verify', 'reports-json', 'changes'].map((name) => recipe(`duckdb/${name}.sql`));

/** Compares the published runs of issues that were not compared yet, and resolves to all changes of the newest one. */
type Compare = (out: string, run: { readonly run: string; readonly sequence: number }) => Promise<readonly string[]>;

describe.each(['python/changes.py', 'duckdb/changes.sql'])('%s', { timeout: engineTimeoutMs }, (program) => {
  let python: string;
  beforeAll(async () => {
    python = await recipesPython();
  }, engineTimeoutMs);

  const withPython: Compare = async (out, { run }) => {
    const folder = join(out, 'compared');
    await runProgram(python, [recipe('python/changes.py'), out, 'issues', folder]);
    const rows = readFileSync(join(folder, `changes-${run}.csv`), 'utf8')
      .trim()
      .split('\r\n');
    return rows.slice(1).toSorted();
  };
  const withDuckDb: Compare = async (out, { run, sequence }) => {
    const database = join(out, 'compared.duckdb');
    const select = join(out, 'select.sql');
    await writeFile(select, `SELECT change, parent, id FROM changes WHERE run = '${run}' ORDER BY ALL`);
    const script = recipe('duckdb/run_queries.py');
    const rows = await runProgram(python, [script, database, out, 'issues', String(sequence), ...queries, select]);
    const parsed = rows
      .trim()
      .split('\n')
      .filter((row) => row.includes('"id"'));
    return parsed.map((row) => Object.values(JSON.parse(row) as object).join(','));
  };
  const compare: Compare = program.endsWith('.py') ? withPython : withDuckDb;

  const one = { id: 1, title: 'one' };
  const two = { id: 2, title: 'two' };
  const three = { id: 3, title: 'three' };

  it('names what two runs in a row do not have, and nothing under a parent without pages', async () => {
    const { out, publish } = await aTreeExport();
    const changesOf = async (tree: Tree, gone: readonly string[] = []) => {
      const { summary } = await publish(tree, gone);
      const changes = await compare(out, summary);
      // Again: nothing is compared twice.
      expect(await compare(out, summary)).toEqual(changes);
      return changes;
    };
    const first = { a: [one, two, three], b: [one, two], c: [one] };
    expect(await changesOf(first)).toEqual([
      'added,a,1',
      'added,a,2',
      'added,a,3',
      'added,b,1',
      'added,b,2',
      'added,c,1',
    ]);
    // Missing for the first time; the parent b is gone, and c is not listed.
    expect(await changesOf({ a: [one, three], b: [] }, ['b'])).toEqual([]);
    expect(
      await changesOf(
        {
          a: [
            { ...one, title: 'ONE' },
            { id: 4, title: 'four' },
          ],
          b: [],
        },
        ['b'],
      ),
    ).toEqual(['added,a,4', 'changed,a,1', 'removed,a,2']);
    // What comes back was hidden from one run, or is new. What was under b counts from here.
    expect(await changesOf({ a: [two, three], b: [one], c: [one] })).toEqual(['added,a,2']);
    expect(await changesOf({ a: [two, three], b: [one], c: [] })).toEqual([
      'removed,a,1',
      'removed,a,4',
      'removed,b,2',
    ]);
  });

  it.each([
    ['has the reports since a time', (text: string) => text.replace('"full": true,\n', '')],
    ['were counted', (text: string) => text.replace(/"pagination": "[^"]*"/, '"pagination": "counted"')],
    ['is not that of the run before it', (text: string) => text.replace(/"requestSha256": "./, '"requestSha256": "x')],
  ])('refuses a run that %s', async (problem, change) => {
    const { out, publish } = await aTreeExport();
    const first = await publish({ a: [one] });
    await compare(out, first.summary);
    const second = await publish({ a: [] });
    const manifest = join(out, second.summary.manifest);
    await writeFile(manifest, change(await readFile(manifest, 'utf8')));
    await expect(compare(out, second.summary)).rejects.toThrow(problem);
  });

  it('leaves out bounded runs', async () => {
    const { out, publish } = await aTreeExport();
    const first = await publish({ a: [one] });
    await compare(out, first.summary);
    await publish({ a: [] }, [], '--parents', 'RUN');
    const second = await publish({ a: [] });
    expect(await compare(out, second.summary)).toEqual([]);
  });
});
