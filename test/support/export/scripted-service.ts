/** A report service without a network: it pages through a list of reports, and a script may replace any response. */

import { type ErrorName, ExportError } from '../../../lib/core/errors.ts';
import { asCursor, type Cursor } from '../../../lib/core/model.ts';
import type { PageRequest, ReceivedEnd, ReportService } from '../../../lib/core/ports.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';
import { aFetchedPage, at, type FetchedPage, respondWith } from '../builders.ts';

export interface ScriptedReport {
  readonly id: string;
  readonly date: string;
}

export interface ScriptedService extends ReportService {
  /** In the order of arrival. */
  readonly requests: readonly PageRequest[];
}

/** Replaces the response to the nth request (from 1), or throws. undefined: the regular response. */
export type Script = (request: PageRequest, nth: number) => FetchedPage | ReceivedEnd | undefined;

/** The cursor after the first `position` matching reports, in the form that the contract shows. */
export const cursorAt = (position: number): Cursor =>
  asCursor(`1588888888888,00000000-0000-4000-8000-${position.toString(16).padStart(12, '0')}`);

/** How many matching reports come before those of the page with this cursor. */
const positionOf = (cursor: Cursor | null): number =>
  cursor === null ? 0 : Number.parseInt(cursor.split('-').at(-1) ?? '', 16);

/** Fails requests, by their numbers from 1: with the error of this name, or a Retry-After of so many seconds. */
export const failsAt =
  (failures: Readonly<Record<number, ErrorName | number>>): Script =>
  (_, nth) => {
    const failure = failures[nth];
    if (typeof failure === 'number') {
      throw new ExportError('ServiceThrottledError', 'too many', { retryAfterSeconds: failure });
    }
    if (failure !== undefined) throw new ExportError(failure, 'it failed');
    return undefined;
  };

const pageXml = (reports: readonly ScriptedReport[]): string =>
  `<reports>${reports.map(({ id }) => `<report id="${id}"/>`).join('')}</reports>`;

/** Reports `r1` to `rN`, a minute apart. */
export const someReports = (count: number): ScriptedReport[] =>
  Array.from({ length: count }, (_, index) => ({
    id: `r${index + 1}`,
    date: new Date(Date.UTC(2026, 10, 1) + index * 60_000).toISOString(),
  }));

/** The service honors the upper bound. */
const upperBoundOf = ({ until }: PageRequest): number => (until === undefined ? Infinity : Date.parse(until));

/** With `endStatus`, every page with reports has a cursor, and that of the last page is answered with this status. */
export function scriptedService(
  reports: readonly ScriptedReport[],
  script: Script = () => undefined,
  now: () => number = () => Date.UTC(2026, 10, 20, 2),
  endStatus?: number,
): ScriptedService {
  const requests: PageRequest[] = [];
  return {
    requests,
    async fetch(request, options) {
      await request.beforeSend?.();
      requests.push(request);
      const requestedAt = now();
      const respond = (page: FetchedPage) =>
        respondWith(
          { ...page, timing: { requestedAt: instantOf(requestedAt), latencyMs: now() - requestedAt } },
          options,
        );
      const scripted = script(request, requests.length);
      if (scripted?.kind === 'end') return scripted;
      if (scripted !== undefined) return await respond(scripted);
      const until = upperBoundOf(request);
      const matching = reports.filter(({ date }) => {
        const ms = Date.parse(date);
        return ms >= Date.parse(request.since) && ms < until;
      });
      const position = positionOf(request.cursor);
      if (endStatus !== undefined && request.cursor !== null && position >= matching.length)
        return { kind: 'end', reason: 'last', status: endStatus };
      const page = matching.slice(position, position + (request.request.size ?? 100));
      const end = position + page.length;
      const hasCursor = end < matching.length || (endStatus !== undefined && page.length > 0);
      const nextCursor = hasCursor ? cursorAt(end) : null;
      const serviceTime = at('2026-11-20T01:59:59Z');
      const parts = { body: pageXml(page), reports: page.length, nextCursor, serviceTime };
      return await respond(aFetchedPage(parts));
    },
  };
}
