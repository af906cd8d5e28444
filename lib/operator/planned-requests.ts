/** The next request of a planned run, for a person to read; and what the service responds to it. */

import { ExportError } from '../core/errors.ts';
import { describeRoot, rootOfFirstProbe } from '../core/document-root.ts';
import type { PageRequest } from '../core/ports.ts';
import { toPrintable, truncate } from '../core/sanitize.ts';
import { shownCredentials } from '../service/client/auth.ts';
import { apiFor, authOf, httpRequest } from '../service/client/request.ts';
import type { Api } from '../settings/api-settings.ts';
import type { AnyOf } from '../settings/fields.ts';
import { probePage } from '../target/probe-service.ts';
import type { ExportTarget, DeployedService } from '../target/target.ts';
import { bytes, plural, totals } from './output/format.ts';

export type PlannedRequest = ReturnType<typeof plannedRequest>;

/** In `headers`, the API key is replaced by its source. `body` is that of JSON, or the text of a form; null if there is none. */
export function plannedRequest(
  { address, settings, keySource }: Pick<DeployedService, 'address' | 'settings' | 'keySource'>,
  page: PageRequest,
) {
  const base = URL.parse(address) ?? new URL('http://simulator');
  const { method, path, headers, body } = httpRequest(base, apiFor(settings, page.request), page, settings);
  return {
    method,
    url: `${base.origin}${path}`,
    headers: { ...headers, ...shownCredentials(authOf(settings), `(${keySource})`) },
    body:
      body === undefined || headers['content-type'] !== 'application/json'
        ? (body ?? null)
        : (JSON.parse(body) as unknown),
  };
}

/** One page may be the only one; the second shows that its cursor is accepted. */
const shownPages = 2;

/**
 * Requests the page and the one after it, if there is one; with `toEnd`, all pages up to the last one. Stores nothing. Yields each request
 * before it is sent, and again with its response.
 * @throws as `probePage` does; RepeatedCursorError if a cursor comes again
 */
export async function* requestPages(
  { definition, service, log }: Pick<ExportTarget, 'definition' | 'service' | 'log'>,
  first: PageRequest,
  notify: (text: string) => void,
  toEnd = false,
) {
  await using client = await service.connect(notify);
  const { from, at = '', end }: AnyOf<Api['next']> = apiFor(service.settings, first.request).next;
  let root = await rootOfFirstProbe(definition, log);
  let page = first;
  const cursors = new Set<string>();
  for (let count = 1; toEnd || count <= shownPages; count += 1) {
    const request = plannedRequest(service, page);
    yield { request };
    const probed = await probePage(client, page, root);
    const { contentType, reports, serviceTime, nextCursor, documentRoot, documentRootText, timing } = probed.received;
    yield {
      request,
      contentType,
      bytes: probed.bytes,
      /** null: the format is not counted. */
      reports,
      documentRoot: documentRoot === null ? null : describeRoot(documentRoot, documentRootText()),
      serviceTime,
      latencyMs: timing.latencyMs,
      /** Where the next page is, what is there (null on the last page), and how the description says that there is none. */
      next: { at: from === 'link' ? `link with the relation ${at}` : `${from} ${at}`.trim(), cursor: nextCursor, end },
    };
    if (nextCursor === null) return;
    if (cursors.size < cursors.add(nextCursor).size) {
      ({ root } = probed);
      page = { ...page, cursor: nextCursor, label: `page ${count + 1}` };
      continue;
    }
    const cursor = truncate(toPrintable(nextCursor), 100);
    throw new ExportError(
      'RepeatedCursorError',
      `Page ${count} has a cursor that an earlier page had: ${cursor}. Check next.at and next.to`,
    );
  }
}

export type RequestedPage = Extract<
  ReturnType<typeof requestPages> extends AsyncGenerator<infer Page> ? Page : never,
  { readonly next: object }
>;

/** How a walk over all pages went. */
export interface Walk {
  readonly pages: number;
  /** null: they are not counted. */
  readonly reports: number | null;
  readonly bytes: number;
  /** undefined: it has not ended. */
  readonly last: RequestedPage | undefined;
}

export const emptyWalk: Walk = { pages: 0, reports: 0, bytes: 0, last: undefined };

export const addToWalk = ({ pages, reports, bytes: size }: Walk, page: RequestedPage): Walk => ({
  pages: pages + 1,
  reports: reports === null || page.reports === null ? null : reports + page.reports,
  bytes: size + page.bytes,
  last: page.next.cursor === null ? page : undefined,
});

/** Indented, as the details of a plan. */
export function requestLines({ method, url, headers, body }: PlannedRequest): string[] {
  return [
    `  request  ${method} ${url}`,
    ...Object.entries(headers).map(([name, value]) => `           ${name}: ${value}`),
    ...(body === null ? [] : [`           ${JSON.stringify(body)}`]),
  ];
}

/** `9.1 kB · 10 reports`. */
export const contentText = ({ reports, bytes: size }: Pick<RequestedPage, 'reports' | 'bytes'>): string =>
  `${bytes(size)} · ${reports === null ? 'reports are not counted' : plural(reports, 'report')}`;

export function responseLines(page: RequestedPage): string[] {
  const { contentType, documentRoot, latencyMs, serviceTime, next } = page;
  const content = [
    truncate(toPrintable(contentType), 100),
    contentText(page),
    documentRoot,
    `after ${latencyMs} ms`,
    serviceTime === null ? null : `at ${serviceTime}`,
  ];
  const found = next.cursor === null ? 'none: this is the last page' : truncate(toPrintable(next.cursor), 100);
  return [`  response ${content.filter((text) => text !== null).join(' · ')}`, `  next     ${next.at}: ${found}`];
}

/** What a walk found. `last` is the page at which it ended. */
export function walkLine(walk: Walk, last: RequestedPage): string {
  const { at, end } = last.next;
  const reason = at === 'count' ? 'its reports complete the total' : `it has no ${at}`;
  return `  end      ${totals(walk)}. Page ${walk.pages} is the last one: ${end === undefined ? reason : JSON.stringify(end)}`;
}

/** Advice for a person who describes an API. */
export function notesOn(
  { definition, service }: Pick<ExportTarget, 'definition' | 'service'>,
  [first, second]: readonly RequestedPage[],
): readonly string[] {
  const { request, next } = apiFor(service.settings, definition.request);
  const templates = JSON.stringify([request.path, request.query, request.body, request.form]);
  const hasSince = templates.includes('{since}') || templates.includes('{filter}');
  const notes = {
    'no request has {since}: every run exports everything': !hasSince,
    'slices and runs with an upper bound are not possible: requests have none':
      definition.dates.upperBound === undefined,
    'a run requests the next page once a page has arrived, not its headers alone: the body has it':
      next.from !== 'header' && next.from !== 'link',
    'the first page has no reports: try an earlier --since': first?.reports === 0,
    'the first page is the last one. Try an earlier --since or a smaller size, to see that the next page is found':
      second === undefined,
    'both pages have the same next page, so a run would fail: check next.to':
      second !== undefined && first?.next.cursor === second.next.cursor,
  };
  return Object.entries(notes).flatMap(([note, applies]) => (applies ? [note] : []));
}
