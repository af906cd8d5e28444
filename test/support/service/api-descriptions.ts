/** Random descriptions of APIs, all of them valid, and such that a document can have all that they name. */

import type { Dates } from '../../../lib/service/api/dates.ts';
import { type Api, apiSchema } from '../../../lib/service/api/description.ts';
import { fc } from '../property.ts';

type ApiInput = Record<string, unknown>;

/** A value of a template, and what it asks for. */
const times = ['{since}', 'from {since} to {until}', '{until}'] as const;

const templates = fc.record({
  since: fc.constantFrom('query', 'body', 'path', 'none'),
  until: fc.constantFrom('query', 'body', 'text', 'none'),
  size: fc.constantFrom('query', 'query', 'body', 'body', 'none'),
  type: fc.constantFrom('query', 'body', 'path', 'object', 'none'),
});

/** Names that every syntax must escape somewhere, none of which is that of another place in the document. */
const names = {
  list: fc.constantFrom('data', 'a/b', '~', '', 'größe', '"list"', '__proto__'),
  next: fc.constantFrom('next', 'next/cursor', '~1', 'é', 'toString'),
  outer: fc.constantFrom('meta', 'paging~', ' ', 'constructor'),
};

const escapePointer = (name: string) => `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;

const jsonPaths = fc
  .record({
    list: names.list,
    next: names.next,
    outer: names.outer,
    isNested: fc.boolean(),
    isDeep: fc.boolean(),
    isSelected: fc.boolean(),
  })
  .map(({ list, next, outer, isNested, isDeep, isSelected }) => {
    const around = isNested ? escapePointer(outer) : '';
    return {
      reports: `${isDeep ? '/results' : ''}${escapePointer(list)}/*`,
      next: `${around}${isSelected ? '/links[rel=next]' : ''}${escapePointer(next)}`,
      without: `${around}/further`,
      report: '/id',
      total: `${around}/count`,
      flag: `${around}/more`,
      absent: isNested ? around : isSelected ? '/links' : escapePointer(next),
      error: '/problem',
      result: '/result',
      busy: '/busy',
      empty: '/message/code',
    };
  });

const xmlPaths = fc
  .record({
    reports: fc.constantFrom('/feed/entry', '/feed/data/größe', '/feed/data/*'),
    next: fc.constantFrom(
      '/feed/next',
      '/feed/@next',
      '/feed/meta/next-token',
      '/feed/link[@rel=next]/@href',
      '/feed/link[@rel="next page"]',
      '/feed/data.info/@next',
    ),
    flag: fc.constantFrom('/feed/more', '/feed/@more', '/feed/meta/more'),
  })
  .map((paths) => ({
    ...paths,
    without: '/feed/further',
    total: '/feed/@total',
    report: paths.reports.endsWith('*') ? '/@id' : '/r/@id',
    // What contains it, unless that is the root.
    absent: paths.next.replace(/(?<=\/feed\/.*)\/[^/]*$/, ''),
    error: '/feed/problem',
    result: '/feed/result',
    busy: '/feed/busy',
    empty: '/feed/message/@code',
  }));

const auths: fc.Arbitrary<ApiInput> = fc.constantFrom(
  { kind: 'none' },
  { kind: 'bearer' },
  { kind: 'basic' },
  { kind: 'key', send: { 'X-Key': '{secret}' } },
  { kind: 'key', query: { 'k[0]': '{secret}' } },
  { kind: 'oauth2', tokenUrl: 'https://login.example/token', clientId: 'an exporter:1', scope: 'a b' },
  { kind: 'oauth2', tokenUrl: 'https://login.example/token', clientId: 'an exporter:1', grant: 'refresh_token' },
  { kind: 'key', send: { Authorization: 'SSWS {secret}' } },
  {
    kind: 'oauth2',
    tokenUrl: 'https://login.example/token',
    clientId: 'a',
    encoding: 'json',
    send: { 'X-Token': '{token}' },
  },
  { kind: 'login', path: '/login', body: { key: '{secret}' }, token: '/access_token', expires: '/expires_in' },
  { kind: 'login', url: 'https://login.example/login', headers: { 'X-Key': '{secret}' }, token: '/access_token' },
);

const choices = fc.record({
  format: fc.constantFrom('xml', 'json', 'ndjson', 'csv', 'zip', 'bytes'),
  from: fc.constantFrom('header', 'link', 'body', 'body', 'body', 'report', 'count', 'none'),
  first: fc.constantFrom(undefined, 0, 1),
  step: fc.constantFrom(undefined, 1, 'reports'),
  confirm: fc.boolean(),
  isTotalInHeader: fc.boolean(),
  isUrl: fc.boolean(),
  method: fc.constantFrom('GET', 'POST'),
  to: fc.constantFrom('query', 'header', 'body', 'body', 'form'),
  hasInitial: fc.boolean(),
  alone: fc.constantFrom(undefined, true, false),
  hasParameters: fc.boolean(),
  end: fc.constantFrom(
    undefined,
    'absent',
    'part',
    'value',
    'either',
    'flag',
    'last flag',
    'deciding',
    'without',
    'link',
    'same',
  ),
  fixedQuery: fc.constantFrom('', '?verb=List%20Records', '?v=1&of={type}'),
  error: fc.constantFrom(undefined, 'something', 'either', 'unusual'),
  isThrottled: fc.boolean(),
  hasTokenExpired: fc.boolean(),
  status: fc.constantFrom(undefined, undefined, [200, 206], [201]),
  empty: fc.constantFrom(undefined, 'value', 'status', 'null', 'blank'),
  hasRejected: fc.boolean(),
  hasReports: fc.boolean(),
  types: fc.constantFrom(undefined, ['application/vnd.acme+data', 'application/octet-stream']),
  dates: fc.constantFrom<Dates>('iso', 'iso-ms', 'epoch', 'epoch-ms', 'date', {
    form: 'yyyy-MM-dd HH:mm',
    zone: 'Asia/Tokyo',
  }),
  auth: auths,
  templates,
  json: jsonPaths,
  xml: xmlPaths,
});

export const describedApis: fc.Arbitrary<Api> = choices.map((chosen) => {
  const choice = { ...chosen, hasInitial: chosen.hasInitial && chosen.from !== 'count' };
  const { format, templates: at } = choice;
  const hasPaths = format === 'xml' || format === 'json';
  const needsPaths = choice.from === 'body' || choice.from === 'report' || format === 'zip' || format === 'bytes';
  const from = needsPaths && !hasPaths ? 'header' : choice.from;
  const isReport = from === 'report';
  const isCounted = from === 'count';
  const isOnly = from === 'none';
  // Any value may be the next page: also a URL, or one that the last page has, too.
  const isAnyValue = ['header', 'link', 'body'].includes(from);
  const isUrl = from === 'link' || (choice.isUrl && isAnyValue);
  const method = isUrl ? 'GET' : choice.method;
  const isPost = method === 'POST';
  const isUnsendable = (choice.to === 'body' || choice.to === 'form') && !isPost;
  // A number is sent in no header.
  const to = isUnsendable || (isCounted && choice.to === 'header') ? 'query' : choice.to;
  const paths = format === 'xml' ? choice.xml : choice.json;
  // The last page of such an API has no report, which is no NDJSON.
  const isSame = choice.end === 'same' && format !== 'ndjson' && !isUrl;
  const inBody = from === 'body';
  const aboutNext = from === 'header' ? { header: 'X-Next' } : { at: paths.next };
  const hasOwnPlace = inBody || from === 'header';
  const last = {
    absent: inBody ? { at: paths.next, is: null } : undefined,
    part: inBody ? { at: paths.absent, is: null } : undefined,
    value: hasOwnPlace ? { ...aboutNext, is: 'null' } : undefined,
    either: hasOwnPlace
      ? [
          { ...aboutNext, is: null },
          { ...aboutNext, is: 'none' },
        ]
      : undefined,
    flag: inBody || isReport ? { at: paths.flag, is: false } : { header: 'X-More', is: 'no' },
    'last flag': inBody || isReport ? { at: paths.flag, is: true } : { header: 'X-Pages-Left', is: 0 },
    deciding: inBody ? { at: paths.flag, is: false } : { header: 'X-Done', is: ['yes', true] },
    without: inBody ? { at: paths.without, is: null } : undefined,
    link: from === 'link' ? { parameter: 'results', is: 'false' } : undefined,
    same: isSame && hasOwnPlace ? { ...aboutNext, is: '{cursor}' } : undefined,
    none: undefined,
  }[choice.end ?? 'none'];
  const alsoOnLast = ['deciding', 'without', 'link'].includes(choice.end ?? '') && last !== undefined;
  const reportEnd = last !== undefined && 'at' in last && last.at === paths.flag ? last : { reports: 0 };
  // An upper bound needs a lower one.
  const until = isCounted && at.until === 'none' ? 'query' : at.until;
  const since = at.since === 'none' && until !== 'none' && until !== 'text' ? 'query' : at.since;
  const isInDocument = hasPaths && choice.hasReports;
  const hasExpired = isInDocument && choice.hasRejected && !isOnly;
  const error = {
    something: { at: paths.error },
    either: [{ at: paths.error }, { header: 'X-Error' }],
    unusual: { at: paths.result, not: [0, 'OK'] },
    none: undefined,
  }[choice.error ?? 'none'];
  const isNull = format === 'json' && choice.empty === 'null' && error !== undefined && choice.error !== 'unusual';
  const empty = {
    value: { at: paths.empty, is: 'nothing' },
    null: isNull ? { at: paths.reports.replace('/*', ''), is: null } : undefined,
    blank: format === 'json' ? { at: '', is: null } : undefined,
    status: undefined,
    none: undefined,
  }[choice.empty ?? 'none'];
  const overloaded = { status: 420, header: 'X-Left', is: 0 };
  const isAlone = choice.alone === true && !isUrl && !isCounted && !isOnly;
  const cursorInBody = bodyPlace(choice.hasInitial, at.size);
  const place = (where: string) => (where === 'body' && !isPost ? 'query' : where);

  const query = {
    'fixed name': 'a "b" & {1}',
    ...(place(since) === 'query' && { since: times[0] }),
    ...(place(until) === 'query' && { $to: times[2] }),
    ...(place(until) === 'text' && { filter: times[1] }),
    ...(place(at.size) === 'query' && { limit: 'n={size}' }),
    ...(place(at.type) === 'query' && { type: '{filter.type}' }),
    ...(to === 'query' && !isUrl && choice.hasInitial && { cursor: '*' }),
  };
  const body = {
    fixed: [1, null, ['x', [2]], { yes: true }],
    ...(since === 'body' && { since: times[0] }),
    ...(until === 'body' && { range: [{ until: times[2] }] }),
    ...(at.size === 'body' && { limit: '{size}', text: 'n={size}' }),
    ...(at.type === 'body' && { type: ['{filter.type}', 'other'] }),
    ...(at.type === 'object' && { filter: '{filter}' }),
    ...(to === 'body' && choice.hasInitial && { 'cursor/a': '*' }),
  };
  const hasTypeInPath = at.type === 'path';
  const path = `/v1${since === 'path' ? '/after-{since}' : ''}/reports${hasTypeInPath ? '/{filter.type}' : ''}`;
  const form = {
    ...(place(since) === 'body' && { since: times[0] }),
    ...(place(until) === 'body' && { until: times[2] }),
    ...(place(at.size) === 'body' && { limit: 'n={size}' }),
    ...(choice.hasInitial && { cursor: '*' }),
  };
  return apiSchema.parse({
    request: {
      method,
      path: `${path}${choice.fixedQuery.replace('{type}', hasTypeInPath ? '{filter.type}' : 'x')}`,
      query,
      ...(isPost && (to === 'form' && !isUrl ? { form } : { body })),
    },
    dates: choice.dates,
    auth: choice.auth,
    next: {
      from,
      ...(from === 'header' && { at: 'X-Next' }),
      ...(from === 'body' && { at: paths.next }),
      ...(isReport && { at: paths.report }),
      ...(from === 'link' && choice.hasParameters && { to: { query: '*' } }),
      ...(from !== 'link' &&
        !isOnly &&
        !isAlone && {
          to: isUrl
            ? choice.hasParameters
              ? { query: '*' }
              : 'url'
            : {
                ...(to === 'query' && { query: 'cursor' }),
                ...(to === 'header' && { header: 'X-Continue' }),
                ...(to === 'form' && { form: 'cursor' }),
                ...(to === 'body' && { body: cursorInBody }),
              },
        }),
      ...(isAlone && {
        request: {
          query: {},
          ...(isPost && to !== 'form' && { body: {} }),
          ...(isPost && to === 'form' && { form: { cursor: '{cursor}' } }),
          ...(to === 'query' && { query: { cursor: '{cursor}' } }),
          ...(to === 'header' && { headers: { 'X-Continue': '{cursor}' } }),
          ...(to === 'body' && { body: { 'cursor/a': '{cursor}' } }),
        },
      }),
      ...(alsoOnLast && isAnyValue && { alsoOnLast: true }),
      ...(isCounted && {
        first: choice.first,
        step: choice.step,
        confirm: choice.confirm && format !== 'ndjson',
        total: choice.isTotalInHeader || !hasPaths ? { header: 'X-Total' } : paths.total,
      }),
    },
    ...(isReport ? { last: reportEnd } : last !== undefined && !isCounted && { last }),
    page: {
      format,
      ...(choice.status !== undefined && { status: choice.status }),
      ...((choice.types !== undefined || format === 'bytes') && { types: choice.types ?? ['application/pdf'] }),
      ...(hasPaths &&
        (format === 'json' || choice.hasReports || from === 'body' || isReport || isCounted) && {
          reports:
            format === 'json' &&
            from !== 'body' &&
            !isCounted &&
            !(isReport && 'at' in reportEnd) &&
            !(last !== undefined && 'at' in last) &&
            !choice.hasReports
              ? '/*'
              : paths.reports,
        }),
    },
    when: {
      ...(hasExpired && { cursorExpired: { at: paths.error, is: 'expired' } }),
      ...(isInDocument && error !== undefined && { error }),
      ...(isInDocument && choice.hasTokenExpired && { tokenExpired: { at: paths.result, is: 190 } }),
      ...(choice.isThrottled && {
        throttled: isInDocument ? [{ at: paths.busy, is: ['later', true] }, overloaded] : overloaded,
      }),
      ...(isInDocument && empty !== undefined && { empty }),
      ...(choice.empty === 'status' && { empty: { status: 204 } }),
    },
  });
});

const bodyPlace = (hasInitial: boolean, seed: string): string =>
  hasInitial ? '/cursor~1a' : seed === 'none' ? '/cursor' : '/paging/after~0';
