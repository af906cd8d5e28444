/**
 * The local export with a service that takes time, as every real one does, against a bare loop that pipelines its
 * requests, which no program that follows cursors can beat, and against a bare sequential loop.
 */

import { type Benchmark, figureOf, formatNumber, formatRatio, ratioOf } from './harness/benchmark.ts';
import { type ExporterName, measureExports, msPerPage } from './harness/exports.ts';
import { createOutputFolders } from './harness/output-folders.ts';

const sizes = [
  { label: '10 KB', pageBytes: 10_000 },
  { label: '100 KB', pageBytes: 100_000 },
  { label: '1 MB', pageBytes: 1_000_000 },
] as const;

/** From the request to the first byte of the response. */
const latencies = [0, 5, 20, 50, 200];
/** From the first byte to the last: the bandwidth of a connection. */
const bodyTimes = [0, 20, 50];

const cases = latencies.flatMap((latencyMs) =>
  bodyTimes.flatMap((bodyMs) => sizes.map((size) => ({ ...size, latencyMs, bodyMs, pages: pagesFor(latencyMs) }))),
);
const quickCases = [{ ...sizes[1], latencyMs: 5, bodyMs: 5, pages: 3 }];

/** Enough that beginning and publishing a run are a small part: the pipelined loop takes 4 s, or 200 pages. */
function pagesFor(latencyMs: number): number {
  return Math.min(200, Math.max(40, Math.round(4_000 / Math.max(1, latencyMs))));
}

const names = ['bare pipelined loop', 'report-exporter', 'bare loop'] as const satisfies readonly ExporterName[];
const [pipelined, reportExporter, sequential] = names;

export const latency: Benchmark = {
  name: 'latency',
  title: 'The local export with a service that takes time',
  async run(options) {
    await using outputs = await createOutputFolders();
    const rows: string[][] = [];
    for (const { label, ...service } of options.quick ? quickCases : cases) {
      const times = `${service.latencyMs} + ${service.bodyMs} ms`;
      const rounds = await measureExports(names, service, outputs, options, `latency, ${times}, ${label}`);
      rows.push([
        times,
        label,
        formatNumber(figureOf(rounds, pipelined, msPerPage).median),
        formatNumber(figureOf(rounds, reportExporter, msPerPage).median),
        formatRatio(ratioOf(rounds, reportExporter, pipelined, msPerPage)),
        formatRatio(ratioOf(rounds, sequential, pipelined, msPerPage)),
      ]);
    }
    const columns = [
      'first byte + body',
      'page',
      'pipelined loop, ms per page',
      'report-exporter',
      'relative to the pipelined loop',
      'sequential loop, relative',
    ];
    return { columns, rows };
  },
};
