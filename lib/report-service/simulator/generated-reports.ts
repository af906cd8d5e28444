/**
 * Reports out of nothing, for a service that can be tried without data: an absolute timeline on which report k is dated
 * k intervals after the epoch, with content that follows from the seed and k alone. Any process that is given the same
 * seed and interval sees the same reports, and new ones arrive as the clock goes on.
 */

import { ExportError } from '../../core/errors.ts';
import { generatedType, generatedXml } from './generated-xml.ts';
import type { Report, ReportSource } from './report-source.ts';

/**
 * Holds the `count` newest reports at the moment it is made, and every later one from the moment of its date.
 * Older ones are not found by a new walk; a walk that an earlier instance began goes on through them without a gap.
 *
 * @example generatedReports({ seed: 1, count: 250 })
 */
export function generatedReports(options: {
  readonly seed: string | number;
  readonly count: number;
  /** Read once, to find the newest reports. */
  readonly now?: () => number;
  readonly intervalSeconds?: number;
}): ReportSource {
  const { seed, count, now = Date.now, intervalSeconds = 10 } = options;
  const intervalMs = Math.round(intervalSeconds * 1_000);
  if (!(Number.isInteger(count) && count >= 0 && intervalMs >= 1)) {
    const given = `count ${count}, intervalSeconds ${intervalSeconds}`;
    throw new ExportError(
      'ConfigurationError',
      `Reports are generated for a count from 0 and a positive interval: ${given}`,
    );
  }
  const newest = Math.floor(now() / intervalMs);
  return {
    oldest: Math.max(0, newest - count + 1) * intervalMs,
    *from({ date, ordinal }, at) {
      // No two generated reports share a date: past ordinal 0 the next one stands at the next tick.
      const first = ordinal === 0 ? Math.ceil(date / intervalMs) : Math.floor(date / intervalMs) + 1;
      for (let k = Math.max(0, first); k * intervalMs <= at; k++) yield generatedReport(seed, k, k * intervalMs);
    },
  };
}

function generatedReport(seed: string | number, k: number, date: number): Report {
  const id = `R-${k}`;
  let made: Buffer | undefined;
  const body = () => {
    made ??= Buffer.from(generatedXml(seed, k, id, date));
    return made;
  };
  return { id, date, ordinal: 0, type: generatedType(seed, k), bytes: () => body().length, body: () => [body()] };
}
