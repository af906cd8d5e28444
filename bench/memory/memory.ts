/**
 * Memory: the peak memory of a process, against the size of a page and the number of pages. Each export runs in its own process
 * over real sockets; its peak is the kernel's high-water mark.
 */

import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { MillionPagesResult } from '../../test/large/children/export-a-million-pages.ts';
import { findScratchDirectory } from '../../test/large/scratch-directory.ts';
import type { Benchmark, BenchmarkOptions, Table } from '../harness/benchmark.ts';
import { measureProcess, measureScript, type ProcessFigures } from '../harness/measured-process.ts';
import { figureOf } from '../harness/rounds.ts';
import { formatNumber, formatSpread } from '../harness/tables.ts';
import { createTemporaryFolder } from '../harness/temporary-folder.ts';
import { startServiceForPages, type Target, targets } from './targets.ts';

const kilobyte = 1_000;
const megabyte = 1_000_000;

interface Case {
  readonly label: string;
  readonly pageBytes: number;
  readonly pages: number;
  /** Takes so long that it is measured once. */
  readonly isLong?: boolean;
}

/** Several pages each, so that several can be in flight. */
const pageSizes: readonly Case[] = [
  { label: '10 KB', pageBytes: 10 * kilobyte, pages: 100 },
  { label: '1 MB', pageBytes: megabyte, pages: 50 },
  { label: '10 MB', pageBytes: 10 * megabyte, pages: 20 },
  { label: '100 MB', pageBytes: 100 * megabyte, pages: 5, isLong: true },
  // 2 GiB to be exact, after a tiny page.
  { label: '2 GB', pageBytes: 2_000 * megabyte, pages: 4, isLong: true },
];

const pageCounts: readonly Case[] = [10, 1_000, 10_000].map((pages) => ({
  label: pages.toLocaleString('en'),
  pageBytes: 10 * kilobyte,
  pages,
  isLong: pages > 1_000,
}));

/** Without bodies and in simulated time: a million complete pages take hours. */
const simulatedPageCounts = [10_000, 100_000, 1_000_000];

/**
 * V8 delays garbage collection while there is room, and a large machine has room. So each export is measured with a small heap,
 * which shows what it needs, and once with Node's default limits.
 */
const smallHeap = ['--max-old-space-size=64', '--max-semi-space-size=4'];

interface Measured {
  readonly case: string;
  readonly target: string;
  readonly pages: number;
  readonly rounds: readonly ProcessFigures[];
  readonly withDefaultHeap: ProcessFigures;
}

export const memory: Benchmark = {
  name: 'memory',
  title: 'Peak memory against the size and the number of pages',
  async run(options) {
    const { quick } = options;
    const bySize = await measureCases(
      quick ? pageSizes.slice(0, 2).map((size) => ({ ...size, pages: 3 })) : pageSizes,
      options,
    );
    const byCount = await measureCases(quick ? pageCounts.slice(0, 1) : pageCounts, options);
    const simulated = await measureSimulated(quick ? [1_000] : simulatedPageCounts, options);
    return {
      tables: [
        toTable('Peak RSS by page size', 'page', bySize),
        toTable('Peak RSS by number of pages of 10 KB', 'pages', byCount),
        toTable('Peak RSS by number of pages, simulated', 'pages', simulated),
      ],
      measured: { bySize, byCount, simulated },
      notes: [
        `An idle Node process has ${formatNumber((await measureIdle()) / megabyte)} MB. Measured with ${smallHeap.join(' ')}.`,
        'Simulated: the real steps, state machine, SQLite page log and manifest; pages of some bytes that are not stored; one ' +
          'attempt in fifty fails; simulated time.',
      ],
    };
  },
};

async function measureCases(cases: readonly Case[], options: BenchmarkOptions): Promise<readonly Measured[]> {
  const measured: Measured[] = [];
  for (const one of cases) {
    await using service = await startServiceForPages(one);
    const roundCount = one.isLong ? 1 : options.repetitions;
    const exportOnce = async (target: Target, label: string, nodeOptions: readonly string[]) => {
      options.reportProgress(`memory, ${one.label}, ${target.label}: ${label}`);
      const figures = await target.export(service.baseUrl, nodeOptions);
      if (figures.pages !== one.pages) throw new Error(`${target.label}: ${figures.pages} of ${one.pages} pages`);
      // Printed at once, as the whole benchmark takes long and may be interrupted.
      options.reportProgress(`  ${formatNumber(figures.peakRssBytes / megabyte)} MB`);
      return figures;
    };
    const figuresOf = new Map<Target, ProcessFigures[]>(targets.map((target) => [target, []]));
    for (let round = 1; round <= roundCount; round += 1) {
      for (const [target, figures] of figuresOf) {
        figures.push(await exportOnce(target, `round ${round} of ${roundCount}`, smallHeap));
      }
    }
    for (const [target, rounds] of figuresOf) {
      const withDefaultHeap = await exportOnce(target, "Node's default heap limits", []);
      measured.push({ case: one.label, target: target.label, pages: one.pages, rounds, withDefaultHeap });
    }
  }
  return measured;
}

async function measureSimulated(
  counts: readonly number[],
  { reportProgress }: BenchmarkOptions,
): Promise<readonly Measured[]> {
  const measured: Measured[] = [];
  for (const pages of counts) {
    const label = pages.toLocaleString('en');
    reportProgress(`memory, ${label} simulated pages`);
    const rounds = [await simulateExport(pages, smallHeap)];
    measured.push({
      case: label,
      target: 'not stored',
      pages,
      rounds,
      withDefaultHeap: await simulateExport(pages, []),
    });
  }
  return measured;
}

async function simulateExport(pages: number, nodeOptions: readonly string[]): Promise<ProcessFigures> {
  const directory = await createTemporaryFolder(join(await findScratchDirectory(), 'report-exporter-bench-'));
  try {
    const script = fileURLToPath(new URL('../../test/large/children/export-a-million-pages.ts', import.meta.url));
    const startedAt = performance.now();
    const output: unknown = await measureProcess(process.execPath, [...nodeOptions, script, directory, `${pages}`]);
    const { maxResidentBytes, result } = output as MillionPagesResult;
    if (result.pages !== pages) throw new Error(`${result.pages} of ${pages} pages`);
    return { wallMs: performance.now() - startedAt, cpuMs: Number.NaN, peakRssBytes: maxResidentBytes };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function measureIdle(): Promise<number> {
  const { peakRssBytes } = await measureScript(new URL('idle.ts', import.meta.url), []);
  return peakRssBytes;
}

function toTable(title: string, variable: string, measured: readonly Measured[]): Table {
  return {
    title,
    columns: [variable, 'target', 'pages', 'peak RSS, MB', "with Node's default heap limits", 'seconds'],
    rows: measured.map(({ case: label, target, pages, rounds, withDefaultHeap }) => {
      const byTarget = new Map([[target, rounds]]);
      return [
        label,
        target,
        pages.toLocaleString('en'),
        formatSpread(figureOf(byTarget, target, ({ peakRssBytes }) => peakRssBytes / megabyte)),
        formatNumber(withDefaultHeap.peakRssBytes / megabyte),
        formatNumber(figureOf(byTarget, target, ({ wallMs }) => wallMs / 1_000).median),
      ];
    }),
  };
}
