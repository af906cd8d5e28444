/**
 * The description of an API that is not the Report Export Service: how a page is requested, where the cursor of the next page stands,
 * and what a page is. For example, an audit log with JSON pages:
 *
 *     {
 *       "request": { "path": "/api/v1/logs", "query": { "since": "{since}", "until": "{until}", "limit": "{size}" } },
 *       "auth": { "kind": "bearer" },
 *       "next": { "from": "body", "at": "/meta/next", "to": { "query": "cursor" } },
 *       "page": { "format": "json", "reports": "/data/*" }
 *     }
 *
 * What a description cannot say is refused with the reason: a run could miss reports, or take an error for its last page.
 */

import * as z from 'zod/mini';
import type { JsonObject, JsonValue } from '../core/model.ts';
import { checkedText, field, fieldsOf, flag, isLoopback, optionalField, text } from './fields.ts';
import { findFilterProblems } from './filter-problems.ts';
import { headerNamePattern } from './network-settings.ts';
import type { Checked } from './parse-settings.ts';

/** What a template may contain. `{filter.NAME}` is a field of the export's filter, and `{filter}` the whole of it. */
const placeholders = '{since}, {until}, {size}, {filter} and {filter.NAME}';
const placeholderPattern = /\{([A-Za-z][\w.-]*)\}/g;

/** The names in a text: `since` and `filter.type`. */
const placeholdersIn = (template: string): readonly string[] =>
  [...template.matchAll(placeholderPattern)].map(([, name = '']) => name);

const vendorAdvice = 'Ask the vendor for a cursor, which the response contains and the next request sends back';
const noOffsets = `offsets and page numbers are refused: when data changes during a run, pages shift, and reports are missed or repeated unnoticed. ${vendorAdvice}`;
const noKeyInUrl = 'a key in the URL is refused: URLs are logged everywhere. Ask the vendor for a header';

