/**
 * A service that takes time, as every real one does: the local export against a bare loop that pipelines its requests, which no
 * program that follows cursors can beat, against a bare sequential loop, and against other tools.
 */

import { fileURLToPath } from 'node:url';
import type { Benchmark, Table } from '../harness/benchmark.ts';
import { createOutputFolders } from '../harness/output-folders.ts';
import { figureOf, type Rounds, ratioOf } from '../harness/rounds.ts';
import { formatNumber, formatRatio, formatSpread } from '../harness/tables.ts';
import { findPeers, type Peer, reportExporter } from '../peers/contenders.ts';
import { measurePeers, type PeerFigures } from '../peers/peer-process.ts';
import { readPageFiles } from '../peers/stored-pages.ts';
import { prepareEnvironments } from '../peers/virtual-environments.ts';

const sizes = [
  { label: '10 KB', pageBytes: 10_000 },
  { label: '100 KB', pageBytes: 100_000 },
  { label: '1 MB', pageBytes: 1_000_000 },
] as const;

interface Case {
  readonly label: string;
  readonly pageBytes: number;
  /** From the request to the first byte of the response. */
  readonly latencyMs: number;
  /** From the first byte to the last: the bandwidth of a connection. */
  readonly bodyMs: number;
  readonly pages: number;
}

const latencies = [0, 5, 20, 50, 200];
const bodyTimes = [0, 20, 50];

const fullCases: readonly Case[] = latencies.flatMap((latencyMs) =>
  bodyTimes.flatMap((bodyMs) => sizes.map((size) => ({ ...size, latencyMs, bodyMs, pages: pagesFor(latencyMs) }))),
);
const quickCases: readonly Case[] = [{ ...sizes[1], latencyMs: 20, bodyMs: 20, pages: 10 }];

/** Enough that beginning and publishing a run are a small part: the pipelined loop takes 4 s, or 200 pages. */
function pagesFor(latencyMs: number): number {
  return Math.min(200, Math.max(40, Math.round(4_000 / Math.max(1, latencyMs))));
}

/** Of the pages, for the contenders that take much longer and neither begin nor publish a run. */
const shareOfOthers = 0.25;

const pipelined = 'bare pipelined loop';

const bareLoop = (name: string, script: string): Peer => ({
  name,
  checks: 'no',
  completionMark: 'none',
  readOutput: readPageFiles,
  command: (baseUrl, out) => [process.execPath, fileURLToPath(new URL(script, import.meta.url)), baseUrl, out],
});

export const latency: Benchmark = {
  name: 'latency',
  title: 'The local export with a service that takes time',
  async run(options) {
    const { peers, missing } = findPeers(await prepareEnvironments(!options.quick, options.reportProgress));
    const compared = [bareLoop(pipelined, 'pipelined-loop.ts'), ...peers.filter(({ name }) => name === reportExporter)];
    const others = [
      bareLoop('bare sequential loop', '../floor/bare-loop.ts'),
      // The last one checks the XML, which takes it more time than the service; `peers` shows how much.
      ...peers.filter(({ name }) => name !== reportExporter && name !== 'airbyte-cdk, XmlDecoder'),
    ];
    const contenders = [...compared, ...others];
    await using outputs = await createOutputFolders();
    const measured: Record<string, unknown> = {};
    const perPage: string[][] = [];
    const ratios: string[][] = [];
    for (const one of options.quick ? quickCases : fullCases) {
      const name = `${one.latencyMs} + ${one.bodyMs} ms, ${one.label}`;
      const { label: _, ...service } = one;
      const label = `latency, ${name}`;
      const fewer = { ...service, pages: Math.round(service.pages * shareOfOthers) };
      const rounds = new Map([
        ...(await measurePeers(compared, service, outputs, options, label)),
        ...(await measurePeers(others, fewer, outputs, { ...options, repetitions: 1, warmUp: false }, label)),
      ]);
      measured[name] = Object.fromEntries(rounds);
      perPage.push(timesPerPage(one, contenders, rounds));
      ratios.push(relativeToFloor(one, contenders, rounds));
    }
    return {
      tables: [
        toTable('Wall time relative to the bare pipelined loop', contenders, ratios),
        toTable('Milliseconds per page', contenders, perPage),
      ],
      measured,
      notes: [
        ...missing,
        'Time runs from the first call of the export to its end, without the start of its process.',
        'The pipelined loop and report-exporter take turns. The others are measured once, with a quarter of the pages.',
        'Columns 2 and 3: milliseconds to the first byte of a page, and from there to its last byte.',
      ],
    };
  },
};

const circumstances = ({ label, latencyMs, bodyMs }: Case) => [label, String(latencyMs), String(bodyMs)];

function timesPerPage(one: Case, contenders: readonly Peer[], rounds: Rounds<PeerFigures>): string[] {
  const cells = contenders.map(({ name }) => {
    const spread = figureOf(rounds, name, ({ wallMs, pages = 1 }) => wallMs / pages);
    return name === reportExporter ? formatSpread(spread) : formatNumber(spread.median);
  });
  return [...circumstances(one), ...cells];
}

function relativeToFloor(one: Case, contenders: readonly Peer[], rounds: Rounds<PeerFigures>): string[] {
  const cells = contenders.map(({ name }) => {
    const msPerPage = (contender: string) => figureOf(rounds, contender, ({ wallMs, pages = 1 }) => wallMs / pages);
    if (name !== reportExporter) return `${(msPerPage(name).median / msPerPage(pipelined).median).toFixed(2)}×`;
    return formatRatio(ratioOf(rounds, name, pipelined, ({ wallMs }) => wallMs));
  });
  return [...circumstances(one), ...cells];
}

function toTable(title: string, contenders: readonly Peer[], rows: readonly (readonly string[])[]): Table {
  return { title, columns: ['page', 'first byte', 'body', ...contenders.map(({ name }) => name)], rows };
}
