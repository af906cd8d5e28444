import { describe, expect, it } from 'vitest';
import { inMemoryReports } from '../../support/service/in-memory-reports.ts';
import { cases, fc } from '../../support/property.ts';
import { aReport, fetchAllPages, startTestSimulator } from '../../support/service/simulator-client.ts';

describe('docs/service-contract.md, sections 3, 4.1 and 8, for any reports, filter and page size', () => {
  const start = Date.UTC(2026, 10, 20);
  // Few dates, so that many reports share one. Sizes are those that the contract allows, or none.
  const instants = fc.integer({ min: 0, max: 12 }).map((tick) => start + tick * 250);
  const timelines = fc.oneof(
    { weight: 9, arbitrary: fc.array(instants, { maxLength: 40 }) },
    { weight: 1, arbitrary: fc.array(instants, { minLength: 90, maxLength: 320, size: 'max' }) },
  );
  const sizes = fc.option(fc.integer({ min: 1, max: 10 }), { nil: undefined });

  it('returns every matching report exactly once, in order, on as few pages as possible', async () => {
    await fc.assert(
      fc.asyncProperty(
        timelines,
        sizes,
        instants,
        fc.constantFrom('query', 'body'),
        async (dates, size, since, cursorIn) => {
          const reports = dates.map((date, index) => aReport(index, { date }));
          await using simulator = await startTestSimulator({ reports: inMemoryReports(reports) });
          const filter = { date: { gte: new Date(since).toISOString() } };
          const pages = await fetchAllPages(simulator, { fields: { filter, size }, cursorIn });

          const matching = reports.filter(({ date }) => Number(date) >= since);
          const inOrder = matching.toSorted((a, b) => Number(a.date) - Number(b.date)).map(({ id }) => id);
          expect(pages.flatMap(({ ids }) => ids)).toEqual(inOrder);
          expect(pages).toHaveLength(Math.max(1, Math.ceil(matching.length / (size ?? 100))));
        },
      ),
      { numRuns: cases(100) },
    );
  });
});
