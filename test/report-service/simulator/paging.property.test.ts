import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { givenReports } from '../../../lib/report-service/simulator/report-source.ts';
import { aReport, aSimulator, walk } from '../../support/asking-the-simulator.ts';

describe('contract §3, §4.1 and §8, for any reports, filter and page size', () => {
  const beginning = Date.UTC(2026, 10, 20);
  // Few dates, so that many reports share one; sizes as the contract allows them, or none.
  const moment = fc.integer({ min: 0, max: 12 }).map((tick) => beginning + tick * 250);
  const timelines = fc.oneof(
    { weight: 9, arbitrary: fc.array(moment, { maxLength: 40 }) },
    { weight: 1, arbitrary: fc.array(moment, { minLength: 90, maxLength: 320, size: 'max' }) },
  );
  const sizes = fc.option(fc.integer({ min: 1, max: 10 }), { nil: undefined });

  it('the cursor leads to every matching report exactly once, in order, on as few pages as can be', async () => {
    await fc.assert(
      fc.asyncProperty(
        timelines,
        sizes,
        moment,
        fc.constantFrom('query', 'body'),
        async (dates, size, since, cursorIn) => {
          const reports = dates.map((date, index) => aReport(index, { date }));
          await using simulator = await aSimulator({ reports: givenReports(reports) });
          const filter = { date: { gte: new Date(since).toISOString() } };
          const pages = await walk(simulator, { fields: { filter, size }, cursorIn });

          const matching = reports.filter(({ date }) => Number(date) >= since);
          const inOrder = matching.toSorted((a, b) => Number(a.date) - Number(b.date)).map(({ id }) => id);
          expect(pages.flatMap(({ ids }) => ids)).toEqual(inOrder);
          expect(pages).toHaveLength(Math.max(1, Math.ceil(matching.length / (size ?? 100))));
        },
      ),
      { numRuns: 100 },
    );
  });
});
