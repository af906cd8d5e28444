/** When the next slice of a run is requested: what `parallel` counts are requests, not slices. */

import { expect, it } from 'vitest';
import type { PageRequest, PageStore, ReportService } from '../../../lib/core/ports.ts';
import { at } from '../../support/builders.ts';
import { anExportBench, type BenchOptions } from '../../support/export/export-bench.ts';
import { someReports } from '../../support/export/scripted-service.ts';

/** Twelve slices of one report, one at a time. */
const start = { since: at('2026-11-01T00:00:00Z'), until: at('2026-11-01T00:12:00Z'), parallel: 1, slice: 'PT1M' };

/** Records what begins or ends: requests and responses, by the minute of their slice, and pages that are stored. */
function anObservedExport(options: BenchOptions = {}) {
  const bench = anExportBench({ reports: someReports(12), limits: { pagesPerInvocation: 25 }, ...options });
  const events: string[] = [];
  const { service, store } = bench.deps;
  const minuteOf = ({ since }: Pick<PageRequest, 'since'>) => Number(since.slice(14, 16));
  const observed: { service: ReportService; store: PageStore } = {
    service: {
      async fetch(request, fetchOptions) {
        if (request.since === request.until) return await service.fetch(request, fetchOptions);
        events.push(`requests ${minuteOf(request)}`);
        const received = await service.fetch(request, fetchOptions);
        // The body ends later than the headers.
        await new Promise(setImmediate);
        events.push(`has ${minuteOf(request)}`);
        return received;
      },
    },
    store: {
      ...store,
      spool(identity) {
        const spool = store.spool(identity);
        return {
          ...spool,
          async put(received) {
            await new Promise((resolve) => setTimeout(resolve, 5));
            events.push(`stores ${(identity.slice ?? 1) - 1}`);
            return await spool.put(received);
          },
        };
      },
    },
  };
  Object.assign(bench.deps, observed);
  return { bench, events };
}

it('begins while the last page of the slice before is received and stored, with at most two slices in flight', async () => {
  const { bench, events } = anObservedExport();
  expect(await bench.start(start)).toMatchObject({ status: 'completed', result: { pages: 12, reports: 12 } });
  expect(events.indexOf('requests 1')).toBeLessThan(events.indexOf('has 0'));
  for (let slice = 2; slice < 12; slice += 1) {
    expect(events.indexOf(`requests ${slice}`)).toBeLessThan(events.indexOf(`stores ${slice - 1}`));
    expect(events.indexOf(`requests ${slice}`)).toBeGreaterThan(events.indexOf(`stores ${slice - 2}`));
  }
});
