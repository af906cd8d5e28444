/**
 * Exports `argv[3]` pages with the loop of local runs, with the page log and the manifest in the directory `argv[2]`.
 * Prints how much memory that took on the way.
 */

import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { systemRuntime } from '../../../lib/core/clock.ts';
import type { RunResult } from '../../../lib/core/model.ts';
import type { StepDependencies } from '../../../lib/core/ports.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';
import { type ExecutionStart, runExecution } from '../../../lib/local/execution.ts';
import { anExportWith } from '../../support/settings.ts';
import { exportDefinition } from '../../../lib/settings/settings.ts';
import { aFetchedPage, respondWith } from '../../support/builders.ts';
import { createDiscardingStore } from '../discarding-store.ts';
import { bodyOf, cursorTo, pageOf, reportsOn } from '../numbered-pages.ts';
import { maxResidentBytes, residentBytes } from '../resident-memory.ts';
import { createSqlitePageLog } from '../../support/export/directory-store.ts';

export interface LongRunResult {
  readonly result: RunResult;
  readonly executions: number;
  readonly fetched: number;
  readonly memory: readonly MemorySample[];
  readonly maxResidentBytes: number;
}

export interface MemorySample {
  readonly page: number;
  readonly residentBytes: number;
  /** In use after a full garbage collection. */
  readonly heapBytes: number;
  readonly seconds: number;
}

const [, , directory = '', pages = ''] = process.argv;
const lastPage = Number(pages);
const serviceTime = instantOf(Date.UTC(2026, 10, 20, 2));

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;
const memory: MemorySample[] = [];
const sampledPages = new Set([0.01, 0.1, 0.5, 1].map((part) => lastPage * part));
function sampleMemory(page: number): void {
  if (!sampledPages.has(page)) return;
  collectGarbage();
  const { heapUsed } = process.memoryUsage();
  memory.push({ page, residentBytes: residentBytes(), heapBytes: heapUsed, seconds: performance.now() / 1_000 });
}

let fetched = 0;
const log = createSqlitePageLog(join(directory, 'state.sqlite'));
const deps: StepDependencies = {
  definition: exportDefinition(anExportWith({}), 'https://reports.example.com'),
  service: {
    async fetch({ cursor }, options) {
      fetched += 1;
      const page = pageOf(cursor);
      const nextCursor = page === lastPage ? null : cursorTo(page + 1);
      const parts = { body: bodyOf(page), reports: reportsOn(page), nextCursor, serviceTime };
      return await respondWith(aFetchedPage(parts), options);
    },
  },
  store: createDiscardingStore({ root: directory, lastPage, serviceTime }),
  log,
  executions: { status: async () => 'unknown' },
  runtime: systemRuntime,
  emit(event) {
    if (event.event === 'page-exported') sampleMemory(event.page);
  },
};

let executions = 0;
let start: ExecutionStart | undefined = { name: 'first', input: {} };
while (start !== undefined) {
  executions += 1;
  const end = await runExecution(deps, start);
  start = end.status === 'continued' ? end.next : undefined;
  if (end.status === 'continued') continue;
  if (end.status !== 'completed') throw new Error(JSON.stringify(end));
  const output: LongRunResult = {
    result: end.result,
    executions,
    fetched,
    memory,
    maxResidentBytes: maxResidentBytes(),
  };
  process.stdout.write(`${JSON.stringify(output)}\n`);
}
log.close();
