import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { beforeAll, describe, expect, inject, it } from 'vitest';
import { recipe } from '../../support/docs/recipes.ts';
import type { Manifest } from '../../support/export/export-bench.ts';
import { aTreeExport } from '../../support/export/tree-export.ts';
import {
  addAbandonedRun,
  type ConsumedExport,
  engineTimeoutMs,
  exportInBucket,
  exportInDirectory,
  otherFormats,
  publishAllKinds,
  recipesPython,
  reportNow,
  runProgram,
} from '../support/consumed-export.ts';

const runs = recipe('duckdb/runs.sql');
const verified = [runs, recipe('duckdb/pages.sql'), recipe('duckdb/verify.sql')];

describe('the queries', { timeout: engineTimeoutMs }, () => {
  let python: string;
  let duckdb: string;
  /** It has the extensions, as after a download. */
  let home: string;
  beforeAll(async () => {
    python = await recipesPython();
    duckdb = join(dirname(python), 'duckdb');
    home = await mkdtemp(join(inject('workDirectory'), 'duckdb-'));
    const extensions = ['httpfs', 'aws', 'sqlite_scanner'].map((name) => `duckdb_extension_${name}`);
    const find = [
      `import ${extensions.join(', ')}, pathlib`,
      `for m in ${extensions.join(', ')}: print(next(pathlib.Path(m.__path__[0]).rglob("*.duckdb_extension")))`,
    ].join('\n');
    const files = (await runProgram(python, ['-c', find])).trim().split('\n');
    await runProgram(duckdb, ['-c', files.map((file) => `INSTALL '${file}';`).join(' ')], { env: { HOME: home } });
  }, engineTimeoutMs);

  it.each([
    ['a stack', exportInBucket],
    ['a directory', exportInDirectory],
  ])('read the runs of %s, their pages, and which reports are current', async (_, openExport) => {
    const consumed = await openExport('duckdb');
    const { query, catchUp } = await prepare(consumed);
    const first = await consumed.publish(['r1', 'r2', 'r3'].map((id) => reportNow(id)));
    await addAbandonedRun(consumed, first);
    const second = await consumed.publish(['r2', 'r3', 'r4'].map((id) => reportNow(id)));
    const empty = await consumed.publish([]);
    const published = [first, second, empty];

    // Without pages.sql, a table of runs needs no manifest.
    expect(await query(0, [runs], 'SELECT sequence, run, pages, reports FROM runs ORDER BY sequence')).toEqual(
      published.map(({ sequence, run, totals: { pages, reports } }) => ({ sequence, run, pages, reports })),
    );
    const pagesOf = (some: readonly Manifest[]) =>
      some.flatMap(({ run, pages }) =>
        pages.map(({ page, key, bytes, sha256, storedBytes = null, storedSha256 = null, reports }) => ({
          run,
          page,
          parent: null,
          key,
          bytes,
          sha256,
          storedBytes,
          storedSha256,
          reports,
        })),
      );
    const selectPages = 'SELECT * EXCLUDE (sequence, reportsAt) FROM pages ORDER BY sequence, page';
    for (const _ of ['once', 'again']) expect(await query(0, verified, selectPages)).toEqual(pagesOf(published));
    expect(await query(Number(second.sequence), verified, selectPages)).toEqual(pagesOf([second, empty]));

    await catchUp();
    expect(await query(0, [runs, recipe('duckdb/current.sql')])).toMatchObject([
      { run: first.run, delivered: 3, current: 1 },
      { run: second.run, delivered: 3, current: 3 },
      { run: empty.run, delivered: 0, current: 0 },
    ]);

    await consumed.damage(second.pages[1]?.key ?? '', (text) => text.replace('r4', 'r5'));
    await expect(query(0, verified)).rejects.toThrow(`Page 2 of run ${second.run} does not match its manifest`);
    expect(await query(Number(empty.sequence), verified, selectPages)).toEqual(pagesOf([empty]));

    const manifest = first.pages[0]?.key.replace(/[^/]*$/, 'manifest.json') ?? '';
    const text = await consumed.read(manifest);
    const change = (from: string | RegExp, to: string) => consumed.write(manifest, text.replace(from, to));
    await change('"manifestVersion": 1', '"manifestVersion": 2');
    await expect(query(0, verified)).rejects.toThrow(`Unknown version in ${manifest}`);
    await change(/ {4}\{"page":2.*\n/, '');
    await expect(query(0, verified)).rejects.toThrow(`${manifest} does not have 2 pages`);
    // A failed query changes nothing.
    expect(await query(0, [], selectPages)).toEqual(pagesOf([empty]));
  });

  it.each(['json', 'ndjson', 'csv'] as const)('read the reports of pages of %s, compressed or not', async (format) => {
    const consumed = await exportInDirectory('duckdb', otherFormats[format]);
    const { query } = await prepare(consumed);
    const program = recipe(format === 'csv' ? 'duckdb/reports-csv.sql' : 'duckdb/reports-json.sql');
    const texts = ['<r id="r1" />', '<r id="r2">\n"Zürich", 北京</r>', '<r id="r3" />'];
    const reports = () => texts.map((xml, index) => reportNow(`r${index + 1}`, xml));
    const first = await consumed.publish(reports());
    const second = await consumed.publish(reports().slice(0, 1));
    expect(second.pages[0]?.key).toMatch(new RegExp(`\\.${format}\\.gz$`));

    const columns = format === 'csv' ? 'id, xml' : "report ->> 'id' AS id, report ->> 'xml' AS xml";
    expect(await query(0, [...verified, program], `SELECT run, page, ${columns} FROM reports`)).toEqual([
      { run: first.run, page: 1, id: 'r1', xml: texts[0] },
      { run: first.run, page: 1, id: 'r2', xml: texts[1] },
      { run: first.run, page: 2, id: 'r3', xml: texts[2] },
      { run: second.run, page: 1, id: 'r1', xml: texts[0] },
    ]);
  });

  it('read nightly, bounded and sliced runs, which arrive in any order', async () => {
    const consumed = await exportInDirectory('duckdb');
    const { query, catchUp } = await prepare(consumed);
    const { nightly, bounded, sliced, arrive } = await publishAllKinds(consumed);
    const select =
      'SELECT run, bounded, page, pages.reports FROM pages JOIN runs USING (run) ORDER BY runs.sequence, page';
    const rows = [nightly, bounded, sliced].map((manifest) =>
      manifest.pages.map(({ page, reports }) => ({ run: manifest.run, bounded: manifest === bounded, page, reports })),
    );
    await catchUp();
    expect(await query(0, verified, select)).toEqual(rows.slice(1).flat());
    await arrive();
    expect(await query(0, verified, select)).toEqual(rows.flat());
    await catchUp();
    expect(await query(0, [runs, recipe('duckdb/current.sql')])).toMatchObject([
      { run: nightly.run, delivered: 3, current: 1 },
      { run: bounded.run, delivered: 2, current: 1 },
      { run: sliced.run, delivered: 2, current: 2 },
    ]);
  });

  const texts = [
    '{"id":"r1","n":12345678901234567.89,"m":-0.10,"e":1E400,"t":"0.10 \\"0.20\\" \\\\"}',
    '{"id":1.0,"l":[0.0,7]}',
  ];
  it.each([
    ['ndjson', `\ufeff${texts.join('\n\n')}\n`],
    ['json', `{"next":0.1,"data":{"events":[${texts.join(',')}]}}`],
  ] as const)('keep the numbers in pages of %s', async (format, text) => {
    const consumed = await exportInDirectory('duckdb', otherFormats[format]);
    const { query } = await prepare(consumed);
    const { pages } = await consumed.publish(['r1', 'r2'].map((id) => reportNow(id)));
    await consumed.write(pages[0]?.key ?? '', text);
    const files = [runs, recipe('duckdb/pages.sql'), recipe('duckdb/reports-json.sql')];
    expect(await query(0, files, 'SELECT report::VARCHAR AS report FROM reports')).toEqual(
      texts.map((report) => ({ report })),
    );
  });

  it('read CSV without names of columns', async () => {
    const api = { ...otherFormats.csv, page: { format: 'csv', reports: '/*' } } as const;
    const consumed = await exportInDirectory('duckdb', api);
    const { query } = await prepare(consumed);
    const { pages } = await consumed.publish(['r1', 'r2'].map((id) => reportNow(id)));
    await consumed.write(pages[0]?.key ?? '', 'r1,0.10\nr2,0.20\n');
    const files = [runs, recipe('duckdb/pages.sql'), recipe('duckdb/reports-csv.sql')];
    expect(await query(0, files, 'SELECT column0, column1 FROM reports')).toEqual([
      { column0: 'r1', column1: '0.10' },
      { column0: 'r2', column1: '0.20' },
    ]);
  });

  /** A folder for the databases, of DuckDB and of the Python program. */
  async function prepare(consumed: ConsumedExport) {
    const folder = await mkdtemp(join(inject('workDirectory'), 'duckdb-'));
    const env = { HOME: home };
    const { source, name } = consumed;
    const [s3, selected] = [join(folder, 's3.sql'), join(folder, 'select.sql')];
    await writeFile(s3, withEndpoint(await readFile(recipe('duckdb/s3.sql'), 'utf8')));
    return {
      folder,
      catchUp: () => consumed.run(python, [recipe('python/catch_up.py'), source, name, join(folder, 'reports.sqlite')]),
      query: async (first: number, queries: readonly string[], select?: string): Promise<unknown> => {
        if (select !== undefined) await writeFile(selected, select);
        const files = [
          ...(source.startsWith('s3:') ? [s3] : []),
          ...queries,
          ...(select === undefined ? [] : [selected]),
        ];
        const options = { env, cwd: folder };
        const variables = `SET VARIABLE source = '${source}'; SET VARIABLE export = '${name}'; SET VARIABLE first = ${first}`;
        const words = ['reports.duckdb', '-bail', '-json', '-cmd', variables, ...files.flatMap((file) => ['-f', file])];
        const output = await consumed.run(duckdb, words, options);
        // An array per statement with rows.
        return JSON.parse(output.slice(output.lastIndexOf('\n[') + 1) || '[]');
      },
    };
  }
});

it('the queries work as the docs call them', { timeout: engineTimeoutMs }, async () => {
  const python = await recipesPython();
  const consumed = await exportInDirectory('duckdb', otherFormats.csv);
  await consumed.publish(['r1', 'r2', 'r3'].map((id) => reportNow(id)));
  await consumed.publish([reportNow('r4')]);
  const cwd = dirname(consumed.source);
  const select = join(consumed.source, 'select.sql');
  await writeFile(select, 'SELECT count(*) AS reports FROM reports');
  const words = [`${basename(consumed.source)}.duckdb`, `./${basename(consumed.source)}`, consumed.name, '0'];
  const files = [...verified, recipe('duckdb/reports-csv.sql'), select];
  const output = await consumed.run(python, [recipe('duckdb/run_queries.py'), ...words, ...files], { cwd });
  expect(JSON.parse(output)).toEqual({ reports: 4 });
});

it(
  'the queries join the reports of runs with parents, bounded ones included',
  { timeout: engineTimeoutMs },
  async () => {
    const python = await recipesPython();
    const { out, publish } = await aTreeExport();
    const issue = (id: number) => ({ id, title: `issue ${id}` });
    const first = await publish({ 'a/b': [1, 2, 3].map(issue), 'a/c': [1].map(issue), 'a/gone': [4].map(issue) }, [
      'a/gone',
    ]);
    const second = await publish({ 'a/c': [5].map(issue), 'a/b': [] }, [], '--parents', 'RUN');
    const empty = await publish({});
    expect(empty.summary.pages).toBe(0);
    const [parents, select] = [join(out, 'parents.sql'), join(out, 'select.sql')];
    await writeFile(
      parents,
      (await readFile(recipe('duckdb/parents.sql'), 'utf8')).replace("->> '/id'", "->> '/name'"),
    );
    await writeFile(
      select,
      "SELECT run, page, parent, report ->> '/id' AS id, parentReport ->> '/id' AS repo FROM children ORDER BY sequence, page, id",
    );
    const load = async (name: string, first: number, ...files: readonly string[]) => {
      const queries = [...verified, recipe('duckdb/reports-json.sql'), ...files];
      const words = [recipe('duckdb/run_queries.py'), join(out, 'tree.duckdb'), out, name, String(first), ...queries];
      return (await runProgram(python, words)).split('\n').filter((line) => line !== '');
    };
    const children = recipe('duckdb/children.sql');
    await load('repos', 0, parents);
    expect((await load('issues', 0, children, select)).map((line) => JSON.parse(line) as unknown)).toEqual([
      ...[
        { page: 1, parent: 'a/b', id: '1', repo: '1' },
        { page: 1, parent: 'a/b', id: '2', repo: '1' },
        { page: 2, parent: 'a/b', id: '3', repo: '1' },
        { page: 3, parent: 'a/c', id: '1', repo: '2' },
      ].map((row) => ({ run: first.issues.run, ...row })),
      { run: second.issues.run, page: 1, parent: 'a/c', id: '5', repo: '1' },
    ]);
    // Alone, the run has no page.
    expect(await load('issues', empty.summary.sequence, children, select)).toEqual([]);
    await load('repos', 0, recipe('duckdb/parents.sql'));
    await expect(load('issues', 0, children)).rejects.toThrow('The table parents does not have a/');
  },
);

/** The emulator's address. On AWS, DuckDB derives it from the region. */
const withEndpoint = (sql: string): string =>
  sql.replace(
    'credential_chain)',
    `credential_chain, ENDPOINT '${new URL(inject('miniStack')).host}', URL_STYLE 'path', USE_SSL false)`,
  );
