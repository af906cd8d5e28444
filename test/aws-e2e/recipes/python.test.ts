import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { beforeAll, describe, expect, inject, it } from 'vitest';
import { sha256Of } from '../../support/builders.ts';
import { recipe } from '../../support/docs/recipes.ts';
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

const script = recipe('python/catch_up.py');

describe('the Python program catches up', { timeout: engineTimeoutMs }, () => {
  let python: string;
  let folder: string;
  beforeAll(async () => {
    python = await recipesPython();
    folder = await mkdtemp(join(inject('workDirectory'), 'python-'));
  }, engineTimeoutMs);

  it.each([
    ['a stack', exportInBucket],
    ['a directory', exportInDirectory],
  ])('on the runs of %s, keeping each report as of the newest run', async (place, openExport) => {
    const consumed = await openExport('python');
    const database = join(folder, `${place}.sqlite`);
    const catchUp = () => consumed.run(python, [script, consumed.source, consumed.name, database]);
    const stored = () => readDatabase(database);

    const first = await consumed.publish(['r1', 'r2', 'r3'].map((id) => reportNow(id)));
    await addAbandonedRun(consumed, first);
    const changed = reportNow('r2', '<r id="r2"><n>&lt;2&gt;</n></r>');
    const second = await consumed.publish([changed, ...['r3', 'r4'].map((id) => reportNow(id))]);
    const empty = await consumed.publish([]);
    expect(await catchUp()).toBe(
      `run ${first.run}: 3 reports\nrun ${second.run}: 3 reports\nrun ${empty.run}: 0 reports\n`,
    );
    const { runs, reports } = stored();
    expect(runs).toEqual([first, second, empty].map(({ sequence, run }) => ({ sequence, run })));
    expect(reports).toEqual([
      { id: 'r1', sequence: first.sequence, report: '<r id="r1" />' },
      { id: 'r2', sequence: second.sequence, report: '<r id="r2"><n>&lt;2&gt;</n></r>' },
      { id: 'r3', sequence: second.sequence, report: '<r id="r3" />' },
      { id: 'r4', sequence: second.sequence, report: '<r id="r4" />' },
    ]);
    expect(await catchUp()).toBe('');
    expect(stored()).toEqual({ runs, reports });

    // The last page of the next run is damaged, so nothing of the run is stored until it has been restored.
    // 12 MB, which boto3 fetches in parts and does not keep in memory.
    const large = reportNow('r5', `<r id="r5">${'x'.repeat(12_000_000)}</r>`);
    const third = await consumed.publish([reportNow('r1'), large, reportNow('r6')]);
    const restore = await consumed.damage(third.pages.at(-1)?.key ?? '', (text) => text.replace('r6', 'r7'));
    await expect(catchUp()).rejects.toThrow(
      `Page 2 of run ${third.run} does not match its manifest. Nothing of this run was stored.`,
    );
    expect(stored()).toEqual({ runs, reports });
    await restore();
    expect(await catchUp()).toBe(`run ${third.run}: 3 reports\n`);
    expect(stored().reports.map(({ id, sequence }) => [id, sequence])).toEqual([
      ['r1', third.sequence],
      ['r2', second.sequence],
      ['r3', second.sequence],
      ['r4', second.sequence],
      ['r5', third.sequence],
      ['r6', third.sequence],
    ]);
  });

  it.each(['json', 'ndjson', 'csv'] as const)('on runs with pages of %s, compressed or not', async (format) => {
    const consumed = await exportInDirectory('python', otherFormats[format]);
    const database = join(folder, `${format}.sqlite`);
    const catchUp = () => consumed.run(python, [script, consumed.source, consumed.name, database]);

    const first = await consumed.publish(['r1', 'r2', 'r3'].map((id) => reportNow(id)));
    const changed = reportNow('r2', '<r id="r2">\n"Zürich", 北京</r>');
    const second = await consumed.publish([changed, reportNow('r4')]);
    expect(first.pages[0]?.key).toMatch(new RegExp(`\\.${format}$`));
    expect(second.pages[0]?.key).toMatch(new RegExp(`\\.${format}\\.gz$`));
    expect(await catchUp()).toBe(`run ${first.run}: 3 reports\nrun ${second.run}: 2 reports\n`);
    const { reports } = readDatabase(database);
    expect(
      reports.map(({ id, sequence, report }) => [id, sequence, (JSON.parse(String(report)) as { xml: string }).xml]),
    ).toEqual([
      ['r1', first.sequence, '<r id="r1" />'],
      ['r2', second.sequence, changed.xml],
      ['r3', first.sequence, '<r id="r3" />'],
      ['r4', second.sequence, '<r id="r4" />'],
    ]);

    const third = await consumed.publish([reportNow('r1')]);
    const key = third.pages[0]?.key ?? '';
    const manifest = key.replace(/[^/]*$/, 'manifest.json');
    const text = await consumed.read(manifest);
    await consumed.write(manifest, text.replace(/"reportsAt": .*/, '"reportsAt": {"kind":"unknown"},'));
    await expect(catchUp()).rejects.toThrow(
      `The manifest does not say where the reports of Page 1 of run ${third.run} are`,
    );
  });

  it('on nightly, bounded and sliced runs, which arrive in any order', async () => {
    const consumed = await exportInDirectory('python');
    const database = join(folder, 'kinds.sqlite');
    const catchUp = () => consumed.run(python, [script, consumed.source, consumed.name, database]);
    const { nightly, bounded, sliced, arrive, newest } = await publishAllKinds(consumed);
    expect(await catchUp()).toBe(`run ${bounded.run}: 2 reports\nrun ${sliced.run}: 2 reports\n`);
    await arrive();
    expect(await catchUp()).toBe(`run ${nightly.run}: 3 reports\n`);
    expect(readDatabase(database).reports.map(({ id, sequence }) => [id, sequence])).toEqual(
      Object.entries(newest).map(([id, { sequence }]) => [id, sequence]),
    );
    expect(await catchUp()).toBe('');
  });

  it('on a run with parents, keeping a report of each, although these have the same ID', async () => {
    const { out, publish } = await aTreeExport();
    const database = join(out, 'issues.sqlite');
    const title = 'an issue';
    const { summary } = await publish({ 'a/b': [{ id: 1, title }], 'a/c': [{ id: 1, title }] });
    const { summary: empty } = await publish({});
    expect(await runProgram(python, [script, out, 'issues', database])).toBe(
      `run ${summary.run}: 2 reports\nrun ${empty.run}: 0 reports\n`,
    );
    const report = `{"id":1,"title":"${title}"}`;
    expect(readDatabase(database, 'parent, id, report')).toEqual({
      runs: [summary, empty].map(({ sequence, run }) => ({ sequence, run })),
      reports: [
        { parent: 'a/b', id: '1', report },
        { parent: 'a/c', id: '1', report },
      ],
    });
  });

  it('on a run whose clock was behind by months, after one whose clock was ahead', async () => {
    const consumed = await exportInDirectory('python');
    const database = join(folder, 'clocks.sqlite');
    const catchUp = () => consumed.run(python, [script, consumed.source, consumed.name, database]);
    for (const [index, run] of [
      '20270601T000000Z-aaaaaaaaaaaa',
      '20261120T000000Z-bbbbbbbbbbbb',
      '20260101T000000Z-cccccccccccc',
    ].entries()) {
      await publishRun(consumed, { run, sequence: index + 1, body: `<rs><r id="r1">${index}</r></rs>` });
      expect(await catchUp()).toBe(`run ${run}: 1 reports\n`);
      expect(readDatabase(database).reports).toEqual([
        { id: 'r1', sequence: index + 1, report: `<r id="r1">${index}</r>` },
      ]);
    }
  });

  const numbers = '"n":12345678901234567.89, "m" : 0.10,"e":1E400,"text":"\\u00e9 \\"0.10\\""';
  const jsonReports = [`{"id":"r1",${numbers}}`, `{"id":12345678901234567890.10,"list":[0.0,{"id": 1}]}`];
  it.each([
    ['ndjson', { kind: 'ndjson' }, `\ufeff${jsonReports[0]}\n\n \t\r\n${jsonReports[1]}\r\n`],
    ['json', { kind: 'json', list: '/da~1ta/1' }, `\ufeff{"x":1.0,"da/ta":[ {}, [ ${jsonReports.join(' ,\n')} ] ]}`],
    ['json', { kind: 'json', list: '' }, ` [${jsonReports.join(',')}]`],
  ])('on %s with %j, keeping the text of each report', async (extension, reportsAt, body) => {
    const consumed = await exportInDirectory('python');
    const database = join(consumed.source, 'texts.sqlite');
    await publishRun(consumed, { extension, reportsAt, body, reports: 2 });
    // Without defusedxml, which only XML needs.
    const withoutXml =
      'import runpy, sys; sys.modules["defusedxml"] = None; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name="__main__")';
    await consumed.run(python, ['-c', withoutXml, script, consumed.source, consumed.name, database]);
    expect(readDatabase(database).reports).toEqual([
      { id: '12345678901234567890.10', sequence: 1, report: jsonReports[1] },
      { id: 'r1', sequence: 1, report: jsonReports[0] },
    ]);
  });

  it('on XML whose reports are at a path, and on CSV without names of columns', async () => {
    const consumed = await exportInDirectory('python');
    const feed =
      '<feed xmlns="urn:a"><r id="x"/><data><r id="r1"><r id="inner"/></r><s id="y"/><r id="r2"/></data></feed>';
    await publishRun(consumed, { reportsAt: { kind: 'xml', path: '/feed/data/r' }, body: feed, reports: 2 });
    const rows = {
      extension: 'csv',
      reportsAt: { kind: 'csv', header: false },
      body: '\ufeffr3,0.10\n\n"r4",x\n',
      reports: 2,
    };
    await publishRun(consumed, { run: '20261121T110243Z-f59183b2d407', sequence: 2, ...rows });
    const program = join(consumed.source, 'changed.py');
    const text = await readFile(script, 'utf8');
    await writeFile(
      program,
      text.replace('return report.get("id")', 'return report[0] if isinstance(report, list) else report.get("id")'),
    );
    const database = join(consumed.source, 'paths.sqlite');
    const unchanged = consumed.run(python, [script, consumed.source, consumed.name, database]);
    await expect(unchanged).rejects.toThrow('has no identity: ["r3", "0.10"]\nChange identity() in this program.');
    await consumed.run(python, [program, consumed.source, consumed.name, database]);
    const { reports } = readDatabase(database);
    expect(reports.map(({ id }) => id)).toEqual(['r1', 'r2', 'r3', 'r4']);
    expect(reports.at(2)?.report).toBe('["r3", "0.10"]');
  });

  it('rejects entities, and a manifest that is cut off', async () => {
    const consumed = await exportInDirectory('python');
    const catchUp = () =>
      consumed.run(python, [script, consumed.source, consumed.name, join(folder, 'hostile.sqlite')]);
    const bomb = '<!DOCTYPE rs [<!ENTITY a "aaaa">]><rs><r id="r1">&a;</r></rs>';
    await publishLargeRun(consumed, { pages: 3, body: bomb });
    await expect(catchUp()).rejects.toThrow(/Page 1 of run \S+ cannot be parsed: EntitiesForbidden/);

    const { manifest } = await publishLargeRun(consumed, { pages: 3, body: '<rs><r id="r1"/></rs>' });
    const text = await consumed.read(manifest);
    await consumed.write(manifest, text.slice(0, text.indexOf('    {"page":3')));
    await expect(catchUp()).rejects.toThrow(`${manifest} has 2 pages instead of 3`);
    await consumed.write(manifest, text.replace('"manifestVersion": 1', '"manifestVersion": 2'));
    await expect(catchUp()).rejects.toThrow(`${manifest} has an unknown version: "manifestVersion": 2,`);
  });

  it('fails if a page has another number of reports, or a file is missing or damaged', async () => {
    const consumed = await exportInDirectory('python');
    const database = join(folder, 'damaged.sqlite');
    const catchUp = (name = consumed.name) => consumed.run(python, [script, consumed.source, name, database]);
    const { manifest } = await publishLargeRun(consumed, { pages: 1, body: '<rs><r id="r1"/><r n="2"/></rs>' });
    await expect(catchUp()).rejects.toThrow(
      /Report 2 on page 1 of run \S+ has no identity: <r n="2" \/>\nChange identity\(\) in this program\./,
    );
    await publishLargeRun(consumed, { pages: 1, body: '<rs><r id="r1"/><r id="r2"/></rs>' });
    await expect(catchUp()).rejects.toThrow(/Page 1 of run \S+ has 2 reports instead of 1/);

    const { pages: [first] = [] } = JSON.parse(await consumed.read(manifest));
    await rm(join(consumed.source, first.key));
    await expect(catchUp()).rejects.toThrow(`${first.key} cannot be read`);
    const summary = manifest.replace('manifest.json', 'run.json');
    const intact: unknown = JSON.parse(await consumed.read(summary));
    await consumed.write(summary, '');
    await expect(catchUp()).rejects.toThrow(`${summary} is damaged`);
    await consumed.write(summary, '{"runVersion":2}');
    await expect(catchUp()).rejects.toThrow(`${summary} has an unknown runVersion`);
    await consumed.write(manifest, (await consumed.read(manifest)).replace('{"page":1', '{"page":x1'));
    await consumed.write(summary, JSON.stringify(intact));
    await expect(catchUp()).rejects.toThrow(`${manifest} is damaged`);
    expect(readDatabase(database)).toEqual({ runs: [], reports: [] });
  });

  it('fails if a compressed page is not a complete gzip file, or compressed in another way', async () => {
    const consumed = await exportInDirectory('python');
    const database = join(folder, 'compressed.sqlite');
    const catchUp = () => consumed.run(python, [script, consumed.source, consumed.name, database]);
    await consumed.publish([reportNow('r1')]);
    await catchUp();
    const { run, pages } = await consumed.publish([reportNow('r1')]);
    const key = pages[0]?.key ?? '';
    const object = await readFile(join(consumed.source, key));
    for (const [damaged, message] of [
      [object.subarray(0, -9), 'Compressed file ended'],
      [object.subarray(1), 'Not a gzipped file'],
      [Buffer.from(object.map((byte, index) => (index === object.length - 8 ? byte ^ 1 : byte))), 'CRC check failed'],
    ] as const) {
      await writeFile(join(consumed.source, key), damaged);
      await expect(catchUp()).rejects.toThrow(`Page 1 of run ${run} cannot be decompressed: ${message}`);
    }
    const manifest = key.replace(/[^/]*$/, 'manifest.json');
    await consumed.write(manifest, (await consumed.read(manifest)).replace(/("page":1.*)"gzip"/, '$1"zstd"'));
    await expect(catchUp()).rejects.toThrow(`${key} has an unknown compression`);
    expect(readDatabase(database).runs).toHaveLength(1);
  });

  it('in an amount of memory that does not depend on the number of pages', async () => {
    const memoryFor = async (pages: number): Promise<number> => {
      const consumed = await exportInDirectory('python');
      const { manifest } = await publishLargeRun(consumed, { pages, body: '<rs><r id="r1"/></rs>' });
      const database = join(folder, `${pages}.sqlite`);
      const measured = [
        'import re, runpy, sys',
        'sys.argv = sys.argv[1:]',
        'runpy.run_path(sys.argv[0], run_name="__main__")',
        // The peak of this program alone: that of getrusage includes the process that started it.
        'print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])',
      ].join('\n');
      const output = await consumed.run(python, ['-c', measured, script, consumed.source, consumed.name, database]);
      const [summary, kibibytes] = output.split('\n');
      expect(summary).toMatch(new RegExp(`: ${pages} reports$`));
      expect((await stat(join(consumed.source, manifest))).size).toBeGreaterThan(pages * 250);
      return Number(kibibytes) / 1024;
    };
    // The manifest alone has 8 MB.
    expect((await memoryFor(30_000)) - (await memoryFor(1_000))).toBeLessThan(4);
  });
});

