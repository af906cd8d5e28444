/**
 * Cold start: the size of each deployed function and the time to import it in a new process, compared with a minimal function
 * that can do the same work. The minimal functions are built by the same bundler and have only the SDK clients, and undici's pool
 * and the XML parser where needed: no settings, no logs, no metrics, no guarantees.
 */

import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundleFunction, type FunctionName, functionNames } from '../../test/support/aws/bundled-functions.ts';
import type { Benchmark, BenchmarkOptions, Table } from '../harness/benchmark.ts';
import { measureProcess, type ProcessFigures } from '../harness/measured-process.ts';
import { type Contender, figureOf, measureRounds, type Rounds, ratioOf } from '../harness/rounds.ts';
import { formatNumber, formatRatio, formatSpread } from '../harness/tables.ts';
import { createTemporaryFolder } from '../harness/temporary-folder.ts';

interface ColdStart {
  readonly bytes: number;
  readonly minimalBytes: number;
  /** The contenders are `deployed` and `minimal`. */
  readonly rounds: Rounds<ProcessFigures>;
}

export const coldStart: Benchmark = {
  name: 'cold-start',
  title: 'Size and import time of each function',
  async run(options) {
    const measured = await measureFunctions(options);
    const table: Table = {
      title: 'Each function and the minimal function that does its work',
      columns: [
        'function',
        'KiB',
        'minimal, KiB',
        'import, ms',
        'minimal, ms',
        'relative to minimal',
        'CPU ms',
        'relative to minimal',
      ],
      rows: Object.entries(measured).map(([name, { bytes, minimalBytes, rounds }]) => [
        name,
        formatNumber(bytes / 1_024),
        formatNumber(minimalBytes / 1_024),
        formatSpread(figureOf(rounds, 'deployed', ({ wallMs }) => wallMs)),
        formatSpread(figureOf(rounds, 'minimal', ({ wallMs }) => wallMs)),
        formatRatio(ratioOf(rounds, 'deployed', 'minimal', ({ wallMs }) => wallMs)),
        formatNumber(figureOf(rounds, 'deployed', ({ cpuMs }) => cpuMs).median),
        formatRatio(ratioOf(rounds, 'deployed', 'minimal', ({ cpuMs }) => cpuMs)),
      ]),
    };
    return {
      tables: [table],
      measured: Object.fromEntries(
        Object.entries(measured).map(([name, { rounds, ...sizes }]) => [
          name,
          { ...sizes, ...Object.fromEntries(rounds) },
        ]),
      ),
      notes: ['An import is short, so it is repeated four times as often as other measurements.'],
    };
  },
};

async function measureFunctions(options: BenchmarkOptions): Promise<Record<FunctionName, ColdStart>> {
  const directory = await createTemporaryFolder(join(tmpdir(), 'report-exporter-bench-'));
  try {
    const measured: Partial<Record<FunctionName, ColdStart>> = {};
    for (const name of functionNames) {
      const deployed = await bundleFunction(name, join(directory, 'deployed'));
      const minimal = await bundleFunction(name, join(directory, 'minimal'), 'bench/cold-start/minimal');
      const createContender = (contenderName: string, file: string): Contender<ProcessFigures> => ({
        name: contenderName,
        measure: () => measureProcess(process.execPath, ['-e', importScript, file], { AWS_REGION: 'us-east-1' }),
      });
      const rounds = await measureRounds(
        [createContender('deployed', deployed.file), createContender('minimal', minimal.file)],
        { ...options, repetitions: options.quick ? 1 : 4 * options.repetitions },
        `cold start, ${name}`,
      );
      measured[name] = { bytes: deployed.bytes, minimalBytes: minimal.bytes, rounds };
    }
    return measured as Record<FunctionName, ColdStart>;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Not a TypeScript file, as Node would first load what strips its types. Lambda requires a function in the same way. */
const importScript = `
const cpu = process.cpuUsage();
const startedAt = performance.now();
require(process.argv[1]);
const wallMs = performance.now() - startedAt;
const { user, system } = process.cpuUsage(cpu);
const peakRssBytes = process.resourceUsage().maxRSS * 1024;
process.stdout.write(JSON.stringify({ wallMs, cpuMs: (user + system) / 1000, peakRssBytes }) + '\\n', () => process.exit());
`;
