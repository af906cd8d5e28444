import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { DeployedExport, Deployment } from '../../../../lib/target/target.ts';
import { type AllReportsOptions, writeAllReports } from '../../../../lib/operator/run-report/history/all-reports.ts';
import { anExportBench, asDeployedExport } from '../../../support/export/export-bench.ts';
import { temporaryDirectory } from '../../../support/temporary-directory.ts';
import { origin } from './example-histories.ts';

function aTerminal({ isTTY = false } = {}) {
  const terminal = {
    isTTY,
    output: '',
    write(text: string) {
      terminal.output += text;
    },
  };
  return terminal;
}

/** An export with `count` runs. */
async function someRuns(count: number): Promise<DeployedExport> {
  const bench = anExportBench();
  for (let run = 0; run < count; run += 1) {
    await bench.start();
    bench.advance(3_600_000);
  }
  return asDeployedExport(bench);
}

async function optionsFor(deployed: DeployedExport, overrides: Partial<AllReportsOptions> = {}) {
  const directory = await temporaryDirectory();
  onTestFinished(() => directory.remove());
  let now = 0;
  return {
    deployment: { name: 'a test', option: '--out x', open: async () => deployed } as unknown as Deployment,
    exportName: deployed.name,
    origin,
    directory: join(directory.path, 'reports'),
    maxRuns: 100,
    maxPagesOfIncidents: 1_000,
    stderr: aTerminal(),
    signal: new AbortController().signal,
    now: () => {
      now += 1_000;
      return now;
    },
    ...overrides,
  };
}

describe('the reports of all runs', () => {
  it('show their progress on a terminal, and nothing elsewhere', async () => {
    const deployed = await someRuns(2);
    const [terminal, log] = [aTerminal({ isTTY: true }), aTerminal()];
    await writeAllReports(await optionsFor(deployed, { stderr: terminal }));
    expect(terminal.output).toContain(`${deployed.name}: run 1 of 2 · 0 pages read`);
    expect(terminal.output).toContain(`${deployed.name}: run 2 of 2 · 4 pages read`);
    expect(terminal.output.endsWith('\r\x1b[K')).toBe(true);
    await writeAllReports(await optionsFor(deployed, { stderr: log }));
    expect(log.output).toBe('');
  });

  it('show the twenty runs around each run, and all in the index', async () => {
    const deployed = await someRuns(24);
    const options = await optionsFor(deployed);
    expect(await writeAllReports(options)).toMatchObject([{ runs: 24, gaps: 0, unreadable: [] }]);
    expect(await readdir(options.directory)).toHaveLength(25);
    const listed = async (file: string) => {
      const html = await readFile(join(options.directory, file), 'utf8');
      const rows = html.split('<tr').filter((row) => row.includes('scope="row"'));
      return { text: /<p[^>]*>([^<]* runs[^<]*)/.exec(html)?.[1], rows: rows.slice(0, 25) };
    };
    const files = (await readdir(options.directory)).filter((file) => file !== 'index.html').sort();
    const [oldest = '', newest = ''] = [files[0], files.at(-1)];
    expect((await listed('index.html')).text).toContain('All 24 runs');
    expect((await listed('index.html')).rows).toHaveLength(24);
    const html = await readFile(join(options.directory, oldest), 'utf8');
    expect(html).toContain('20 runs around this one: 20 completed.');
    expect(html).toContain('aria-current="page"');
    expect(html).not.toContain(`href="${newest}"`);
    expect(await readFile(join(options.directory, newest), 'utf8')).toContain('The 20 newest runs: 20 completed.');
  });

  it('are not written after an interruption, even if the page log ends with an error because of it', async () => {
    const interruption = new AbortController();
    const deployed = await someRuns(2);
    const log: DeployedExport['log'] = {
      ...deployed.log,
      async *entries(run) {
        yield* deployed.log.entries(run);
        interruption.abort();
        throw new Error('the client is closed');
      },
    };
    const options = await optionsFor({ ...deployed, log }, { signal: interruption.signal });
    await expect(writeAllReports(options)).rejects.toThrow('aborted');
    expect(await readdir(options.directory)).toEqual([]);
  });
});
