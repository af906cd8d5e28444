import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { DeployedExport, Deployment } from '../../../lib/target/target.ts';
import { type AllReportsOptions, writeAllReports } from '../../../lib/operator/run-report/all-reports.ts';
import { anExportBench, asDeployedExport } from '../../support/export/export-bench.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
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
    expect(terminal.output).toContain(`${deployed.name}, run 1 of 2: read 1 page ·`);
    expect(terminal.output).toContain(`${deployed.name}, run 2 of 2: read 1 page ·`);
    expect(terminal.output.endsWith('\r\x1b[K')).toBe(true);
    await writeAllReports(await optionsFor(deployed, { stderr: log }));
    expect(log.output).toBe('');
  });

  it('list all runs in the index, to which each run links', async () => {
    const options = await optionsFor(await someRuns(24));
    expect(await writeAllReports(options)).toMatchObject([{ runs: 24, gaps: 0, unreadable: [] }]);
    const files = (await readdir(options.directory)).filter((file) => file !== 'index.html');
    expect(files).toHaveLength(24);
    const read = (file: string) => readFile(join(options.directory, file), 'utf8');
    const index = await read('index.html');
    expect(index).toContain('All 24 runs: 24 completed.');
    for (const file of files) {
      const run = file.replace('.html', '');
      expect(await read(file)).toContain(`href="index.html#${run}"`);
      expect(index).toContain(`<tr id="${run}">`);
      expect(index).toContain(`href="${file}"`);
    }
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
