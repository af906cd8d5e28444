import { describe, expect, it } from 'vitest';
import { renderRunReport } from '../../../lib/operator/run-report/run-report.ts';
import { collectExample, pageEntries, someRunFacts } from './example-runs.ts';

const run = someRunFacts();

describe('the data of a run report', () => {
  it('has the same size for a run with a hundred times as many pages, and includes all of them', async () => {
    const pages = 200_001;
    const bytes = (page: number) => 1_000 + (page % 977);
    const data = await collectExample({ run, entries: pageEntries(run, { pages, bytes }) });
    expect(data.points.length).toBeLessThanOrEqual(2_000);
    expect(data.points.reduce((sum, point) => sum + point.pages, 0)).toBe(pages);
    expect(data.points.reduce((sum, point) => sum + (point.bytes?.sum ?? 0), 0)).toBe(data.totals.bytes);
    expect(data.points.every((point, index) => point.firstPage === 1 + index * data.pagesPerPoint)).toBe(true);
    expect(data.points.at(0)?.bytes).toMatchObject({ count: data.pagesPerPoint, min: 1_001 });
    expect(renderRunReport(data).length).toBeLessThan(500_000);
  });
});
