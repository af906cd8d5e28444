/** Reports that a test gives to the simulator. */

import type { Report, ReportSource } from '../../../lib/service/simulator/report-export-service.ts';

export interface InMemoryReport {
  readonly id: string;
  /** ISO 8601, or milliseconds since the epoch. */
  readonly date: string | number;
  /** One element without an XML declaration. Not validated, so that tests can serve invalid XML. */
  readonly xml: string;
  readonly type?: string | undefined;
}

/**
 * Serves `reports` regardless of the clock. Reports with the same date keep the given order, so the same list results
 * in the same timeline in every process. `add` makes more reports arrive while the service runs.
 */
export function inMemoryReports(
  reports: Iterable<InMemoryReport>,
): ReportSource & { add(...more: InMemoryReport[]): void } {
  const all = [...reports];
  let timeline = sorted(all);
  return {
    oldest: 0,
    *from({ date, ordinal }) {
      for (const report of timeline) {
        if (report.date > date || (report.date === date && report.ordinal >= ordinal)) yield report;
      }
    },
    add(...more) {
      all.push(...more);
      timeline = sorted(all);
    },
  };
}

function sorted(reports: readonly InMemoryReport[]): readonly Report[] {
  const ordinals = new Map<number, number>();
  return reports
    .map(({ date, ...report }) => ({ ...report, date: new Date(date).getTime() }))
    .toSorted((a, b) => a.date - b.date)
    .map((report) => {
      const ordinal = ordinals.get(report.date) ?? 0;
      ordinals.set(report.date, ordinal + 1);
      return { ...report, ordinal };
    });
}
