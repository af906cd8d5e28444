import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../../lib/core/errors.ts';
import { asRunId, type PageEntry } from '../../../../lib/core/model.ts';
import { addIncident, countIncidents, noIncidents } from '../../../../lib/target/incidents.ts';
import type { DeployedExport } from '../../../../lib/target/target.ts';
import { readRunHistory } from '../../../../lib/operator/run-report/history/run-history.ts';
import { epochMsOf, instantOf } from '../../../../lib/core/timestamps.ts';
import { anExportBench, asDeployedExport } from '../../../support/export/export-bench.ts';
import { aFetchedPage, aPageEntry, anExportDefinition, anExportState, aRun, at } from '../../../support/builders.ts';

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
      last: async () => undefined,
    },
    store: { read: async () => undefined },
    executions: { isRunning: async () => true },
    lastIncident: async () => undefined,
    countIncidents: async () => countIncidents(noIncidents),
    ...overrides,
  } as unknown as DeployedExport;
}

const options = { maxRuns: 20, createdAt: at('2026-11-20T08:30:00Z'), maxPagesOfIncidents: 1_000 };
const twentyRuns = Array.from({ length: 20 }, (_, index) => lastPage(20 - index, 3));

describe('the history of an export', () => {
  it('has the newest runs, up to a limit, and says whether there are older ones', async () => {
    const all = await readRunHistory(aDeployedExport(twentyRuns), undefined, options);
    expect(all.runs.map(({ run }) => run)).toEqual(twentyRuns.map(({ run }) => run));
    expect(all).toMatchObject({ hasOlder: false, error: null });
    const some = await readRunHistory(aDeployedExport(twentyRuns), undefined, { ...options, maxRuns: 5 });
    expect(some.runs).toHaveLength(5);
    expect(some.hasOlder).toBe(true);
    expect(await readRunHistory(aDeployedExport([]), undefined, options)).toMatchObject({ runs: [], hasOlder: false });
  });

  it('ends a running run with the present, and an abandoned one with its last page', async () => {
    const active = aRun({ export: 'nightly', run: runId(20), startedAt: at('2026-11-20T08:00:00Z') });
    const state = anExportState({ active });
    const { runs } = await readRunHistory(aDeployedExport([lastPage(19, 3)]), state, options);
    expect(runs).toMatchObject([
      { state: 'running', endedAt: '2026-11-20T08:30:00Z', pages: 0 },
      { state: 'abandoned', endedAt: '2026-11-19T02:03:00Z', pages: 3 },
    ]);
  });

  it('counts incidents of the newest runs, until they have too many pages', async () => {
    const spans: unknown[] = [];
    const incident = { kind: 'wait', at: at('2026-11-20T02:00:01Z'), page: 2, seconds: 45 } as const;
    const deployed = aDeployedExport([lastPage(20, 600), lastPage(19, 400), lastPage(18, 1)], {
      async countIncidents(span) {
        spans.push(span);
        const failed = { ...incident, kind: 'failed-attempt', error: 'E', message: 'm' } as const;
        return countIncidents([incident, incident, failed].reduce(addIncident, noIncidents));
      },
    });
    const { runs } = await readRunHistory(deployed, undefined, options);
    const counts = { failedAttempts: 1, waits: 2, waitSeconds: 90, failures: 0 };
    expect(runs.map(({ incidents }) => incidents)).toEqual([counts, counts, 'not-read']);
    expect(spans).toMatchObject([
      { run: runId(20), completedAt: undefined },
      { run: runId(19), completedAt: '2026-11-20T02:00:00Z' },
    ]);
  });

  it('reads the incidents of at most four runs at the same time', async () => {
    let [active, maxActive] = [0, 0];
    const deployed = aDeployedExport(twentyRuns, {
      async countIncidents() {
        active += 1;
        maxActive = Math.max(maxActive, active);
        await new Promise(setImmediate);
        active -= 1;
        return countIncidents(noIncidents);
      },
    });
    await readRunHistory(deployed, undefined, options);
    expect(maxActive).toBe(4);
  });

  it('includes runs whose incidents are not recorded or cannot be read', async () => {
    const deployed = aDeployedExport([lastPage(20, 3), lastPage(19, 3)], {
      async countIncidents({ run }) {
        if (run === runId(20)) throw new ExportError('ConfigurationError', 'no permission');
        return undefined;
      },
    });
    const { runs } = await readRunHistory(deployed, undefined, options);
    expect(runs.map(({ incidents }) => incidents)).toEqual([
      { name: 'ConfigurationError', message: 'no permission' },
      'not-recorded',
    ]);
  });

  it('ends at a run that cannot be listed, and says why', async () => {
    const damaged = new ExportError('PageConflictError', 'item 7 was changed');
    const history = await readRunHistory(aDeployedExport([lastPage(20, 3)], {}, damaged), undefined, options);
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
      return (await readRunHistory(deployed, state, options)).gaps;
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
