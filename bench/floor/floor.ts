/**
 * The floor: what it costs to fetch pages and write them to disk without any guarantee, with a bare undici loop; and how many
 * times that the local export takes, which also checks, hashes, logs and syncs every page.
 */

import type { Benchmark, BenchmarkOptions, Table } from '../harness/benchmark.ts';
import { measureScript, type ProcessFigures } from '../harness/measured-process.ts';
import { createOutputFolders, type OutputFolders } from '../harness/output-folders.ts';
import { startPageService } from '../harness/page-service.ts';
import { type Contender, figureOf, measureRounds, type Rounds, ratioOf } from '../harness/rounds.ts';
import { formatNumber, formatRatio, formatSpread } from '../harness/tables.ts';

interface Case {
  readonly label: string;
  readonly pageBytes: number;
  readonly pages: number;
}

const cases: readonly Case[] = [
  { label: '10 KB', pageBytes: 10_000, pages: 2_000 },
  { label: '100 KB', pageBytes: 100_000, pages: 1_000 },
  { label: '1 MB', pageBytes: 1_000_000, pages: 200 },
  { label: '10 MB', pageBytes: 10_000_000, pages: 25 },
];

const scripts = {
  'bare loop': 'bare-loop.ts',
  'bare loop, synced': 'bare-loop.ts',
  'report-exporter': 'local-export.ts',
} as const;
type ContenderName = keyof typeof scripts;
const contenderNames = Object.keys(scripts) as ContenderName[];

export const floor: Benchmark = {
  name: 'floor',
  title: 'The local export against a bare undici loop',
  async run(options) {
    await using outputs = await createOutputFolders();
    const measured: Record<string, unknown> = {};
    const rows: string[][] = [];
    for (const one of cases) {
      const rounds = await measureCase(one, outputs, options);
      measured[one.label] = Object.fromEntries(rounds);
      rows.push(...toRows(one, rounds));
    }
    const table: Table = {
      title: 'Wall time per page, without latency',
      columns: ['page', 'contender', 'ms per page', 'CPU ms per page', 'peak RSS, MB', 'relative to the bare loop'],
      rows,
    };
    return { tables: [table], measured };
  },
};

async function measureCase(
  { label, pageBytes, pages: fullPages }: Case,
  outputs: OutputFolders,
  options: BenchmarkOptions,
) {
  const pages = options.quick ? Math.max(3, Math.round(fullPages / 20)) : fullPages;
  await using service = await startPageService({ pageBytes, pages });
  const createContender = (name: ContenderName): Contender<ProcessFigures> => ({
    name,
    async measure() {
      const args = [service.baseUrl, await outputs.next(), ...(name === 'bare loop, synced' ? ['sync'] : [])];
      const figures = await measureScript(new URL(scripts[name], import.meta.url), args);
      if (figures.pages !== pages) throw new Error(`${name} exported ${figures.pages} of ${pages} pages`);
      return figures;
    },
  });
  return await measureRounds(contenderNames.map(createContender), options, `floor, ${label}`);
}

function toRows({ label }: Case, rounds: Rounds<ProcessFigures>): string[][] {
  return contenderNames.map((name) => [
    label,
    name,
    formatSpread(figureOf(rounds, name, ({ wallMs, pages = 1 }) => wallMs / pages)),
    formatNumber(figureOf(rounds, name, ({ cpuMs, pages = 1 }) => cpuMs / pages).median),
    formatNumber(figureOf(rounds, name, ({ peakRssBytes }) => peakRssBytes / 1e6).median),
    formatRatio(ratioOf(rounds, name, 'bare loop', ({ wallMs }) => wallMs)),
  ]);
}
