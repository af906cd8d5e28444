/**
 * The local export with a service that takes no time, against a bare loop that writes page after page to disk: what it
 * costs to check, hash, log and sync every page.
 */

import { type Benchmark, figureOf, formatNumber, formatRatio, formatSpread, ratioOf } from './harness/benchmark.ts';
import { type ExporterName, measureExports, msPerPage } from './harness/exports.ts';
import { createOutputFolders } from './harness/output-folders.ts';

const cases = [
  { label: '10 KB', pageBytes: 10_000, pages: 2_000 },
  { label: '100 KB', pageBytes: 100_000, pages: 1_000 },
  { label: '1 MB', pageBytes: 1_000_000, pages: 200 },
  { label: '10 MB', pageBytes: 10_000_000, pages: 25 },
];
const quickCases = [{ label: '10 KB', pageBytes: 10_000, pages: 3 }];

const names: readonly ExporterName[] = ['bare loop', 'bare loop, synced', 'report-exporter'];

export const floor: Benchmark = {
  name: 'floor',
  title: 'The local export with a service that takes no time',
  async run(options) {
    await using outputs = await createOutputFolders();
    const rows: string[][] = [];
    for (const { label, ...service } of options.quick ? quickCases : cases) {
      const rounds = await measureExports(names, service, outputs, options, `floor, ${label}`);
      for (const name of names) {
        rows.push([
          label,
          name,
          formatSpread(figureOf(rounds, name, msPerPage)),
          formatNumber(figureOf(rounds, name, ({ cpuMs, pages }) => cpuMs / pages).median),
          formatNumber(figureOf(rounds, name, ({ peakRssBytes }) => peakRssBytes / 1e6).median),
          formatRatio(ratioOf(rounds, name, 'bare loop', msPerPage)),
        ]);
      }
    }
    const columns = [
      'page',
      'contender',
      'ms per page',
      'CPU ms per page',
      'peak RSS, MB',
      'relative to the bare loop',
    ];
    return { columns, rows };
  },
};
