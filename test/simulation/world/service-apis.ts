/**
 * The forms in which the simulated service serves its reports: that of the Report Export Service, and those of APIs
 * that the settings describe, with the next page in a link or in the body.
 */

import type { ApiProps } from '../../../lib/settings/props.ts';
import type { ConditionPart } from '../../../lib/service/api/condition.ts';
import type { DeploymentScenario } from '../histories/scenario.ts';
import { headerOf, type ServiceRequest, type ServiceResponse } from './report-service.ts';
import type { Rng } from './rng.ts';

/** Where the next page is. */
export type DescribedApi = 'link' | 'xml body' | 'json body';

export interface ExportRequest {
  readonly filter: { readonly date: { readonly gte: string; readonly lt?: string } };
  readonly size?: number | undefined;
  readonly parent?: string | undefined;
  /** Whose result is requested. */
  readonly job?: string | undefined;
  readonly cursor: string | null;
}

/** A page before it is written. */
export interface PageContent {
  readonly reports: readonly { readonly id: string; readonly revision: number; readonly date: number }[];
  readonly nextCursor: string | null;
  readonly padding: Buffer;
}

type Written = Pick<ServiceResponse, 'headers' | 'body'>;

export interface ServiceApi {
  /** Whether corruption shows in the format itself. */
  readonly isChecked: boolean;
  /** Whether a document that is no page is recognized even if nothing is known of the runs before. */
  readonly describesPages: boolean;
  /** The request, or the problem with it. */
  read(request: ServiceRequest, listsAll?: boolean): ExportRequest | string;
  /** What the client receives as the cursor with this value, in a response to `request`. */
  toCursor(value: string, request: ServiceRequest): string;
  write(page: PageContent): Written;
  /** A well-formed document that is no page. `page` is what it replaces. */
  otherDocument(rng: Rng, page: PageContent): Written;
  /** The page with each defect that the client must notice in its headers, or where the next page is. */
  wrong(page: PageContent): readonly Written[];
  /** Replaces a byte, so that the document is no longer well-formed. */
  corruption(rng: Rng): string;
}

const path = '/v1/report/export';
const xmlType = { 'content-type': 'application/xml;charset=UTF-8' };
const jsonType = { 'content-type': 'application/json' };

/** The setting `api` of the service. */
export function descriptionOf(
  api: DescribedApi,
  auth: ApiProps['auth'],
  {
    cursorIn,
    hasUpperBound,
    hasDays,
    endStatus,
    parents,
    counts,
  }: Pick<DeploymentScenario, 'cursorIn' | 'hasUpperBound' | 'hasDays' | 'endStatus' | 'parents' | 'counts'>,
): ApiProps {
  /** With the condition for a page that is the last one by itself. */
  const lastOr = (page: ConditionPart) =>
    endStatus === undefined
      ? undefined
      : [page, endStatus === 204 ? { status: 204 } : { status: endStatus, ...endOfPages }];
  const xml = { format: 'xml', reports: '/reports/report' } as const;
  const parent: { readonly [name: string]: string } = parents === undefined ? {} : { parent: '{parent}' };
  const when = parents === 'values' ? { gone: { status: [404, 410] } } : undefined;
  if (api === 'link') {
    const query = {
      since: '{since}',
      ...(hasUpperBound ? { until: '{until}' } : {}),
      type: '{filter.type}',
      size: '{size}',
      ...parent,
    };
    return {
      request: { path, query },
      ...(hasDays ? { dates: { form: 'date', zone: 'UTC' } } : {}),
      auth,
      next: { from: 'link' },
      last: lastOr({ header: 'link', is: null }),
      page: xml,
      when,
    };
  }
  const filter = { date: { gte: '{since}', ...(hasUpperBound ? { lt: '{until}' } : {}) }, other: '{filter}' };
  const to = cursorIn === 'body' ? { body: '/cursor' } : { query: 'cursor' };
  const post = {
    request: { method: 'POST', path, body: { filter, format: 'ANY', container: 'NONE', size: '{size}', ...parent } },
    auth,
    when,
  } as const;
  if (counts === true) {
    const [page, by] = api === 'xml body' ? [xml, '/@id'] : [{ format: 'json', reports: '/reports/*' } as const, '/id'];
    return { ...post, page, next: { from: 'count', to, first: 0, step: 'reports', proof: 'twice', by } };
  }
  return {
    ...post,
    ...(api === 'xml body'
      ? {
          next: { from: 'body', at: '/reports/@next', to },
          last: lastOr({ at: '/reports/@next', is: null }),
          page: xml,
        }
      : {
          next: { from: 'body', at: '/next', to },
          last: lastOr({ at: '/more', is: false }) ?? { at: '/more', is: false },
          page: { format: 'json', reports: '/reports/*' },
        }),
  };
}

