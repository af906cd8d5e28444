/**
 * Memory: how much a process holds at most, whatever the size of a page and however many there are. Each export runs in a
 * process of its own, over real sockets, and its peak is the kernel's own high-water mark.
 */

import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { MillionPagesResult } from '../../test/large/children/export-a-million-pages.ts';
import { findScratchDirectory } from '../../test/large/scratch-directory.ts';
import type { Bench, BenchOptions, Table } from '../harness/benchmark.ts';
import { measuredProcess, measuredScript, type ProcessFigures } from '../harness/measured-process.ts';
import { figureOf } from '../harness/rounds.ts';
import { digits, withSpread } from '../harness/tables.ts';
import { temporaryFolder } from '../harness/temporary-folder.ts';
import { type Path, paths, servicePages } from './targets.ts';

const kilobyte = 1_000;
const megabyte = 1_000_000;

interface Case {
  readonly label: string;
  readonly pageBytes: number;
  readonly pages: number;
  /** Takes so long that once is enough. */
  readonly isLong?: boolean;
}

/** Of each some that come one behind the other, so that two are in hand where two may be. */
const sizes: readonly Case[] = [
  { label: '10 KB', pageBytes: 10 * kilobyte, pages: 100 },
  { label: '1 MB', pageBytes: megabyte, pages: 50 },
  { label: '10 MB', pageBytes: 10 * megabyte, pages: 20 },
  { label: '100 MB', pageBytes: 100 * megabyte, pages: 5, isLong: true },
  // Behind a tiny page; and 2 GiB, to be exact.
  { label: '2 GB', pageBytes: 2_000 * megabyte, pages: 4, isLong: true },
];

const counts: readonly Case[] = [10, 1_000, 10_000].map((pages) => ({
  label: pages.toLocaleString('en'),
  pageBytes: 10 * kilobyte,
  pages,
  isLong: pages > 1_000,
}));

/** Without bodies, and in simulated time: a million of them with all that belongs to a page take hours. */
const bodilessCounts = [10_000, 100_000, 1_000_000];

/**
 * What an export needs shows where there is not much to be had: V8 puts collections off as long as there is room, and on a
 * large machine there is. So each is measured with a small heap, and once with Node's own limits beside it.
 */
const smallHeap = ['--max-old-space-size=64', '--max-semi-space-size=4'];

interface Measured {
  readonly case: string;
  readonly path: string;
  readonly pages: number;
  readonly rounds: readonly ProcessFigures[];
  /** With Node's own limits. */
  readonly roomy: ProcessFigures;
}

export const memory: Bench = {
  name: 'memory',
  title: 'Peak memory against the size and the number of pages',
  async run(options) {
    const { quick } = options;
    const bySize = await measureAll(quick ? sizes.slice(0, 2).map((size) => ({ ...size, pages: 3 })) : sizes, options);
    const byCount = await measureAll(quick ? counts.slice(0, 1) : counts, options);
    const bodiless = await measureBodiless(quick ? [1_000] : bodilessCounts, options);
    return {
      tables: [
        tableOf('Peak RSS by the size of a page', 'page', bySize),
        tableOf('Peak RSS by the number of pages, of 10 KB each', 'pages', byCount),
        tableOf('Peak RSS by the number of pages, many more', 'pages', bodiless),
      ],
      measured: { bySize, byCount, bodiless },
      notes: [
        `An idle Node with nothing loaded holds ${digits((await idleBytes()) / megabyte)} MB. Measured with ${smallHeap.join(' ')}.`,
        'Many more pages: the steps, the state machine, the page log in SQLite and the manifest as they are; pages of some ' +
          'bytes that are not kept, one attempt in fifty failing, in simulated time.',
      ],
    };
  },
};

async function measureAll(cases: readonly Case[], options: BenchOptions): Promise<readonly Measured[]> {
  const measured: Measured[] = [];
  for (const one of cases) {
    await using service = await servicePages(one);
    const rounds = one.isLong ? 1 : options.repetitions;
    const exportOnce = async ({ label, into }: Path, what: string, nodeOptions: readonly string[]) => {
      options.say(`memory, ${one.label}, ${label}: ${what}`);
      const told = await into(service.baseUrl, nodeOptions);
      if (told.pages !== one.pages) throw new Error(`${label}: ${told.pages} pages of ${one.pages}`);
      // All of it takes long, and may be stopped half-way.
      options.say(`  ${digits(told.peakRssBytes / megabyte)} MB`);
      return told;
    };
    const taken = new Map<Path, ProcessFigures[]>(paths.map((path) => [path, []]));
    for (let round = 1; round <= rounds; round += 1) {
      for (const [path, figures] of taken) {
        figures.push(await exportOnce(path, `round ${round} of ${rounds}`, smallHeap));
      }
    }
    for (const [path, figures] of taken) {
      const roomy = await exportOnce(path, "Node's own limits", []);
      measured.push({ case: one.label, path: path.label, pages: one.pages, rounds: figures, roomy });
    }
  }
  return measured;
}

async function measureBodiless(pageCounts: readonly number[], { say }: BenchOptions): Promise<readonly Measured[]> {
  const measured: Measured[] = [];
  for (const pages of pageCounts) {
    say(`memory, ${pages.toLocaleString('en')} pages without bodies`);
    const figures = await exportBodiless(pages, smallHeap);
    const roomy = await exportBodiless(pages, []);
    measured.push({ case: pages.toLocaleString('en'), path: 'bodies not kept', pages, rounds: [figures], roomy });
  }
  return measured;
}

async function exportBodiless(pages: number, nodeOptions: readonly string[]): Promise<ProcessFigures> {
  const directory = await temporaryFolder(join(await findScratchDirectory(), 'report-exporter-bench-'));
  try {
    const script = fileURLToPath(new URL('../../test/large/children/export-a-million-pages.ts', import.meta.url));
    const startedAt = performance.now();
    const told: unknown = await measuredProcess(process.execPath, [...nodeOptions, script, directory, `${pages}`]);
    const { maxResidentBytes, result } = told as MillionPagesResult;
    if (result.pages !== pages) throw new Error(`${result.pages} pages of ${pages}`);
    return { wallMs: performance.now() - startedAt, cpuMs: Number.NaN, peakRssBytes: maxResidentBytes };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function idleBytes(): Promise<number> {
  const { peakRssBytes } = await measuredScript(new URL('idle.ts', import.meta.url), []);
  return peakRssBytes;
}

function tableOf(title: string, what: string, measured: readonly Measured[]): Table {
  return {
    title,
    columns: [what, 'into', 'pages', 'peak RSS, MB', "with Node's own heap limits", 'seconds'],
    rows: measured.map(({ case: label, path, pages, rounds, roomy }) => {
      const named = new Map([[path, rounds]]);
      return [
        label,
        path,
        pages.toLocaleString('en'),
        withSpread(figureOf(named, path, ({ peakRssBytes }) => peakRssBytes / megabyte)),
        digits(roomy.peakRssBytes / megabyte),
        digits(figureOf(named, path, ({ wallMs }) => wallMs / 1_000).median),
      ];
    }),
  };
}
