/**
 * The floor: what it costs to fetch the pages and write them to disk with no guarantee at all, a bare undici loop; and
 * how many times that the local export takes, with everything on: checking, hashing, the page log, durability.
 */

import type { Bench, BenchOptions, Table } from '../harness/benchmark.ts';
import { measuredScript, type ProcessFigures } from '../harness/measured-process.ts';
import { type KeptOutputs, keptOutputs } from '../harness/output-folders.ts';
import { startPageService } from '../harness/page-service.ts';
import { type Contender, figureOf, type Rounds, ratioOf, sideBySide } from '../harness/rounds.ts';
import { asRatio, digits, withSpread } from '../harness/tables.ts';

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

const contenders = {
  'bare loop': 'bare-loop.ts',
  'bare loop, synced': 'bare-loop.ts',
  'report-exporter': 'exporter.ts',
} as const;
type ContenderName = keyof typeof contenders;
const names = Object.keys(contenders) as ContenderName[];

export const floor: Bench = {
  name: 'floor',
  title: 'The local export against a bare undici loop',
  async run(options) {
    await using outputs = await keptOutputs();
    const measured: Record<string, unknown> = {};
    const rows: string[][] = [];
    for (const one of cases) {
      const rounds = await measureCase(one, outputs, options);
      measured[one.label] = Object.fromEntries(rounds);
      rows.push(...rowsOf(one, rounds));
    }
    const table: Table = {
      title: 'Wall time of a page, at no latency',
      columns: ['page', 'contender', 'ms a page', 'CPU ms a page', 'peak RSS, MB', 'of the bare loop'],
      rows,
    };
    return { tables: [table], measured };
  },
};

async function measureCase({ label, pageBytes, pages }: Case, outputs: KeptOutputs, options: BenchOptions) {
  const walk = options.quick ? Math.max(3, Math.round(pages / 20)) : pages;
  await using service = await startPageService({ pageBytes, pages: walk });
  const contender = (name: ContenderName): Contender<ProcessFigures> => ({
    name,
    async once() {
      const words = [service.baseUrl, await outputs.next(), ...(name === 'bare loop, synced' ? ['sync'] : [])];
      const figures = await measuredScript(new URL(`${contenders[name]}`, import.meta.url), words);
      if (figures.pages !== walk) throw new Error(`${name} walked ${figures.pages} pages of ${walk}`);
      return figures;
    },
  });
  return await sideBySide(names.map(contender), options, `floor, ${label}`);
}

function rowsOf({ label }: Case, rounds: Rounds<ProcessFigures>): string[][] {
  return names.map((name) => [
    label,
    name,
    withSpread(figureOf(rounds, name, ({ wallMs, pages = 1 }) => wallMs / pages)),
    digits(figureOf(rounds, name, ({ cpuMs, pages = 1 }) => cpuMs / pages).median),
    digits(figureOf(rounds, name, ({ peakRssBytes }) => peakRssBytes / 1e6).median),
    asRatio(ratioOf(rounds, name, 'bare loop', ({ wallMs }) => wallMs)),
  ]);
}