/** What the end of the pages says, unless it has status 204. */
const endOfPages = { at: '/code', is: 'no more pages' } as const;

/** A request for all reports has no dates. */
const allDates = { date: { gte: new Date(0).toISOString() } };

function readPost(request: ServiceRequest, listsAll = false): ExportRequest | string {
  const { method, path: target, body } = request;
  if (method !== 'POST' || !/^\/v1\/report\/export(\?cursor=[^,]*)?$/.test(target))
    return `unexpected ${method} ${target}`;
  if (headerOf(request, 'content-type') !== 'application/json') return 'no content-type application/json';
  const { cursor, ...rest } = JSON.parse(body) as ExportRequest & {
    readonly format?: string;
    readonly container?: string;
  };
  const { filter = listsAll ? allDates : undefined } = rest as Partial<ExportRequest>;
  if (filter === undefined || Number.isNaN(Date.parse(filter.date?.gte)) || !rest.format || !rest.container)
    return `invalid body ${body}`;
  return { ...rest, filter, cursor: new URL(target, 'http://service').searchParams.get('cursor') ?? cursor ?? null };
}

/** A request with a cursor has the whole URL of a link. */
function readGet({ method, path: target, body }: ServiceRequest, listsAll = false): ExportRequest | string {
  const { pathname, searchParams } = new URL(target, 'http://service');
  const since = searchParams.get('since') ?? (listsAll ? allDates.date.gte : '');
  if (method !== 'GET' || pathname !== path || body !== '' || Number.isNaN(Date.parse(since))) {
    return `unexpected ${method} ${target} ${body}`;
  }
  const [size, type, until, parent, job] = ['size', 'type', 'until', 'parent', 'job'].map(
    (name) => searchParams.get(name) ?? undefined,
  );
  return {
    filter: {
      date: { gte: since, ...(until === undefined ? {} : { lt: until }) },
      ...(type === undefined ? {} : { type }),
    },
    ...(size === undefined ? {} : { size: Number(size) }),
    ...(parent === undefined ? {} : { parent }),
    ...(job === undefined ? {} : { job }),
    cursor: searchParams.has('cursor') ? target : null,
  };
}

const xmlReports = ({ reports }: PageContent) =>
  reports
    .map(({ id, revision, date }) => `<report${id === '' ? '' : ` id="${id}"`} revision="${revision}" date="${date}"/>`)
    .join('\n');

const xmlDocument = (page: PageContent, attributes = ''): Buffer =>
  Buffer.concat([
    Buffer.from(`<?xml version="1.0" encoding="UTF-8"?>\n<reports${attributes}>\n${xmlReports(page)}`),
    page.padding,
    Buffer.from('</reports>\n'),
  ]);

const errorDocuments = [
  '<error><code>500</code></error>\n',
  '<error/>\n',
  '<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml"><body>Maintenance</body></html>\n',
];

/** The pages of the Report Export Service, and those with a link, which differ in one header. */
function withCursorInHeader(header: string, valueOf: (cursor: string) => string, isXml = true): ServiceApi {
  const write = (page: PageContent): Written => ({
    headers: {
      ...(isXml ? xmlType : { 'content-type': 'text/plain' }),
      'content-disposition': 'attachment; filename="reports.xml"',
      ...(page.nextCursor === null ? {} : { [header]: valueOf(page.nextCursor) }),
    },
    body: isXml
      ? xmlDocument(page)
      : Buffer.concat([
          Buffer.from(page.reports.map(({ id, revision, date }) => `${id},${revision},${date}`).join('\n')),
          page.padding,
        ]),
  });
  return {
    isChecked: isXml,
    describesPages: false,
    read: readPost,
    toCursor: (value) => value,
    write,
    // Most have no cursor, and would end pagination.
    otherDocument(rng, page) {
      const { headers, body } = write(page);
      const inNamespace = body.toString().replace('<reports>', '<reports xmlns="urn:example:v2">');
      const text = rng.pick([...errorDocuments, inNamespace, inNamespace]);
      const { [header]: _, ...withoutCursor } = headers;
      return { headers: text === inNamespace && rng.chance(0.5) ? headers : withoutCursor, body: Buffer.from(text) };
    },
    wrong(page) {
      const { headers, body } = write(page);
      const { [header]: _, ...withoutCursor } = headers;
      return [
        { ...headers, [header]: '' },
        { ...headers, [header]: ['one', 'two'].map(valueOf) },
        { ...headers, [header]: valueOf('gr\u00fc\u00dfe') },
        { ...headers, 'content-type': 'text/html' },
        { ...withoutCursor, 'content-encoding': 'compress' },
      ].map((each) => ({ headers: each, body }));
    },
    corruption: (rng) => rng.pick(['<', '\u0000']),
  };
}