/** Also what is nearly a placeholder: `{ since }`, `${since}` or `{{since}}`, which would be sent as it is. */
const likelyPlaceholder = /(?:\$\{|\{\{?)\s*(?:since|until|filter(?:\.[^{}]*)?)\s*(?:(?<=\{\{[^}]*)\}\}|\})/gi;

function findTemplateProblem(template: string, inBody: boolean): string | undefined {
  const [wrong] = (template.match(likelyPlaceholder) ?? []).filter((one) => !/^\{[A-Za-z][\w.-]*\}$/.test(one));
  if (wrong !== undefined) return `${wrong} is no placeholder. There are ${placeholders}`;
  for (const name of placeholdersIn(template)) {
    if (/^(since|until|size|filter\.[A-Za-z0-9_.-]+)$/.test(name)) continue;
    if (name === 'filter') {
      if (inBody && template === '{filter}') continue;
      return '{filter} is an object, so it can only be a whole value in the body. {filter.NAME} is one of its fields';
    }
    if (/^(offset|page|pageNumber|skip|start)$/i.test(name)) return `{${name}}: ${noOffsets}`;
    if (/(key|token|secret|password)$/i.test(name)) return `{${name}}: ${noKeyInUrl}, and describe it in auth`;
    return `{${name}} is unknown; there are ${placeholders}. The cursor is described in next`;
  }
  return undefined;
}

const template = checkedText((value) => findTemplateProblem(value, false));
const keyName = /^(api[-_]?key|(access[-_]?)?token|key|secret|password|sig|signature)$/i;
const offsetName = /^(offset|page|page[-_[]?(number|num|no|index|offset)\]?|skip|\$skip|start[-_]?(at|index))$/i;

/** Whether the field of a body at this path has the name of an offset: `skip`, or `number` in `page`. */
const isOffsetPath = (path: Path): boolean =>
  [path.slice(-1), path.slice(-2)].some((names) => offsetName.test(names.join('_')));

function findParameterProblem(name: string, value: string): string | undefined {
  if (keyName.test(name)) return noKeyInUrl;
  return offsetName.test(name) && placeholdersIn(value).length === 0 ? noOffsets : undefined;
}

const querySchema = z.record(z.string(), template).check(
  z.superRefine((query, context) => {
    for (const [name, value] of Object.entries(query)) {
      const message = findParameterProblem(name, value);
      if (message !== undefined) context.addIssue({ code: 'custom', path: [name], message });
    }
  }),
);

/** The parameters in the query of a path. */
const parametersIn = (path: string): readonly (readonly [name: string, value: string])[] =>
  path.includes('?') ? [...new URLSearchParams(path.slice(path.indexOf('?')))] : [];

const bodySchema = z.pipe(
  z.custom<JsonObject>().check(
    z.superRefine((body, context) => {
      const problems = findFilterProblems(body, { isFilter: false });
      for (const { path, message } of problems) context.addIssue({ code: 'custom', path: [...path], message });
      if (problems.length > 0) return;
      for (const { path, value } of scalarsIn(body, [])) {
        const isOffset = isOffsetPath(path) && /^\d+$/.test(String(value));
        const message = isOffset ? noOffsets : typeof value === 'string' ? findTemplateProblem(value, true) : undefined;
        if (message !== undefined) context.addIssue({ code: 'custom', path: [...path], message });
      }
    }),
    z.meta({ type: 'object' }),
  ),
  z.transform((body: JsonObject) => JSON.parse(JSON.stringify(body)) as JsonObject),
);

type Path = readonly (string | number)[];

type Scalar = Exclude<JsonValue, object>;

function scalarsIn(value: JsonValue, path: Path): readonly { readonly path: Path; readonly value: Scalar }[] {
  if (typeof value !== 'object' || value === null) return [{ path, value }];
  const entries: (readonly [string | number, JsonValue])[] = Array.isArray(value)
    ? [...(value as readonly JsonValue[]).entries()]
    : Object.entries(value);
  return entries.flatMap(([key, item]) => scalarsIn(item, [...path, key]));
}

const requestSchema = z
  .strictObject({
    method: field('The method of every request.', z._default(z.enum(['GET', 'POST'], 'must be GET or POST'), 'GET')),
    path: field(
      'The path, after that of `baseUrl`. A query in it is sent with every request, also with one that sends the cursor alone.',
      template.check(
        z.regex(/^\/[\x21-\x22\x24-\x7e]*$/, 'must begin with a slash, and have no spaces and no fragment'),
        z.superRefine((path, context) => {
          for (const [name, value] of parametersIn(path)) {
            const message = findParameterProblem(name, value);
            if (message !== undefined) context.addIssue({ code: 'custom', message: `${name}: ${message}` });
          }
        }),
      ),
      { example: '/api/v1/logs' },
    ),
    query: optionalField('The query, by name. A parameter whose placeholder has no value is left out.', querySchema, {
      example: { since: '{since}', until: '{until}', limit: '{size}' },
    }),
    body: optionalField(
      'The JSON body of a POST. A text that is nothing but a placeholder becomes its value, with its type; a field whose placeholder has no value is left out.',
      bodySchema,
      { example: { from: '{since}', type: '{filter.type}' } },
    ),
  })
  .check(
    z.refine(({ method, body }) => method === 'POST' || body === undefined, {
      path: ['body'],
      error: 'needs the method POST: servers ignore the body of a GET',
    }),
  );

const headerName = text(headerNamePattern, 'is not a valid header name');

const authKinds = ['none', 'header', 'basic', 'bearer', 'oauth2'] as const;
const authSchema = z
  .strictObject({
    kind: field(
      'How requests are authenticated with the secret of the service: `header` sends it in a header of its own, `basic` as `user:password`, `bearer` as a token; `oauth2` exchanges it, the client secret, for tokens (client credentials).',
      z.enum(authKinds, {
        error: ({ input }) =>
          /query|url|param/i.test(String(input))
            ? noKeyInUrl
            : /sigv4|signature|oci|hmac/i.test(String(input))
              ? 'signatures of requests cannot be described'
              : `must be one of ${authKinds.join(', ')}`,
      }),
    ),
    name: optionalField('The name of the header, for `header`.', headerName, { example: 'Authorization' }),
    prefix: optionalField(
      'What precedes the key in the header, for `header`.',
      text(/^[\x20-\x7e]{1,100}$/, 'must be printable ASCII'),
      { example: 'SSWS ' },
    ),
    tokenUrl: optionalField('Where tokens are requested, for `oauth2`.', tokenUrlSchema(), {
      example: 'https://login.example.com/oauth2/token',
    }),
    clientId: optionalField(
      'The ID of the client, for `oauth2`.',
      text(/^[\x20-\x7e]{1,500}$/, 'must be printable ASCII'),
      {
        example: 'report-exporter',
      },
    ),
    scope: optionalField(
      'The scopes of the tokens, separated by spaces, for `oauth2`. Without it, those that the server chooses.',
      text(/^[\x20-\x7e]{1,2000}$/, 'must be printable ASCII'),
      { example: 'reports.read' },
    ),
  })
  .check(
    z.superRefine((auth, context) => {
      const required = { none: [], header: ['name'], basic: [], bearer: [], oauth2: ['tokenUrl', 'clientId'] } as const;
      const allowed = {
        none: [],
        header: ['name', 'prefix'],
        basic: [],
        bearer: [],
        oauth2: ['tokenUrl', 'clientId', 'scope'],
      } as const;
      const issue = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message });
      for (const name of required[auth.kind]) if (auth[name] === undefined) issue(name, `is required for ${auth.kind}`);
      for (const name of ['name', 'prefix', 'tokenUrl', 'clientId', 'scope'] as const) {
        const isAllowed = (allowed[auth.kind] as readonly string[]).includes(name);
        if (!isAllowed && auth[name] !== undefined) issue(name, `has no meaning for ${auth.kind}`);
      }
    }),
  );

