/** Reports that a test gives to the simulator. */

import { createTimeline, type Report, type ReportSource } from '../../../lib/service/simulator/report-source.ts';

export interface InMemoryReport {
  readonly id: string;
  /** ISO 8601, or milliseconds since the epoch. */
  readonly date: string | number;
  /** One element without an XML declaration. Not validated, so that tests can serve invalid XML. */
  readonly xml: string;
  readonly type?: string | undefined;
}

/**
 * Serves `reports` regardless of the clock. Reports with the same date keep the given order, so the same list results in
 * the same timeline in every process. `add` makes more reports arrive while the service runs.
 */
export function inMemoryReports(
  reports: Iterable<InMemoryReport>,
): ReportSource & { add(...more: InMemoryReport[]): void } {
  const all = Array.from(reports, toReport);
  let timeline = createTimeline(all);
  return {
    oldest: timeline.oldest,
    from: (position, at) => timeline.from(position, at),
    add(...more) {
      all.push(...more.map(toReport));
      timeline = createTimeline(all);
    },
  };
}

function toReport({ id, date, xml, type }: InMemoryReport): Omit<Report, 'ordinal'> {
  const body = Buffer.from(xml);
  return { id, date: new Date(date).getTime(), type, bytes: () => body.length, body: () => [body] };
}
