/** The programs that export all pages of a service to a directory, measured side by side. */

import { type BenchmarkOptions, measureRounds, type Rounds } from './benchmark.ts';
import type { OutputFolders } from './output-folders.ts';
import { measureContender, type ProcessFigures, startPageService } from './processes.ts';
import type { PageServiceOptions } from '../servers/page-service.ts';

/** By name: a file of bench/contenders, and its further arguments. */
const exporters = {
  'bare loop': ['bare-loop.ts'],
  'bare loop, synced': ['bare-loop.ts', 'synced'],
  'bare pipelined loop': ['bare-loop.ts', 'pipelined'],
  'bare pipelined loop, gzip': ['bare-loop.ts', 'pipelined', 'gzip'],
  'bare loop, gzip': ['bare-loop.ts', 'gzip'],
  'report-exporter': ['local-export.ts'],
  'report-exporter, identity': ['local-export.ts', 'identity'],
  'report-exporter, stored as gzip': ['local-export.ts', 'stored'],
} as const;
export type ExporterName = keyof typeof exporters;

export async function measureExports(
  names: readonly ExporterName[],
  serviceOptions: PageServiceOptions,
  outputs: OutputFolders,
  options: BenchmarkOptions,
  label: string,
): Promise<Rounds<ProcessFigures>> {
  await using service = await startPageService(serviceOptions);
  const contenders = names.map((name) => ({
    name,
    async measure() {
      const [file, ...mode] = exporters[name];
      return await measureContender([file, service.baseUrl, await outputs.next(), ...mode], serviceOptions.pages);
    },
  }));
  return await measureRounds(contenders, options, label);
}

export const msPerPage = ({ wallMs, pages }: ProcessFigures): number => wallMs / pages;