function tokenUrlSchema() {
  return checkedText((address) => {
    if (!URL.canParse(address)) return 'must be a URL, such as https://login.example.com/oauth2/token';
    const { protocol, hostname, username, password, hash: fragment } = new URL(address);
    if (username !== '' || password !== '' || fragment !== '')
      return 'must not contain a user, a password or a fragment';
    if (protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname))) return undefined;
    return 'must be https (http only to 127.0.0.1, [::1] or localhost): otherwise the client secret would be sent unencrypted';
  });
}

const pathText = z
  .string()
  .check(z.minLength(1, 'must not be empty'), z.maxLength(1_000, 'must have at most 1,000 characters'));

const places = ['header', 'link', 'body'] as const;
const endKinds = 'absent, value, flag or same';
const nextSchema = z.strictObject({
  from: field(
    'Where a response has the next page: in a header, in the header `Link`, or in the body.',
    z.enum(places, {
      error: ({ input }) =>
        /offset|page|number|skip|count/i.test(String(input)) ? noOffsets : `must be one of ${places.join(', ')}`,
    }),
  ),
  at: optionalField(
    'The name of the header; the relation of the link; or the path in the body: a JSON Pointer, such as `/meta/next`, or elements of XML, such as `/feed/link[@rel=next]/@href`. Without it, `next`, for a link.',
    pathText,
    { example: '/meta/next' },
  ),
  is: optionalField(
    'What is there: a `cursor`, or the `url` of the next page, which must have the origin of the service. Without it, `url` for a link, otherwise `cursor`.',
    z.enum(['cursor', 'url'], 'must be cursor or url'),
  ),
  to: optionalField(
    'Where the next request sends a cursor.',
    z
      .strictObject({
        query: optionalField(
          'The name of the parameter. One of this name in `request.query` is that of the first page.',
          text(/^[\x21-\x7e]{1,100}$/, 'must be printable ASCII, without spaces').check(
            z.refine((name) => !offsetName.test(name), noOffsets),
          ),
          { example: 'cursor' },
        ),
        header: optionalField('The name of the header.', headerName, { example: 'X-Continuation' }),
        body: optionalField(
          'The JSON Pointer of a field of the body. It receives the JSON value that the response had, or text.',
          text(/^(\/([^~/]|~[01])+)+$/, 'must be a JSON Pointer, such as /cursor').check(
            z.refine((pointer) => !isOffsetPath(pointer.split('/').slice(1)), noOffsets),
          ),
          { example: '/cursor' },
        ),
      })
      .check(
        z.refine(
          (to) => Object.values(to).filter((one) => one !== undefined).length === 1,
          'must have one of query, header and body',
        ),
      ),
  ),
  alone: optionalField(
    'Whether a request with a cursor sends nothing else: neither `query` nor `body`. Without it, false.',
    flag(),
  ),
  end: optionalField(
    'How the last page says that it is the last. Without it, it has no next page at this place.',
    z
      .strictObject(
        {
          absent: optionalField(
            'There is none: no header, no field, or null in JSON. If the last page also lacks what contains the field, the path of what is absent. Beside `value`, both mean the end.',
            z.union([z.literal(true), pathText], 'must be true or a path'),
            { example: '/paging' },
          ),
          value: optionalField('A certain value, such as `null` or an empty text.', z.string().check(z.maxLength(200))),
          flag: optionalField(
            'The path of a flag in the body, which has another value on the last page than on all others.',
            z.string().check(z.minLength(1)),
            {
              example: '/has_more',
            },
          ),
          is: optionalField('The value of the flag on the last page. Without it, false.', flag()),
          same: optionalField('It is the cursor of the request.', z.literal(true, 'must be true')),
        },
        {
          error: `must be an object with ${endKinds}. An end by a short or an empty page is refused: a page may be short by mistake, and the rest would be missing unnoticed. ${vendorAdvice}`,
        },
      )
      .check(
        z.refine(({ absent, value, flag: path, same }) => {
          const others = [value, path, same].filter((one) => one !== undefined).length;
          return others === 0 ? absent !== undefined : others === 1 && (absent === undefined || value !== undefined);
        }, `must have one of ${endKinds}, or absent beside value`),
        z.refine(({ flag: path, is }) => is === undefined || path !== undefined, { path: ['is'], error: 'needs flag' }),
      ),
  ),
  rejected: optionalField(
    'How a response with status 200 reports that the cursor of the request has expired. The run then starts over, as after a rejection by status.',
    z.strictObject({
      at: field('A path.', pathText, { example: '/OAI-PMH/error/@code' }),
      is: field('The text there.', z.string(), { example: 'badResumptionToken' }),
    }),
  ),
});

