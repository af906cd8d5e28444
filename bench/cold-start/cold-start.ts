/**
 * Cold start: how large each function is as it is deployed, and how long it takes to import in a fresh process; and the
 * same of the leanest variant that could do its work, made by the same bundler: only the SDK's clients, and undici's pool
 * and the XML parser where the function needs them. No settings checked, no logs, no metrics, no guarantee.
 */

import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundleFunction, type FunctionName, functionNames } from '../../test/support/aws/bundled-functions.ts';
import type { Bench, BenchOptions, Table } from '../harness/benchmark.ts';
import { measuredProcess, type ProcessFigures } from '../harness/measured-process.ts';
import { type Contender, figureOf, type Rounds, ratioOf, sideBySide } from '../harness/rounds.ts';
import { asRatio, digits, withSpread } from '../harness/tables.ts';
import { temporaryFolder } from '../harness/temporary-folder.ts';

/** Sizes stand for all rounds; the figures of each round by `built` and `leanest`. */
interface ColdStart {
  readonly bytes: number;
  readonly leanestBytes: number;
  readonly rounds: Rounds<ProcessFigures>;
}

export const coldStart: Bench = {
  name: 'cold-start',
  title: 'Size and import time of each function',
  async run(options) {
    const measured = await measureColdStart(options);
    const table: Table = {
      title: 'Each function against the leanest variant that works',
      columns: [
        'function',
        'KiB',
        'leanest, KiB',
        'import, ms',
        'leanest, ms',
        'of the leanest',
        'CPU ms',
        'of the leanest',
      ],
      rows: Object.entries(measured).map(([name, { bytes, leanestBytes, rounds }]) => [
        name,
        digits(bytes / 1_024),
        digits(leanestBytes / 1_024),
        withSpread(figureOf(rounds, 'built', ({ wallMs }) => wallMs)),
        withSpread(figureOf(rounds, 'leanest', ({ wallMs }) => wallMs)),
        asRatio(ratioOf(rounds, 'built', 'leanest', ({ wallMs }) => wallMs)),
        digits(figureOf(rounds, 'built', ({ cpuMs }) => cpuMs).median),
        asRatio(ratioOf(rounds, 'built', 'leanest', ({ cpuMs }) => cpuMs)),
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
      notes: ['An import is short, so it is repeated four times as often as anything else.'],
    };
  },
};

async function measureColdStart(options: BenchOptions): Promise<Record<FunctionName, ColdStart>> {
  const directory = await temporaryFolder(join(tmpdir(), 'report-exporter-bench-'));
  try {
    const measured: Partial<Record<FunctionName, ColdStart>> = {};
    for (const name of functionNames) {
      const built = await bundleFunction(name, join(directory, 'built'));
      const leanest = await bundleFunction(name, join(directory, 'leanest'), 'bench/cold-start/minimal');
      const contender = (contender: string, file: string): Contender<ProcessFigures> => ({
        name: contender,
        once: () => measuredProcess(process.execPath, ['-e', importing, file], { AWS_REGION: 'us-east-1' }),
      });
      const rounds = await sideBySide(
        [contender('built', built.file), contender('leanest', leanest.file)],
        { ...options, repetitions: options.quick ? 1 : 4 * options.repetitions },
        `cold start, ${name}`,
      );
      measured[name] = { bytes: built.bytes, leanestBytes: leanest.bytes, rounds };
    }
    return measured as Record<FunctionName, ColdStart>;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Not a file of TypeScript: whatever strips its types would be loaded by then. Lambda requires a function likewise. */
const importing = `
const cpu = process.cpuUsage();
const startedAt = performance.now();
require(process.argv[1]);
const wallMs = performance.now() - startedAt;
const { user, system } = process.cpuUsage(cpu);
const peakRssBytes = process.resourceUsage().maxRSS * 1024;
process.stdout.write(JSON.stringify({ wallMs, cpuMs: (user + system) / 1000, peakRssBytes }) + '\\n', () => process.exit());
`;
