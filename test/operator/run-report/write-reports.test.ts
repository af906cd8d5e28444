import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import { type AllReportsOptions, writeAllReports } from '../../../lib/operator/run-report/write-reports.ts';
import type { IndexPage } from '../../../lib/operator/run-report/render-page.ts';
import { type ExportTarget, type Target, unreadableExport } from '../../../lib/operator/target.ts';
import { anExportBench, asExportTarget } from '../../support/export/export-bench.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { origin } from './example-runs.ts';

/** An export with `count` runs. */
async function someRuns(count: number): Promise<ExportTarget> {
  const bench = anExportBench();
  for (let run = 0; run < count; run += 1) {
    await bench.start();
    bench.advance(3_600_000);
  }
  return asExportTarget(bench);
}

async function aFolder() {
  const parent = await temporaryDirectory();
  onTestFinished(() => parent.remove());
  const directory = join(parent.path, 'reports');
  const write = async (
    deployed: ExportTarget,
    { exportName, ...options }: Partial<AllReportsOptions> & { readonly exportName?: string } = {},
  ) => {
    const broken = unreadableExport('broken', 'acme', new ExportError('PageConflictError', 'was changed'));
    const deployment = { open: async () => deployed, openAll: async () => [deployed, broken] };
    return await writeAllReports(deployment as unknown as Target, exportName, {
      origin,
      directory,
      maxRuns: 100,
      onPage: () => {},
      signal: new AbortController().signal,
      ...options,
    });
  };
  const readIndex = async () => {
    const html = await readFile(join(directory, 'index.html'), 'utf8');
    return JSON.parse(/id="data">(.*?)<\/script>/s.exec(html)?.[1] ?? '') as IndexPage;
  };
  return { directory, write, readIndex };
}

describe('the reports of all runs', () => {
  it('are a page per run and an index, what needs attention first; other files stay', async () => {
    const { directory, write, readIndex } = await aFolder();
    await mkdir(directory);
    await writeFile(join(directory, 'notes.txt'), 'mine');
    const deployed = await someRuns(3);
    const written = await write(deployed);
    const error = { name: 'PageConflictError', message: 'was changed' };
    expect(written.exports).toEqual([
      { export: 'broken', runs: 0, unreadable: [{ run: null, error }] },
      { export: deployed.name, runs: 3, unreadable: [] },
    ]);
    const { exports } = await readIndex();
    expect(exports).toMatchObject([
      { name: 'broken', state: 'unreadable', facts: ['PageConflictError: was changed'] },
      { name: deployed.name, state: 'completed' },
    ]);
    const files = exports.flatMap(({ runs }) => runs.map(({ page }) => ('file' in page ? page.file : '')));
    expect(await readdir(directory)).toEqual([...files, 'index.html', 'notes.txt'].sort());
  });

  it('are those of one export, and of its newest runs', async () => {
    const { directory, write } = await aFolder();
    const deployed = await someRuns(3);
    expect((await write(deployed, { exportName: deployed.name, maxRuns: 1 })).exports).toMatchObject([{ runs: 1 }]);
    expect(await readdir(directory)).toHaveLength(2);
  });

  it('say which run cannot be read, and include the others', async () => {
    const { directory, write } = await aFolder();
    const deployed = await someRuns(2);
    let reads = 0;
    const log: ExportTarget['log'] = {
      ...deployed.log,
      async *entries(chain) {
        reads += 1;
        if (reads === 1) throw new ExportError('PageConflictError', 'item 7 was changed');
        yield* deployed.log.entries(chain);
      },
    };
    const error = { name: 'PageConflictError', message: 'item 7 was changed' };
    const [written] = (await write({ ...deployed, log }, { exportName: deployed.name })).exports;
    expect(written).toMatchObject({ runs: 2, unreadable: [{ error }] });
    expect(await readdir(directory)).toHaveLength(2);
  });

  it('have no new index after an interruption, even if the page log ends with an error because of it', async () => {
    const { directory, write } = await aFolder();
    const interruption = new AbortController();
    const deployed = await someRuns(2);
    const log: ExportTarget['log'] = {
      ...deployed.log,
      async *entries(chain) {
        yield* deployed.log.entries(chain);
        interruption.abort();
        throw new Error('the client is closed');
      },
    };
    await expect(write({ ...deployed, log }, { signal: interruption.signal })).rejects.toThrow('aborted');
    expect(await readdir(directory)).toEqual([]);
  });

  it('need a directory that can be written', async () => {
    const { directory, write } = await aFolder();
    await writeFile(directory, '');
    await expect(write(await someRuns(1))).rejects.toThrow(`--to: cannot write ${directory}/`);
  });
});
