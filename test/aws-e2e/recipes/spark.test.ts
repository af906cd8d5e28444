import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { recipe } from '../../support/docs/recipes.ts';
import type { Manifest } from '../../support/export/export-bench.ts';
import { sparkLibraries } from '../emulators/java.ts';
import { region } from '../emulators/ministack.ts';
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
} from '../support/consumed-export.ts';

/** Runs the program of each line, in one Spark session, because starting one takes longer than most programs. */
const session = `
import json, runpy, sys
for line in sys.stdin:
    sys.argv = json.loads(line)
    try:
        program = runpy.run_path(sys.argv[0], run_name="__main__")
        rows = [row.asDict() for row in program["current"](sys.argv[3]).orderBy(program["IDENTITY"]).collect()]
        print(json.dumps({"rows": rows}), flush=True)
    except (Exception, SystemExit) as error:
        print(json.dumps({"error": str(error)}), flush=True)
`;

// Without Java or Maven, there is nothing to test.
const libraries = await sparkLibraries().catch(() => undefined);

describe.skipIf(libraries === undefined)('the Spark program catches up', { timeout: engineTimeoutMs }, () => {
  let spark: Awaited<ReturnType<typeof startSpark>>;
  let bucket: ConsumedExport;
  beforeAll(async () => {
    bucket = await exportInBucket('spark');
    spark = await startSpark(await recipesPython(), bucket.env);
  }, engineTimeoutMs);
  afterAll(() => spark?.stop());

  it.each([
    ['a stack', async () => bucket],
    ['a directory', () => exportInDirectory('spark')],
  ])('on the runs of %s, keeping each report as of the newest run', async (_, openExport) => {
    const consumed = await openExport();
    const folder = await mkdtemp(join(inject('workDirectory'), 'spark-'));
    const table = join(folder, 'table');
    const program = recipe('spark/reports.py');
    const catchUp = (file = program, name = consumed.name) =>
      spark.run([file, consumed.source.replace(/^s3:/, 's3a:'), name, table]);
    /** The program with a change. */
    const changed = async (from: string, to: string): Promise<string> => {
      const file = join(folder, 'reports.py');
      const text = await readFile(program, 'utf8');
      expect(text).toContain(from);
      await writeFile(file, text.replace(from, to));
      return file;
    };

    const first = await consumed.publish(['r1', 'r2', 'r3'].map((id) => reportNow(id)));
    await addAbandonedRun(consumed, first);
    const changedReport = reportNow('r2', '<r id="r2">changed</r>');
    const second = await consumed.publish([changedReport, ...['r3', 'r4'].map((id) => reportNow(id))]);
    const empty = await consumed.publish([]);
    const row = (
      _id: string,
      { sequence, run }: { sequence?: unknown; run: string },
      _VALUE: string | null = null,
    ) => ({
      sequence,
      _id,
      _VALUE,
      run,
    });
    const rows = [row('r1', first), row('r2', second, 'changed'), row('r3', second), row('r4', second)];
    expect(await catchUp()).toEqual({
      printed: [`run ${first.run}: 2 pages`, `run ${second.run}: 2 pages`, `run ${empty.run}: 1 pages`],
      rows,
    });
    expect(await catchUp()).toEqual({ printed: [], rows });

    const third = await consumed.publish(['r1', 'r5', 'r6'].map((id) => reportNow(id)));
    const restore = await consumed.damage(third.pages.at(-1)?.key ?? '', (text) => text.replace('r6', 'r7'));
    const notRecorded = 'The run is not recorded, so its reports do not count.';
    expect(await catchUp()).toEqual({
      printed: [],
      error: `Page 2 of run ${third.run} does not match its manifest. ${notRecorded}`,
    });
    await restore();
    // It writes the reports of the wrong element, which the next execution replaces.
    expect(await catchUp(await changed('ROW_TAG = "r"', 'ROW_TAG = "s"'))).toEqual({
      printed: [],
      error: expect.stringMatching(/^Page . of run \S+ does not have . reports: change ROW_TAG\./),
    });
    expect(await readdir(join(table, 'reports'))).toContain(`run=${third.run}`);
    // As after an interruption, more than the recorded runs is stored.
    const next = [row('r1', third), ...rows.slice(1), row('r5', third), row('r6', third)];
    expect(await catchUp()).toEqual({ printed: [`run ${third.run}: 2 pages`], rows: next });

    const fourth = await consumed.publish([reportNow('r1'), reportNow('r8'), reportNow('r9', '<r n="9"/>')]);
    expect(await catchUp()).toEqual({
      printed: [],
      error: `A report on page 2 of run ${fourth.run} has no identity: change IDENTITY and COLUMNS. ${notRecorded}`,
    });
    expect(await catchUp(program, 'mistyped')).toEqual({
      printed: [],
      error: expect.stringMatching(
        /^The runs of the export mistyped cannot be read from \S+ Check both names\. (\[PATH_NOT_FOUND\]|[\w.]+\.AccessDeniedException: )/,
      ),
    });
    const readCurrent = await changed('catch_up(args.source, args.export, args.table)', 'pass');
    expect(await catchUp(readCurrent)).toEqual({ printed: [], rows: next });
  });

  /** A directory, and the program with the columns of the simulator. */
  const prepare = async (format: keyof typeof otherFormats) => {
    const consumed = await exportInDirectory('spark', otherFormats[format]);
    const folder = await mkdtemp(join(inject('workDirectory'), 'spark-'));
    const program = join(folder, 'reports.py');
    const text = (await readFile(recipe('spark/reports.py'), 'utf8'))
      .replace(/^COLUMNS = .*$/m, 'COLUMNS = "id STRING, date STRING, type STRING, xml STRING"')
      .replace(/^IDENTITY = .*$/m, 'IDENTITY = "id"');
    await writeFile(program, text);
    const catchUp = () => spark.run([program, consumed.source, consumed.name, join(folder, 'table')]);
    return { consumed, catchUp };
  };

  it.each(['json', 'ndjson', 'csv'] as const)('on runs with pages of %s, compressed or not', async (format) => {
    const { consumed, catchUp } = await prepare(format);
    const first = await consumed.publish(['r1', 'r2', 'r3'].map((id) => reportNow(id)));
    const changed = reportNow('r2', '<r id="r2">\n"Zürich", 北京</r>');
    const second = await consumed.publish([changed, reportNow('r4')]);
    expect(second.pages[0]?.key).toMatch(new RegExp(`\\.${format}\\.gz$`));
    const row = (id: string, { sequence, run }: { sequence?: unknown; run: string }, xml = `<r id="${id}" />`) =>
      expect.objectContaining({ id, sequence, run, xml });
    expect(await catchUp()).toEqual({
      printed: [`run ${first.run}: 2 pages`, `run ${second.run}: 1 pages`],
      rows: [row('r1', first), row('r2', second, changed.xml), row('r3', first), row('r4', second)],
    });
  });

  it('on nightly, bounded and sliced runs, which arrive in any order', async () => {
    const consumed = await exportInDirectory('spark');
    const table = join(await mkdtemp(join(inject('workDirectory'), 'spark-')), 'table');
    const catchUp = () => spark.run([recipe('spark/reports.py'), consumed.source, consumed.name, table]);
    const { nightly, bounded, sliced, arrive, newest } = await publishAllKinds(consumed);
    const line = ({ run, pages }: Manifest) => `run ${run}: ${pages.length} pages`;
    expect(await catchUp()).toMatchObject({ printed: [line(bounded), line(sliced)] });
    await arrive();
    expect(await catchUp()).toMatchObject({
      printed: [line(nightly)],
      rows: Object.entries(newest).map(([_id, { run }]) => ({ _id, run })),
    });
    expect(await catchUp()).toMatchObject({ printed: [] });
  });

  /** A process with a Spark session, which runs programs one after the other. */
  async function startSpark(python: string, env: Readonly<Record<string, string>>) {
    const folder = await mkdtemp(join(inject('workDirectory'), 'spark-'));
    const jars = (await readdir(libraries ?? '')).map((name) => join(libraries ?? '', name));
    const settings = {
      'spark.master': 'local[2]',
      'spark.driver.memory': '512m',
      'spark.driver.host': '127.0.0.1',
      'spark.driver.bindAddress': '127.0.0.1',
      'spark.ui.enabled': 'false',
      'spark.ui.showConsoleProgress': 'false',
      'spark.sql.shuffle.partitions': '2',
      'spark.local.dir': folder,
      'spark.sql.warehouse.dir': join(folder, 'warehouse'),
      'spark.jars': jars.join(','),
      'spark.hadoop.fs.s3a.endpoint': inject('miniStack'),
      'spark.hadoop.fs.s3a.endpoint.region': region,
      'spark.hadoop.fs.s3a.path.style.access': 'true',
    };
    const lines = Object.entries(settings).map(([name, value]) => `${name} ${value}\n`);
    await writeFile(join(folder, 'spark-defaults.conf'), lines.join(''));
    const child = spawn(python, ['-c', session], {
      cwd: folder,
      env: {
        PATH: process.env.PATH,
        HOME: folder,
        TMPDIR: folder,
        SPARK_CONF_DIR: folder,
        SPARK_LOCAL_IP: '127.0.0.1',
        ...env,
      },
      // In a process group of its own, with Java.
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    const closed = once(child, 'close');
    let log = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-10_000);
    });
    const output = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    return {
      async run(words: readonly string[]): Promise<object> {
        child.stdin.write(`${JSON.stringify(words)}\n`);
        for (const printed: string[] = []; ;) {
          const { value, done } = await output.next();
          if (done) throw new Error(`Spark has ended: ${log}`);
          if (!value.startsWith('{')) printed.push(value);
          else return { printed, ...JSON.parse(value) };
        }
      },
      async stop(): Promise<void> {
        child.stdin.end();
        await Promise.race([closed, sleep(20_000, undefined, { ref: false })]);
        const hasEnded = child.exitCode !== null || child.signalCode !== null;
        if (!hasEnded && child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
      },
    };
  }
});
