/** The next request of a planned run, for a person to read; and what the service responds to it. */

import { systemRuntime } from '../core/clock.ts';
import { ExportError } from '../core/errors.ts';
import { describeRoot, rootOfFirstProbe } from '../core/document-root.ts';
import { addPage, type RunTotals, zeroTotals } from '../core/model.ts';
import type { PageRequest } from '../core/ports.ts';
import { toPrintable, truncate } from '../core/sanitize.ts';
import { shownCredentials } from '../service/client/auth.ts';
import { httpRequest } from '../service/client/request.ts';
import type { Description } from '../service/api/description.ts';
import { placeOfNext } from '../service/api/next/kinds.ts';
import { probePage } from '../target/probe-service.ts';
import type { ExportTarget, DeployedService } from '../target/target.ts';
import { bytes, plural, totals } from './output/format.ts';

export type PlannedRequest = ReturnType<typeof plannedRequest>;

/** In `headers`, the API key is replaced by its source. `body` is that of JSON, or the text of a form; null if there is none. */
export function plannedRequest(
  { address, settings, api, keySource }: Pick<DeployedService, 'address' | 'settings' | 'api' | 'keySource'>,
  page: PageRequest,
) {
  const base = URL.parse(address) ?? new URL('http://simulator');
  const { method, path, headers, body } = httpRequest(base, api, page, settings);
  return {
    method,
    url: `${base.origin}${path}`,
    headers: { ...headers, ...shownCredentials(settings.auth, `(${keySource})`) },
    body:
      body === undefined || headers['content-type'] !== 'application/json'
        ? (body ?? null)
        : (JSON.parse(body) as unknown),
  };
}

/** What requests have found so far. */
export interface Requested {
  /** The first two. */
  pages?: RequestedPage[];
  /** The request without a response: if there is an error, the one that failed. */
  unanswered?: PlannedRequest | undefined;
  /** Only of a walk to the end: the totals, and the last page once it has been received. */
  walk?: RunTotals & { readonly last: RequestedPage | undefined };
}

export type RequestedPage = ReturnType<typeof requestedPage>;

/** A request and its response. */
function requestedPage(
  request: PlannedRequest,
  { received, bytes: size }: Awaited<ReturnType<typeof probePage>>,
  { next, last }: Pick<Description, 'next' | 'last'>,
) {
  const { contentType, reports, serviceTime, nextCursor: cursor, documentRoot, documentRootText, timing } = received;
  return {
    request,
    contentType,
    bytes: size,
    /** null: the format is not counted. */
    reports,
    documentRoot: documentRoot === null ? null : describeRoot(documentRoot, documentRootText()),
    serviceTime,
    latencyMs: timing.latencyMs,
    /** Where the next page is, what is there (null on the last page), and how the description recognizes the last page. */
    next: { at: placeOfNext(next), cursor, last },
  };
}

/** One page may be the only one; the second shows that its cursor is accepted. */
const shownPages = 2;

/**
 * Requests the page and the one after it, if there is one; with `toEnd`, all pages up to the last one. Stores nothing. `found` has what is
 * known at any moment, and so also after an error.
 * @throws as `probePage` does; RepeatedCursorError if a cursor comes again
 */
export async function requestPages(
  { name, definition, service, log }: Pick<ExportTarget, 'name' | 'definition' | 'service' | 'log'>,
  first: PageRequest,
  found: Requested,
  { notify, toEnd }: { readonly notify: (text: string) => void; readonly toEnd: boolean },
): Promise<readonly RequestedPage[]> {
  await using client = await service.connect(notify);
  let root = await rootOfFirstProbe(definition, log);
  const pages: RequestedPage[] = (found.pages = []);
  let sum = zeroTotals;
  const cursors = new Set<string>();
  for (let page = first; ;) {
    const request = (found.unanswered = plannedRequest(service, page));
    const probed = await probePage(client, page, root, { runtime: systemRuntime, notify });
    found.unanswered = undefined;
    const requested = requestedPage(request, probed, service.api);
    const { cursor } = requested.next;
    sum = { pages: sum.pages + 1, ...addPage(sum, requested) };
    if (toEnd) found.walk = { ...sum, last: cursor === null ? requested : undefined };
    if (pages.length < shownPages) pages.push(requested);
    else notify(`${name}: page ${sum.pages} · ${contentText(requested)}`);
    if (cursor === null) return pages;
    if (cursors.has(cursor)) {
      const shown = truncate(toPrintable(cursor), 100);
      throw new ExportError(
        'RepeatedCursorError',
        `Page ${sum.pages} has a cursor that an earlier page had: ${shown}. Check next.at and next.to`,
      );
    }
    if (!toEnd && pages.length === shownPages) return pages;
    cursors.add(cursor);
    ({ root } = probed);
    page = { ...page, cursor, label: `page ${sum.pages + 1}` };
  }
}

/** Indented, as the details of a plan. */
export function requestLines({ method, url, headers, body }: PlannedRequest): string[] {
  return [
    `  request  ${method} ${url}`,
    ...Object.entries(headers).map(([name, value]) => `           ${name}: ${value}`),
    ...(body === null ? [] : [`           ${JSON.stringify(body)}`]),
  ];
}

/** `9.1 kB · 10 reports`. */
const contentText = ({ reports, bytes: size }: Pick<RequestedPage, 'reports' | 'bytes'>): string =>
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

/** What a walk found, whose last page is `last`. */
export function walkLine(walk: RunTotals, { next: { at, last } }: RequestedPage): string {
  const reason = at === 'count' ? 'its reports complete the total' : `it has no ${at}`;
  return `  end      ${totals(walk)}. Page ${walk.pages} is the last one: ${last === undefined ? reason : JSON.stringify(last)}`;
}

/** Advice for a person who describes an API. */
export function notesOn(
  { definition, service }: Pick<ExportTarget, 'definition' | 'service'>,
  [first, second]: readonly RequestedPage[],
): readonly string[] {
  const { request } = service.api;
  const templates = JSON.stringify([request.path, request.query, request.body, request.form]);
  const hasSince = templates.includes('{since}') || templates.includes('{filter}');
  const notes = {
    'no request has {since}: every run exports everything': !hasSince,
    'slices and runs with an upper bound are not possible: requests have none':
      definition.dates.upperBound === undefined,
    'the first page has no reports: try an earlier --since': first?.reports === 0,
    'the first page is the last one. Try an earlier --since or a smaller size, to see that the next page is found':
      second === undefined,
  };
  return Object.entries(notes).flatMap(([note, applies]) => (applies ? [note] : []));
}
