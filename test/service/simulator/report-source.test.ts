import { describe, expect, it } from 'vitest';
import { inMemoryReports } from '../../support/service/in-memory-reports.ts';
import { aReport, sendRequest, startTestSimulator } from '../../support/service/simulator-client.ts';

describe('in-memory reports', () => {
  it('are sorted by date, and keep the given order within a date', async () => {
    const reports = [aReport(5), aReport(1, { date: '2026-11-20T00:00:05Z' }), aReport(3), aReport(9, { date: 0 })];
    await using simulator = await startTestSimulator({ reports: inMemoryReports(reports) });
    expect((await sendRequest(simulator)).ids).toEqual(['r9', 'r3', 'r5', 'r1']);
  });

  it.each(['yesterday', -1, 1e13])('must have a date that fits a cursor, unlike %j', (date) => {
    expect(() => inMemoryReports([aReport(1, { date })])).toThrow('The date of report r1 is not between 1970 and 2286');
  });
});
