/** The children of many parents, exported into a directory, against bare loops with as many requests at a time. */

import {
  type Benchmark,
  figureOf,
  formatNumber,
  formatRatio,
  formatSpread,
  measureRounds,
  ratioOf,
} from './harness/benchmark.ts';
import { msPerPage } from './harness/exports.ts';
import { createOutputFolders } from './harness/output-folders.ts';
import { measureContender, startServer } from './harness/processes.ts';
import type { ParentServiceOptions } from './servers/parent-service.ts';

const parallel = '16';
const response = { latencyMs: 50, bodyMs: 20, pageBytes: 10_000 };
const cases: readonly ParentServiceOptions[] = [
  { ...response, parents: 3_000, pages: 1 },
  { ...response, parents: 1_000, pages: 3 },
];
const quickCases: readonly ParentServiceOptions[] = [{ ...response, parents: 50, pages: 1 }];

const fanOut = 'bare fan-out';
const ours = 'report-exporter';

export const parents: Benchmark = {
  name: 'parents',
  title: 'The children of many parents, in a directory',
  async run(options) {
    await using outputs = await createOutputFolders();
    const rows: string[][] = [];
    for (const service of options.quick ? quickCases : cases) {
      await using server = await startServer('parent-service.ts', service);
      const count = service.parents * service.pages;
      const contender = (name: string, file: string, ...args: string[]) => ({
        name,
        measure: async () => await measureContender([file, server.baseUrl, await outputs.next(), ...args], count),
      });
      const contenders = [
        contender(fanOut, 'fan-out.ts', `${service.parents}`, parallel),
        contender(ours, 'local-children.ts', parallel),
      ];
      const label = `${service.parents} parents, ${service.pages} each`;
      const rounds = await measureRounds(contenders, options, `parents, ${label}`);
      for (const { name } of contenders) {
        rows.push([
          label,
          name,
          formatSpread(figureOf(rounds, name, msPerPage)),
          formatNumber(figureOf(rounds, name, ({ cpuMs, pages }) => cpuMs / pages).median),
          formatNumber(figureOf(rounds, name, ({ peakRssBytes }) => peakRssBytes / 1e6).median),
          formatRatio(ratioOf(rounds, name, fanOut, msPerPage)),
        ]);
      }
    }
    return {
      columns: ['pages', 'program', 'ms per page', 'CPU ms per page', 'peak RSS, MB', `/ ${fanOut}`],
      rows,
    };
  },
};
