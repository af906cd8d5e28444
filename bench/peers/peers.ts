/** The peers: the same work, raw pages onto the local disk, by what a user might pick instead, each in its own idiom. */

import type { Bench, BenchOptions, Table } from '../harness/benchmark.ts';
import { type KeptOutputs, keptOutputs } from '../harness/output-folders.ts';
import { pageDocument } from '../harness/page-document.ts';
import { startPageService } from '../harness/page-service.ts';
import { type Contender, figureOf, type Rounds, ratioOf, sideBySide } from '../harness/rounds.ts';
import { asRatio, digits } from '../harness/tables.ts';
import { ours, type Peer, peers as takingPart } from './contenders.ts';
import { measuredPeer, type PeerFigures } from './peer-process.ts';
import { virtualEnvironments } from './virtual-environments.ts';

interface Case {
  readonly label: string;
  readonly pageBytes: number;
  readonly pages: number;
}

const cases: readonly Case[] = [
  { label: '10 KB', pageBytes: 10_000, pages: 500 },
  { label: '100 KB', pageBytes: 100_000, pages: 200 },
  { label: '1 MB', pageBytes: 1_000_000, pages: 40 },
];
const quickCases: readonly Case[] = [{ label: '100 KB', pageBytes: 100_000, pages: 5 }];

export const peers: Bench = {
  name: 'peers',
  title: 'The local export against what one might pick instead',
  async run(options) {
    const { present, absent } = takingPart(await virtualEnvironments(!options.quick, options.say));
    await using outputs = await keptOutputs();
    const measured: Record<string, unknown> = {};
    const rows: string[][] = [];
    for (const one of options.quick ? quickCases : cases) {
      const rounds = await measureCase(one, present, outputs, options);
      measured[one.label] = Object.fromEntries(rounds);
      rows.push(...rowsOf(one, present, rounds));
    }
    return {
      tables: [timeTable(rows)],
      measured,
      notes: [
        ...absent,
        'Pages a second and CPU time are of the walk alone, from its first call to its end; "in all" is from the start of its processes to their end.',
        'More than 1× means that report-exporter took less, in the same round.',
        'singer-sdk is two processes: their CPU time and their peaks are added up.',
      ],
    };
  },
};

async function measureCase(
  { label, pageBytes, pages }: Case,
  present: readonly Peer[],
  outputs: KeptOutputs,
  options: BenchOptions,
) {
  const document = pageDocument(pageBytes, true);
  await using service = await startPageService({ pageBytes, pages, numbered: true });
  const contender = (peer: Peer): Contender<PeerFigures> => ({
    name: peer.name,
    async once() {
      const out = await outputs.next();
      const figures = await measuredPeer(peer, service.baseUrl, out);
      const { listed, published = listed } = await peer.look(out, document);
      // A contender that is fast because it left something out is no contender.
      if (published.length !== pages || new Set(published).size !== pages || published.includes('torn')) {
        throw new Error(`${peer.name} left ${new Set(published).size} pages of ${pages}, ${published.length} in all`);
      }
      return { ...figures, pages };
    },
  });
  return await sideBySide(present.map(contender), options, `peers, ${label}`);
}

function rowsOf({ label }: Case, present: readonly Peer[], rounds: Rounds<PeerFigures>): string[][] {
  return present.map(({ name, checks }) => {
    const figure = (of: (figures: PeerFigures) => number) => digits(figureOf(rounds, name, of).median);
    const { median, least, most } = figureOf(rounds, name, ({ wallMs, pages = 1 }) => (pages * 1e3) / wallMs);
    return [
      label,
      name,
      checks,
      `${digits(median)} (${digits(least)} to ${digits(most)})`,
      figure(({ cpuMs, pages = 1 }) => cpuMs / pages),
      figure(({ peakRssBytes }) => peakRssBytes / 1e6),
      figure(({ wholeMs }) => wholeMs / 1e3),
      name === ours ? '' : asRatio(ratioOf(rounds, name, ours, ({ wallMs }) => wallMs)),
      name === ours ? '' : asRatio(ratioOf(rounds, name, ours, ({ peakRssBytes }) => peakRssBytes)),
    ];
  });
}

function timeTable(rows: readonly (readonly string[])[]): Table {
  return {
    title: 'Raw pages to local disk, at no latency',
    columns: [
      'page',
      'contender',
      'checks',
      'pages/s',
      'CPU ms a page',
      'peak RSS, MB',
      'in all, s',
      'wall time, of report-exporter',
      'RSS, of report-exporter',
    ],
    rows,
  };
}