export const contractApi = (vendor: string, isXml: boolean): ServiceApi =>
  withCursorInHeader(`x-${vendor.toLowerCase()}-cursor`, (cursor) => cursor, isXml);

function linkApi(): ServiceApi {
  const api = withCursorInHeader('link', (cursor) => `<${cursor}>; rel="next"`);
  return {
    ...api,
    read: readGet,
    toCursor(value, request) {
      const { pathname, searchParams } = new URL(request.path, 'http://service');
      searchParams.set('cursor', value);
      return `${pathname}?${searchParams.toString()}`;
    },
    wrong: (page) => [
      ...api.wrong(page).slice(1),
      ...['<>; rel="next"', `<https://elsewhere.example${path}?cursor=1>; rel="next"`, `<${path}; rel="next"`].map(
        (link) => ({ ...api.write(page), headers: { ...api.write(page).headers, link } }),
      ),
    ],
  };
}

function xmlBodyApi(): ServiceApi {
  const attribute = (cursor: string | null) => (cursor === null ? '' : ` next="${cursor}"`);
  const write = (page: PageContent, attributes = attribute(page.nextCursor)): Written => ({
    headers: xmlType,
    body: xmlDocument(page, attributes),
  });
  return {
    isChecked: true,
    describesPages: true,
    read: readPost,
    toCursor: (value) => value,
    write: (page) => write(page),
    otherDocument: (rng) => ({ headers: xmlType, body: Buffer.from(rng.pick(errorDocuments)) }),
    wrong: (page) => [
      write(page, `${attribute('one')}${attribute('two')}`),
      { ...write(page), headers: { 'content-type': 'text/html' } },
      { ...write(page, ''), headers: { ...xmlType, 'content-encoding': 'compress' } },
    ],
    corruption: (rng) => rng.pick(['<', '\u0000']),
  };
}

function jsonBodyApi(cursorIn: 'query' | 'body'): ServiceApi {
  // A cursor that is sent in a body is a JSON value to the client.
  const toJson = (cursor: string | null) => (cursor !== null && cursorIn === 'query' ? JSON.stringify(cursor) : cursor);
  const document = (page: PageContent, end: string): Written => ({
    headers: jsonType,
    body: Buffer.concat([
      // The next page comes first: of a document that is cut off, only the end of the document is missing.
      Buffer.from(`{${end}, "reports": ${JSON.stringify(page.reports)}`),
      page.padding,
      Buffer.from('}\n'),
    ]),
  });
  const write = (page: PageContent) =>
    document(page, `"more": ${page.nextCursor !== null}, "next": ${toJson(page.nextCursor)}`);
  return {
    isChecked: true,
    describesPages: true,
    read(request, listsAll) {
      const received = readPost(request, listsAll);
      if (typeof received === 'string' || received.cursor === null || cursorIn === 'query') return received;
      return { ...received, cursor: JSON.stringify(received.cursor) };
    },
    toCursor: (value) => (cursorIn === 'body' ? JSON.stringify(value) : value),
    write,
    otherDocument: (rng) => ({
      headers: jsonType,
      body: Buffer.from(
        rng.pick([
          '{}\n',
          '{"error": {"code": 500}, "more": false, "next": null}\n',
          '{"reports": null, "more": false}\n',
          '{"reports": {"more": false}}\n',
          '[]\n',
        ]),
      ),
    }),
    wrong: (page) => [
      document(page, '"more": false, "next": "one"'),
      document(page, '"more": true, "next": null'),
      document(page, '"more": true'),
      document(page, '"more": "no", "next": null'),
      document(page, '"next": null'),
      document(page, '"more": true, "next": true'),
      document(page, '"more": true, "next": "one", "more": false, "next": null'),
      { ...write(page), headers: { 'content-type': 'text/html' } },
    ],
    // Inside a string, most other characters would be valid.
    corruption: () => '\u0000',
  };
}

/** The cursor is how many reports come before the page, and no page says whether another one follows. */
function counted(api: ServiceApi): ServiceApi {
  const write = (page: PageContent) => api.write({ ...page, nextCursor: null });
  return {
    ...api,
    read(request, listsAll) {
      const received = api.read(request, listsAll);
      if (typeof received === 'string') return received;
      const position = Number(received.cursor ?? Number.NaN);
      if (Number.isNaN(position)) return 'no position';
      return { ...received, cursor: position === 0 ? null : String(position) };
    },
    write,
    wrong: (page) => [{ ...write(page), headers: { 'content-type': 'text/html' } }],
  };
}

export function describedApi(
  name: DescribedApi,
  { cursorIn, counts }: Pick<DeploymentScenario, 'cursorIn' | 'counts'>,
) {
  const api = { link: linkApi, 'xml body': xmlBodyApi, 'json body': jsonBodyApi }[name](cursorIn);
  return counts === true ? counted(api) : api;
}
