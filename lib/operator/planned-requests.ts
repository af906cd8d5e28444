/** The next request of a planned run, for a person to read; and what the service responds to it. */

import { describeRoot, rootOfFirstProbe } from '../core/document-root.ts';
import type { PageRequest } from '../core/ports.ts';
import { toPrintable, truncate } from '../core/sanitize.ts';
import { shownCredentials } from '../service/client/auth.ts';
import { apiFor, authOf, httpRequest } from '../service/client/request.ts';
import { probePage } from '../target/probe-service.ts';
import type { ExportTarget, DeployedService } from '../target/target.ts';
import { bytes, plural } from './output/format.ts';

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
    body: body === undefined || headers['content-type'] !== 'application/json' ? (body ?? null) : (JSON.parse(body) as unknown),
  };
}

/** One page may be the only one; the second shows that its cursor is accepted. */
const maxPages = 2;

/** Requests the page and the one after it, if there is one. Stores nothing. @throws as `probePage` does */
export async function* requestPages(
  { definition, service, log }: Pick<ExportTarget, 'definition' | 'service' | 'log'>,
  first: PageRequest,
  notify: (text: string) => void,
) {
  await using client = await service.connect(notify);
  const { from, at } = apiFor(service.settings, first.request).next;
  let root = await rootOfFirstProbe(definition, log);
  let page = first;
  for (let count = 1; count <= maxPages; count += 1) {
    const probed = await probePage(client, page, root);
    const { contentType, reports, serviceTime, nextCursor, documentRoot, documentRootText, timing } = probed.received;
    yield {
      request: plannedRequest(service, page),
      contentType,
      bytes: probed.bytes,
      /** null: the format is not counted. */
      reports,
      documentRoot: documentRoot === null ? null : describeRoot(documentRoot, documentRootText()),
      serviceTime,
      latencyMs: timing.latencyMs,
      /** Where the next page is, and what is there: null on the last page. */
      next: { at: from === 'link' ? `link with the relation ${at}` : `${from} ${at}`, cursor: nextCursor },
    };
    if (nextCursor === null) return;
    ({ root } = probed);
    page = { ...page, cursor: nextCursor, label: `the page after ${first.label}` };
  }
}

export type RequestedPage = ReturnType<typeof requestPages> extends AsyncGenerator<infer Page> ? Page : never;

/** Indented, as the details of a plan. */
export function requestLines({ method, url, headers, body }: PlannedRequest): string[] {
  return [
    `  request  ${method} ${url}`,
    ...Object.entries(headers).map(([name, value]) => `           ${name}: ${value}`),
    ...(body === null ? [] : [`           ${JSON.stringify(body)}`]),
  ];
}

export function responseLines(page: RequestedPage): string[] {
  const { contentType, bytes: size, reports, documentRoot, latencyMs, serviceTime, next } = page;
  const content = [
    truncate(toPrintable(contentType), 100),
    bytes(size),
    reports === null ? 'reports are not counted' : plural(reports, 'report'),
    documentRoot,
    `after ${latencyMs} ms`,
    serviceTime === null ? null : `at ${serviceTime}`,
  ];
  const found = next.cursor === null ? 'none: this is the last page' : truncate(toPrintable(next.cursor), 100);
  return [`  response ${content.filter((text) => text !== null).join(' · ')}`, `  next     ${next.at}: ${found}`];
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
      next.from === 'body' || next.from === 'report',
    'the first page has no reports: try an earlier --since': first?.reports === 0,
    'the first page is the last one. Try an earlier --since or a smaller size, to see that the next page is found':
      second === undefined,
    'both pages have the same next page, so a run would fail: check next.to':
      second !== undefined && first?.next.cursor === second.next.cursor,
  };
  return Object.entries(notes).flatMap(([note, applies]) => (applies ? [note] : []));
}