const formats = ['xml', 'json', 'ndjson', 'csv', 'bytes'] as const;
type PageFormat = (typeof formats)[number];

/** What a format is called in the content type of its pages. */
const mediaTypes: Readonly<Record<PageFormat, readonly string[]>> = {
  xml: ['application/xml', 'text/xml'],
  json: ['application/json'],
  ndjson: ['application/x-ndjson', 'application/ndjson', 'application/jsonl'],
  csv: ['text/csv'],
  bytes: [],
};

const pageSchema = z.strictObject({
  format: field(
    'What a page is. All but `bytes` are checked for completeness while they stream, and their reports are counted.',
    z.enum(formats, `must be one of ${formats.join(', ')}`),
  ),
  types: optionalField(
    'The content types of pages, which `bytes` requires. Without it, those of the format.',
    z.readonly(
      z
        .array(
          text(/^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+$/, 'must be a content type in lower case, without parameters'),
        )
        .check(z.minLength(1, 'must not be empty')),
    ),
    { example: ['application/vnd.acme+json'] },
  ),
  reports: optionalField(
    'Where the reports are: `/data/*` in JSON, which requires it, or `/feed/entry` in XML. Every page must have what contains them. Without it, the child elements of the root. In CSV, `/*` says that pages have no row of column names, so that the first row is a report, too.',
    pathText,
    { example: '/data/*' },
  ),
  columns: optionalField(
    'The first row of every page of CSV, as it is there. A page with another one is a ContractError. Without it, that of earlier pages and runs.',
    z.string().check(
      z.minLength(1, 'must not be empty'),
      z.maxLength(65_536, 'must have at most 65,536 characters'),
      z.refine((row) => !/[\r\n]$/.test(row), 'must not end with a line break'),
    ),
    { example: 'id,date,text' },
  ),
  error: optionalField(
    'A path at which nothing but an error stands. A page that has it is a ContractError, which quotes it.',
    pathText,
    { example: '/errors' },
  ),
  empty: optionalField(
    'What says that there are no reports. As the first page, such a response is the whole export. Later, it has no meaning.',
    z
      .strictObject({
        at: optionalField('A path.', pathText, { example: '/OAI-PMH/error/@code' }),
        is: optionalField('The text there; in XML, without the white space around it.', z.string(), {
          example: 'noRecordsMatch',
        }),
        status: optionalField(
          'In place of both, the status of a response without content: the page has no bytes then.',
          z.literal(204, 'must be 204'),
        ),
      })
      .check(
        z.refine(
          ({ at, is, status }) =>
            status === undefined ? at !== undefined && is !== undefined : (at ?? is) === undefined,
          'must have at and is, or status',
        ),
      ),
  ),
});

