/** The peers: the same work, raw pages to the local disk, with other tools, each used as its documentation shows. */

import type { Benchmark, Table } from '../harness/benchmark.ts';
import { createOutputFolders } from '../harness/output-folders.ts';
import { figureOf, type Rounds, ratioOf } from '../harness/rounds.ts';
import { formatNumber, formatRatio, formatSpread } from '../harness/tables.ts';
import { findPeers, type Peer, reportExporter } from './contenders.ts';
import { measurePeers, type PeerFigures } from './peer-process.ts';
import { prepareEnvironments } from './virtual-environments.ts';

interface Case {
  readonly label: string;
  readonly pageBytes: number;
  readonly pages: number;
}

const fullCases: readonly Case[] = [
  { label: '10 KB', pageBytes: 10_000, pages: 500 },
  { label: '100 KB', pageBytes: 100_000, pages: 200 },
  { label: '1 MB', pageBytes: 1_000_000, pages: 40 },
];
const quickCases: readonly Case[] = [{ label: '100 KB', pageBytes: 100_000, pages: 5 }];

export const peersSpeed: Benchmark = {
  name: 'peers',
  title: 'The local export against other tools',
  async run(options) {
    const { peers, missing } = findPeers(await prepareEnvironments(!options.quick, options.reportProgress));
    await using outputs = await createOutputFolders();
    const measured: Record<string, unknown> = {};
    const rows: string[][] = [];
    for (const one of options.quick ? quickCases : fullCases) {
      const { label, ...service } = one;
      const rounds = await measurePeers(peers, service, outputs, options, `peers, ${label}`);
      measured[one.label] = Object.fromEntries(rounds);
      rows.push(...toRows(one, peers, rounds));
    }
    return {
      tables: [toTable(rows)],
      measured,
      notes: [
        ...missing,
        'Pages per second and CPU time cover the export alone, from the first call to its end; "total" covers the processes from start to end.',
        'More than 1× means that report-exporter took less, in the same round.',
        'singer-sdk is two processes: their CPU times and their peaks are added.',
      ],
    };
  },
};

function toRows({ label }: Case, peers: readonly Peer[], rounds: Rounds<PeerFigures>): string[][] {
  return peers.map(({ name, checks }) => {
    const median = (figure: (figures: PeerFigures) => number) => formatNumber(figureOf(rounds, name, figure).median);
    const ratio = (figure: (figures: PeerFigures) => number) =>
      name === reportExporter ? '' : formatRatio(ratioOf(rounds, name, reportExporter, figure));
    return [
      label,
      name,
      checks,
      formatSpread(figureOf(rounds, name, ({ wallMs, pages = 1 }) => (pages * 1e3) / wallMs)),
      median(({ cpuMs, pages = 1 }) => cpuMs / pages),
      median(({ peakRssBytes }) => peakRssBytes / 1e6),
      median(({ totalMs }) => totalMs / 1e3),
      ratio(({ wallMs }) => wallMs),
      ratio(({ peakRssBytes }) => peakRssBytes),
    ];
  });
}

function toTable(rows: readonly (readonly string[])[]): Table {
  return {
    title: 'Raw pages to the local disk, without latency',
    columns: [
      'page',
      'contender',
      'checks',
      'pages/s',
      'CPU ms per page',
      'peak RSS, MB',
      'total, s',
      'wall time relative to report-exporter',
      'RSS relative to report-exporter',
    ],
    rows,
  };
}
