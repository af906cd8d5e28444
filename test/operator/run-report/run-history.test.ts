import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import { asRunId, type ExportState, type PageEntry } from '../../../lib/core/model.ts';
import type { DeployedExport } from '../../../lib/target/target.ts';
import { readRunHistory } from '../../../lib/operator/run-report/run-history.ts';
import { epochMsOf, instantOf } from '../../../lib/core/timestamps.ts';
import { anExportBench, asDeployedExport } from '../../support/export/export-bench.ts';
import { aFetchedPage, aPageEntry, anExportDefinition, anExportState, aRun, at } from '../../support/builders.ts';

const runId = (day: number) => asRunId(`202611${String(day).padStart(2, '0')}T020000Z-1f3a5c`);
const lastPage = (day: number, page: number) =>
  aPageEntry({ run: runId(day), page, loggedAt: at(`2026-11-${String(day).padStart(2, '0')}T02:03:00Z`) });

/** Unpublished runs, newest first, and then perhaps an error. */
function aDeployedExport(
  lastPages: readonly PageEntry[],
  overrides: Partial<DeployedExport> = {},
  error?: Error,
): DeployedExport {
  return {
    name: 'nightly',
    definition: anExportDefinition(),
    log: {
      async *runs() {
        yield* lastPages;
        if (error !== undefined) throw error;
      },
      async *boundedStates() {},
      lastSlice: async () => 0,
      last: async () => undefined,
    },
    store: { read: async () => undefined },
    executions: { isRunning: async () => true },
    ...overrides,
  } as unknown as DeployedExport;
}

const readHistory = (deployed: DeployedExport, state?: ExportState, maxRuns = 20) =>
  readRunHistory(deployed, state, maxRuns, at('2026-11-20T08:30:00Z'));
const twentyRuns = Array.from({ length: 20 }, (_, index) => lastPage(20 - index, 3));

describe('the history of an export', () => {
  it('has the newest runs, up to a limit, and says whether there are older ones', async () => {
    const all = await readHistory(aDeployedExport(twentyRuns));
    expect(all.runs.map(({ run }) => run)).toEqual(twentyRuns.map(({ run }) => run));
    expect(all).toMatchObject({ hasOlder: false, error: null });
    const some = await readHistory(aDeployedExport(twentyRuns), undefined, 5);
    expect(some.runs).toHaveLength(5);
    expect(some.hasOlder).toBe(true);
    expect(await readHistory(aDeployedExport([]))).toMatchObject({ runs: [], hasOlder: false });
  });

  it('ends a running run with the present, and an abandoned one with its last page', async () => {
    const active = aRun({ export: 'nightly', run: runId(20), startedAt: at('2026-11-20T08:00:00Z') });
    const state = anExportState({ active });
    const { runs } = await readHistory(aDeployedExport([lastPage(19, 3)]), state);
    expect(runs).toMatchObject([
      { state: 'running', endedAt: '2026-11-20T08:30:00Z', pages: 0 },
      { state: 'abandoned', endedAt: '2026-11-19T02:03:00Z', pages: 3 },
    ]);
  });

  it('ends at a run that cannot be listed, and says why', async () => {
    const damaged = new ExportError('PageConflictError', 'item 7 was changed');
    const history = await readHistory(aDeployedExport([lastPage(20, 3)], {}, damaged));
    expect(history.runs).toHaveLength(1);
    expect(history).toMatchObject({
      hasOlder: true,
      error: { name: 'PageConflictError', message: 'item 7 was changed' },
    });
  });
});

describe('the gap after a manual start with a later --since', () => {
  it('is known until the next run, which starts at the watermark, has closed it', async () => {
    // Without a clock of the service, runs reach their own start.
    const bench = anExportBench({ script: () => aFetchedPage({ serviceTime: null, nextCursor: null }) });
    const gaps = async () => {
      const deployed = asDeployedExport(bench);
      const state = await deployed.log.exportState(deployed.name);
      return (await readHistory(deployed, state)).gaps;
    };
    await bench.start();
    const watermark = (await bench.log.exportState(bench.deps.definition.name))?.watermark?.instant;
    bench.advance(7_200_000);
    const since = instantOf(epochMsOf(watermark ?? at('')) + 3_600_000);
    const manual = await bench.start({ since });
    expect(manual.status).toBe('completed');
    expect(await gaps()).toMatchObject([{ from: watermark, to: since, closedBy: 'next-run' }]);
    bench.advance(3_600_000);
    await bench.start();
    expect(await gaps()).toEqual([]);
  });
});