/** Names have no prefix, as `formats/xml.ts` compares them: with one, nothing would ever be found. */
const xmlPath = /^(\/[^/@[\]:=\s"']+(\[@[^/@[\]:=\s"']+=("[^"\]/]*"|'[^'\]/]*'|[^"'\]/]*)\])?)+(\/@[^/@[\]:=\s"']+)?$/;
const jsonPointer = /^(\/([^~/]|~[01])*)+$/;

const dateForms = ['iso', 'iso-ms', 'epoch', 'epoch-ms', 'date'] as const;

const dateUnitsMs: Readonly<Record<Api['dates'], number>> = {
  iso: 1_000,
  'iso-ms': 1,
  epoch: 1_000,
  'epoch-ms': 1,
  date: 86_400_000,
};

/** The milliseconds between two dates that a request can have. The Report Export Service has whole seconds. */
export const unitOfDates = (api: Pick<Api, 'dates'> | undefined): number => dateUnitsMs[api?.dates ?? 'iso'];

export const apiSchema = z
  .strictObject({
    request: field('What every request is.', requestSchema),
    dates: field(
      'How `{since}` and `{until}` are written: `2026-11-20T02:00:00Z`, always in whole seconds; with milliseconds; as seconds or milliseconds since 1970; or as `2026-11-20`, in UTC. `{since}` is rounded down, and `{until}` up.',
      z._default(z.enum(dateForms, `must be one of ${dateForms.join(', ')}`), 'iso'),
    ),
    auth: field('How requests are authenticated. The key itself is never in the settings.', authSchema),
    next: field('Where the next page is, and how it is requested.', nextSchema),
    page: field('What a page is.', pageSchema),
  })
  .check(
    z.superRefine((api, context) => {
      for (const { path, message } of findContradictions(api)) {
        context.addIssue({ code: 'custom', path: [...path], message });
      }
    }),
  );
/** With the defaults of all fields. */
export type Api = z.infer<typeof apiSchema>;

const noSelection =
  'must not have brackets: in JSON, a value of a list can only be selected by its index, such as /links/0/url';

/** What is wrong with fields that are valid by themselves. */
function* findContradictions({
  request,
  next,
  page,
}: Api): Generator<{ readonly path: Path; readonly message: string }> {
  const { from, at, is = from === 'link' ? 'url' : 'cursor', to, alone, end, rejected } = next;
  const { format, types, reports, columns, error, empty } = page;
  if (uses({ request }, 'until') && !uses({ request }, 'since')) {
    yield {
      path: ['request'],
      message:
        'must have {since} beside {until}: with an upper bound alone, each part of a period would have all earlier reports',
    };
  }
  if (from !== 'link' && at === undefined) yield { path: ['next', 'at'], message: `is required for ${from}` };
  if (from === 'header' && at !== undefined && !headerNamePattern.test(at)) {
    yield { path: ['next', 'at'], message: 'is not a valid header name' };
  }
  if (from === 'link' && at !== undefined && !/^([a-z][\w.-]*|[a-z]+:[^\s"<>]+)$/i.test(at)) {
    yield { path: ['next', 'at'], message: 'must be a relation, such as next' };
  }
  if (from === 'link' && is === 'cursor') yield { path: ['next', 'is'], message: 'must be url for a link' };
  if (is === 'cursor' && to === undefined) yield { path: ['next', 'to'], message: 'is required for a cursor' };
  if (is === 'url' && to !== undefined)
    yield { path: ['next', 'to'], message: 'has no meaning for a url, which is requested as it is' };
  if (is === 'url' && alone !== undefined)
    yield { path: ['next', 'alone'], message: 'has no meaning for a url, which is requested as it is' };
  if (is === 'url' && request.method === 'POST') {
    yield {
      path: ['next', 'is'],
      message: 'must be cursor for POST: a url replaces path and query, and says nothing of the body',
    };
  }
  if (to?.body !== undefined && request.method === 'GET')
    yield { path: ['next', 'to', 'body'], message: 'needs the method POST' };
  const inPath = parametersIn(request.path).map(([name]) => name);
  for (const name of [...Object.keys(request.query ?? {}), ...(to?.query === undefined ? [] : [to.query])]) {
    if (inPath.includes(name))
      yield { path: ['request', 'path'], message: `must not have ${name}, which is sent, too` };
  }
  if (end?.flag !== undefined && from !== 'body') yield { path: ['next', 'end', 'flag'], message: 'needs from: body' };
  if (rejected !== undefined && from !== 'body' && (end ?? { absent: true }).absent === undefined) {
    yield {
      path: ['next', 'rejected'],
      message:
        'needs absent in next.end: a response without a next page in its headers would be an error before its body is read',
    };
  }

  const absent = typeof end?.absent === 'string' ? end.absent : undefined;
  if (absent !== undefined) {
    const message = findAbsenceProblem(absent, next, page);
    if (message !== undefined) yield { path: ['next', 'end', 'absent'], message };
    if (reports === undefined && format === 'xml') {
      yield {
        path: ['page', 'reports'],
        message: 'is required with a path in next.end.absent: any other document also lacks what is there',
      };
    }
  }

  const paths: (readonly [Path, string | undefined])[] = [
    [['next', 'at'], from === 'body' ? at : undefined],
    [['next', 'end', 'absent'], absent],
    [['next', 'end', 'flag'], end?.flag],
    [['next', 'rejected', 'at'], rejected?.at],
    [['page', 'error'], error],
    [['page', 'empty', 'at'], empty?.at],
  ];
  for (const [path, value] of paths) {
    if (value === undefined) continue;
    if (format !== 'xml' && format !== 'json')
      yield { path, message: `has no meaning in ${format}, which has no paths` };
    else if (format === 'xml' && !xmlPath.test(value))
      yield { path, message: 'must be a path of elements without prefixes, such as /feed/link[@rel=next]/@href' };
    else if (format === 'json' && !jsonPointer.test(value))
      yield { path, message: 'must be a JSON Pointer, such as /meta/next' };
    else if (format === 'json' && /[[\]]/.test(value)) yield { path, message: noSelection };
  }
  if (from === 'body' && at !== undefined && isInReport(at, page)) {
    yield {
      path: ['next', 'at'],
      message:
        reports === undefined
          ? 'is in a child element of the root, which counts as a report. Set page.reports'
          : `is in a report, so that a short page would count as the last one. ${vendorAdvice}`,
    };
  }
  if (format === 'bytes' && types === undefined) {
    yield {
      path: ['page', 'types'],
      message: 'is required for bytes: any other response, such as a login page in HTML, would count as the last page',
    };
  }
  if (columns !== undefined && (format !== 'csv' || reports !== undefined)) {
    const message =
      format === 'csv'
        ? 'has no meaning with reports, which say that the first row is a report'
        : `has no meaning in ${format}`;
    yield { path: ['page', 'columns'], message };
  }
  if (reports === undefined) {
    if (format === 'json') {
      yield {
        path: ['page', 'reports'],
        message:
          'is required for json, such as /data/*: any other document without a next page, an error for example, would count as the last page',
      };
    }
  } else if (format === 'csv') {
    if (reports !== '/*')
      yield { path: ['page', 'reports'], message: 'must be /* in csv, if the first row is a report' };
  } else if (
    format === 'json'
      ? !reports.endsWith('/*') || !jsonPointer.test(reports)
      : format === 'xml' && (!xmlPath.test(reports) || reports.includes('@') || !reports.includes('/', 1))
  ) {
    yield {
      path: ['page', 'reports'],
      message:
        format === 'json'
          ? 'must be the JSON Pointer of a list, followed by /*, such as /data/*'
          : 'must be a path of elements without prefixes, such as /feed/entry',
    };
  } else if (format === 'json' && /[[\]]/.test(reports)) {
    yield { path: ['page', 'reports'], message: noSelection };
  } else if (format !== 'json' && format !== 'xml') {
    yield { path: ['page', 'reports'], message: `has no meaning in ${format}` };
  }
}

function findAbsenceProblem(
  absent: string,
  { from, at = '' }: z.infer<typeof nextSchema>,
  { reports = '' }: z.infer<typeof pageSchema>,
): string | undefined {
  if (from !== 'body') return 'must be true: only a body has paths';
  if (!`${at}/`.startsWith(`${absent}/`))
    return 'must be next.at or what contains it: that anything else is absent does not say that there is no next page';
  return reports.startsWith(`${absent}/`) ? 'must not contain the reports, which every page has' : undefined;
}

/** Whether a path leads to a report, or into one. Without `reports`, the reports of XML are the child elements of the root. */
function isInReport(path: string, { format, reports = '/*/*' }: z.infer<typeof pageSchema>): boolean {
  if (format === 'json') return `${path}/`.startsWith(reports.replace(/\*$/, ''));
  const names = namesOf(path);
  const reportNames = namesOf(reports);
  const isSame = (one: string, other: string | undefined) => one === other || [one, other].includes('*');
  return reportNames.length <= names.length && reportNames.every((name, index) => isSame(name, names[index]));
}

/** The names of the elements in a path of XML: `feed` and `link` of `/feed/link[@rel=next]/@href`. */
const namesOf = (path: string): readonly string[] =>
  [...path.matchAll(/\/([^/@[\]]+)(?:\[[^\]]*\])?/g)].map(([, name = '']) => name);

/** Every text of a request in which placeholders are replaced. */
const templatesOf = ({ path, query = {}, body = {} }: Api['request']): readonly string[] => [
  path,
  ...Object.values(query),
  ...scalarsIn(body, []).flatMap(({ value }) => (typeof value === 'string' ? [value] : [])),
];

/** Whether a request has the placeholder. */
export const uses = ({ request }: Pick<Api, 'request'>, name: string): boolean =>
  templatesOf(request).some((one) => placeholdersIn(one).includes(name));

/** The content types that a page may have; empty for any. */
export const mediaTypesOf = ({ format, types }: Api['page']): readonly string[] => types ?? mediaTypes[format];

/** The format of a run: `JSON`. It becomes the extension of its pages. */
export const formatOf = ({ page: { format } }: Api): string => (format === 'bytes' ? 'BIN' : format.toUpperCase());

/** What is wrong with an export of a service with this description. */
export function findApiProblems(
  api: Api,
  { valid, written }: Checked<{ readonly filter: JsonObject; readonly size?: number; readonly expect?: object }>,
): readonly { readonly path: Path; readonly message: string }[] {
  const isUsed = (name: string) => uses(api, 'filter') || uses(api, `filter.${name}`);
  return [
    ...Object.keys(valid.filter ?? {})
      .filter((name) => !isUsed(name))
      .map((name) => ({
        path: ['filter', name],
        message: `has no effect: api.request has no placeholder {filter.${name}}`,
      })),
    ...(valid.size !== undefined && !uses(api, 'size')
      ? [{ path: ['size'], message: 'has no effect: api.request has no placeholder {size}' }]
      : []),
    ...(valid.expect !== undefined && api.page.format === 'bytes'
      ? [{ path: ['expect'], message: 'needs a format whose reports are counted, not bytes' }]
      : []),
    ...['format', 'container']
      .filter((name) => fieldsOf(written)[name] !== undefined)
      .map((name) => ({
        path: [name],
        message: 'has no meaning for a service with api: api.page.format is the format of its pages',
      })),
  ];
}
