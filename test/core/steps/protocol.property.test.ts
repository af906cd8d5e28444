/**
 * The guarantees, over random report sets, page sizes, execution lengths and crash points: every matching page is
 * stored exactly once, in order, and no reader sees an unfinished run.
 */

import { describe, expect } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import { asDocumentRoot } from '../../../lib/core/document-root.ts';
import { type LatestPointer } from '../../../lib/core/model.ts';
import { anExportBench, type Bench, manifestsOf, reportIdsOf } from '../../support/export/export-bench.ts';
import { someReports } from '../../support/export/scripted-service.ts';
import { cases, fc, test } from '../../support/property.ts';
import { aFetchedPage } from '../../support/builders.ts';

/** Ends the process: nothing happens after it, not even error handling. */
class Crash extends Error {}

const plan = fc.record({
  reports: fc.integer({ min: 0, max: 40 }),
  since: fc.integer({ min: 0, max: 45 }),
  size: fc.integer({ min: 1, max: 10 }),
  iterationsPerExecution: fc.integer({ min: 1, max: 6 }),
  // The number of effects between two crashes; 1 crashes at the first effect.
  crashes: fc.array(fc.integer({ min: 1, max: 30 }), { maxLength: 12 }),
  outages: fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 6 }),
  // Requests that are answered with a document that is no page.
  otherDocuments: fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 12 }),
  // Without it, nothing is known of page 1.
  isRootNamed: fc.boolean(),
  // The end of the pages is a page, or a response that is none.
  endStatus: fc.constantFrom(undefined, 204),
});

/** What must hold for every reader at every moment. */
function expectOnlyWholeRuns(bench: Bench, expected: readonly string[]): void {
  for (const manifest of manifestsOf(bench)) {
    const ids = manifest.pages.flatMap(({ key }) =>
      [...(bench.store.objects.get(key) ?? '').matchAll(/id="([^"]+)"/g)].map(([, id]) => id),
    );
    expect(ids).toEqual(expected);
    expect(manifest.pages.map(({ page }) => page)).toEqual(manifest.pages.map((_, index) => index + 1));
  }
  const latest = bench.store.objects.get(`${bench.deps.definition.name}/latest.json`);
  if (latest !== undefined) expect(bench.store.objects.has((JSON.parse(latest) as LatestPointer).manifest)).toBe(true);
}

describe('with crashes and retries', () => {
  test.prop([plan], { numRuns: cases(300) })('a run is published completely, once and in order', async (given) => {
    const crashes = [...given.crashes];
    let budget = crashes.shift() ?? Number.POSITIVE_INFINITY;
    let down = false;
    const crash = () => {
      if (down) throw new Crash('still down');
      budget -= 1;
      if (budget > 0) return;
      budget = crashes.shift() ?? Number.POSITIVE_INFINITY;
      down = true;
      throw new Crash('cut off');
    };
    const reports = someReports(given.reports);
    const bench = anExportBench({
      reports,
      size: given.size,
      endStatus: given.endStatus,
      limits: { iterationsPerExecution: given.iterationsPerExecution },
      crash,
      definition: given.isRootNamed ? { documentRoot: asDocumentRoot('reports') } : {},
      script: ({ cursor }, nth) => {
        if (given.outages.includes(nth))
          throw new ExportError('ServiceUnavailableError', 'Report service responded with 503');
        const isNoticed = given.isRootNamed || cursor !== null;
        if (!isNoticed || !given.otherDocuments.includes(nth)) return undefined;
        return aFetchedPage({ body: '<error/>', reports: 0, documentRoot: 'error', nextCursor: null });
      },
    });
    const since = new Date(Date.UTC(2026, 10, 1) + given.since * 60_000).toISOString();
    const expected = reports.slice(given.since).map(({ id }) => id);

    // Each crash ends an execution; the operator starts again until it completes.
    let end = await bench.start({ since });
    for (let starts = 0; end.status !== 'completed' && starts < 50; starts += 1) {
      expectOnlyWholeRuns(bench, expected);
      down = false;
      end = await bench.start({ since });
    }
    if (end.status !== 'completed') throw new Error(`never completed: ${JSON.stringify(end)}`);
    expectOnlyWholeRuns(bench, expected);
    expect(reportIdsOf(bench, end.result.manifest)).toEqual(expected);
    expect(end.result).toMatchObject({
      reports: expected.length,
      pages: Math.max(1, Math.ceil(expected.length / given.size)),
    });
    expect(end.result.watermark).toBe('2026-11-20T01:59:59Z');
    const pages = [...bench.store.objects.keys()].filter((key) =>
      key.startsWith((end.result.manifest ?? '').replace('manifest.json', 'page-')),
    );
    expect(pages).toHaveLength(end.result.pages);
  });

  test.prop([plan], { numRuns: cases(100) })('concurrent executions agree on one run', async (given) => {
    const reports = someReports(given.reports);
    const bench = anExportBench({
      reports,
      size: given.size,
      endStatus: given.endStatus,
      limits: { iterationsPerExecution: given.iterationsPerExecution },
    });
    // No execution is reported as running, so each takes the run over when it starts.
    const ends = await Promise.all([bench.start(), bench.start(), bench.start()]);
    const finished = ends.filter(({ status }) => status === 'completed');
    expect(finished.length).toBeGreaterThanOrEqual(1);
    expect(ends.every(({ status }) => status === 'completed' || status === 'skipped')).toBe(true);
    for (const manifest of manifestsOf(bench)) {
      const bodies = manifest.pages.map(({ key }) => bench.store.objects.get(key) ?? '').join('');
      const ids = [...bodies.matchAll(/id="([^"]+)"/g)].map(([, id]) => id);
      const since = Date.parse(manifest.since);
      expect(ids).toEqual(reports.filter(({ date }) => Date.parse(date) >= since).map(({ id }) => id));
    }
  });
});