/** Writes a run whose pages are all the same object, with a manifest and summary of the real format. */
const publishLargeRun = (consumed: ConsumedExport, given: { readonly pages: number; readonly body: string }) =>
  publishRun(consumed, given);

async function publishRun(
  consumed: ConsumedExport,
  {
    run = '20261120T110243Z-f59183b2d407',
    sequence = 1,
    pages = 1,
    reports = 1,
    extension = 'xml',
    reportsAt = { kind: 'xml', path: '/*/*' } as object,
    body = '',
  },
): Promise<{ manifest: string }> {
  const day = run.replace(/^(....)(..)(..).*/, '$1-$2-$3');
  const folder = `${consumed.name}/date=${day}/run=${run}`;
  const key = `${folder}/page-000001.${extension}`;
  const manifest = `${folder}/manifest.json`;
  const cursor = '1588888888888,550e8400-e29b-41d4-a716-446655440000';
  const page = { key, bytes: Buffer.byteLength(body), sha256: sha256Of(body), reports, cursor };
  const header = JSON.stringify({ manifestVersion: 1, export: consumed.name, run, sequence }, null, 2).slice(0, -2);
  const lines = Array.from({ length: pages }, (_, index) => `    ${JSON.stringify({ page: index + 1, ...page })}`);
  await consumed.write(key, body);
  await consumed.write(
    manifest,
    `${header},\n  "reportsAt": ${JSON.stringify(reportsAt)},\n  "pages": [\n${lines.join(',\n')}\n  ]\n}\n`,
  );
  const startedAt = `${day}T11:02:43Z`;
  const summary = { runVersion: 1, run, sequence, startedAt, pages, reports: pages * reports, manifest };
  await consumed.write(`${folder}/run.json`, `${JSON.stringify(summary)}\n`);
  return { manifest };
}

function readDatabase(file: string, columns = 'id, sequence, report') {
  using db = new DatabaseSync(file, { readOnly: true });
  const rows = (query: string) =>
    db
      .prepare(query)
      .all()
      .map((row) => ({ ...row }));
  return {
    runs: rows('SELECT sequence, run FROM run ORDER BY sequence'),
    reports: rows(`SELECT ${columns} FROM report ORDER BY id, parent`),
  };
}
