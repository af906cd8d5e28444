/**
 * The local export over a link of limited bandwidth, with a service that compresses, against a bare loop that pipelines
 * its requests and decompresses the pages. The CPU time is what compression costs.
 */

import { type Benchmark, figureOf, formatNumber, formatRatio, formatSpread, ratioOf } from './harness/benchmark.ts';
import { type ExporterName, measureExports, msPerPage } from './harness/exports.ts';
import { createOutputFolders } from './harness/output-folders.ts';

/** 40 Mbit/s, and 50 ms from the request to the first byte. */
const service = { latencyMs: 50, bytesPerSecond: 5_000_000, compresses: true };

const cases = [
  { label: '10 KB', pageBytes: 10_000, pages: 40 },
  { label: '100 KB', pageBytes: 100_000, pages: 40 },
  { label: '1 MB', pageBytes: 1_000_000, pages: 40 },
];
const quickCases = [{ label: '100 KB', pageBytes: 100_000, pages: 3 }];

const baseline = 'bare pipelined loop, gzip';
const names: readonly ExporterName[] = [
  baseline,
  'bare loop, gzip',
  'bare pipelined loop',
  'report-exporter',
  'report-exporter, stored as gzip',
  'report-exporter, identity',
];

export const link: Benchmark = {
  name: 'link',
  title: 'The local export over a link of 40 Mbit/s',
  async run(options) {
    await using outputs = await createOutputFolders();
    const rows: string[][] = [];
    for (const { label, ...size } of options.quick ? quickCases : cases) {
      const rounds = await measureExports(names, { ...service, ...size }, outputs, options, `link, ${label}`);
      for (const name of names) {
        rows.push([
          label,
          name,
          formatSpread(figureOf(rounds, name, msPerPage)),
          formatNumber(figureOf(rounds, name, ({ cpuMs, pages }) => cpuMs / pages).median),
          formatNumber(figureOf(rounds, name, ({ peakRssBytes }) => peakRssBytes / 1e6).median),
          formatRatio(ratioOf(rounds, name, baseline, msPerPage)),
        ]);
      }
    }
    const columns = [
      'page',
      'contender',
      'ms per page',
      'CPU ms per page',
      'peak RSS, MB',
      `relative to the ${baseline}`,
    ];
    return { columns, rows };
  },
};
