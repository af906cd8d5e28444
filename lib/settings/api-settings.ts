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
import {
  isOffset,
  isOffsetPath,
  countAdvice,
  noKeyInUrl,
  parametersIn,
  requestSchema,
  uses,
  vendorAdvice,
} from './api-request.ts';
import {
  type AnyOf,
  checkedText,
  field,
  fieldsOf,
  findBroken,
  flag,
  httpsUrl,
  oneFormOf,
  oneKindOf,
  optionalField,
  type Rule,
  type SettingsProblem,
  text,
  type Valid,
  withoutProblems,
} from './fields.ts';
import { headerNamePattern, isConnectionHeader, isCredentialHeader } from './network-settings.ts';

type Path = SettingsProblem['path'];

const headerName = text(headerNamePattern, 'is not a valid header name').check(
  z.refine((name) => !isConnectionHeader(name), 'must be another header: the exporter or the connection sets this one'),
);
/** The service decides what is in it. */
const cursorHeader = headerName.check(
  z.refine((name) => !isCredentialHeader(name), 'must be another header: this one is for the secret'),
);
const printable = (max: number) => text(new RegExp(`^[\\x20-\\x7e]{1,${max}}$`), 'must be printable ASCII');

const tokenUrlSchema = checkedText((address) => httpsUrl(address, 'https://login.example.com/oauth2/token', ['hash']));

const authKind = <Kind extends string>(kind: Kind) =>
  field(
    'How requests are authenticated with the secret of the service: `header` sends it in a header of its own, `basic` as `user:password`, `bearer` as a token; `oauth2` exchanges it, a client secret or a refresh token, for tokens; `jwt` signs an assertion with it, a private key, and exchanges that for tokens.',
    z.literal(kind),
  );
const tokenUrl = field('Where tokens are requested.', tokenUrlSchema, {
  example: 'https://login.example.com/oauth2/token',
});
const scope = optionalField(
  'The scopes of the tokens, separated by spaces. Without it, those that the server chooses.',
  printable(2000),
  { example: 'reports.read' },
);
const parameters = optionalField(
  'Further fields of the request for a token, such as `audience` or `resource`. They are not secret.',
  z.record(z.string(), printable(2000)).check(
    withoutProblems((fields) =>
      Object.keys(fields)
        .filter((name) => /secret|password|token$|assertion/i.test(name))
        .map((name) => ({ path: [name], message: 'must not be set: it is a secret, which settings do not contain' })),
    ),
  ),
  { example: { audience: 'https://api.example.com' } },
);
const authSchema = oneKindOf(
  'kind',
  [
    z.strictObject({ kind: authKind('none') }),
    z.strictObject({
      kind: authKind('header'),
      name: field('The name of the header.', headerName, { example: 'Authorization' }),
      prefix: optionalField('What precedes the key in the header.', printable(100), { example: 'SSWS ' }),
    }),
    z.strictObject({ kind: authKind('basic') }),
    z.strictObject({ kind: authKind('bearer') }),
    z.strictObject({
      kind: authKind('oauth2'),
      tokenUrl,
      clientId: field('The ID of the client.', printable(500), { example: 'report-exporter' }),
      grant: optionalField(
        'What is exchanged for a token: the client secret, or a refresh token, which the exchange may replace. Without it, `client_credentials`.',
        z.enum(['client_credentials', 'refresh_token'], 'must be client_credentials or refresh_token'),
        { page: 'apis.md#refresh-tokens' },
      ),
      clientAuthentication: optionalField(
        'Whether the client ID and its secret are sent by HTTP Basic, or in the body; `none` for a client that has no secret. Without it, `basic`.',
        z.enum(['basic', 'body', 'none'], 'must be basic, body or none'),
      ),
      scope,
      parameters,
    }),
    z.strictObject({
      kind: authKind('jwt'),
      tokenUrl,
      issuer: field('The claim `iss`: who signs.', printable(500), {
        example: 'exporter@project.iam.gserviceaccount.com',
      }),
      subject: optionalField('The claim `sub`: the user in whose name. Without it, none.', printable(500)),
      audience: optionalField('The claim `aud`. Without it, `tokenUrl`.', printable(500)),
      algorithm: optionalField(
        'How the assertion is signed. Without it, `RS256`.',
        z.enum(['RS256', 'PS256', 'ES256'], 'must be RS256, PS256 or ES256'),
      ),
      keyId: optionalField('The ID of the key, in the header `kid`. Without it, none.', printable(500)),
      scope,
      parameters,
    }),
  ],
  (kind) =>
    /query|url|param/i.test(kind)
      ? noKeyInUrl
      : /sigv4|signature|oci|hmac/i.test(kind)
        ? 'signatures of requests cannot be described'
        : undefined,
);

const pathText = z
  .string()
  .check(z.minLength(1, 'must not be empty'), z.maxLength(1_000, 'must have at most 1,000 characters'));

const from = <Place extends string>(place: Place) =>
  field(
    'Where a response has the next page: in a header, in the header `Link`, in the body, or in the last report; or pages are counted (`count`).',
    z.literal(place),
  );

const parameterName = text(/^[\x21-\x7e]{1,100}$/, 'must be printable ASCII, without spaces');
const alone = optionalField(
  'Whether a request with a cursor sends nothing else: neither `query`, `body` nor `form`. Without it, false.',
  flag(),
);
const to = field(
  'Where the next request sends what is there: a cursor, in its query, a header, its body or its form; or `url`: it is the URL of the next page, which must have the origin of the service.',
  oneFormOf(
    [
      z.literal('url'),
      z.strictObject({
        query: field(
          'The name of the parameter. One of this name in `request.query` is that of the first page.',
          parameterName,
          { example: 'cursor' },
        ),
        alone,
      }),
      z.strictObject({
        header: field('The name of the header.', cursorHeader, { example: 'X-Continuation' }),
        alone,
      }),
      z.strictObject({
        body: field(
          'The JSON Pointer of a field of the body. It receives the JSON value that the response had, or text.',
          text(/^(\/([^~/]|~[01])+)+$/, 'must be a JSON Pointer, such as /cursor'),
          { example: '/cursor' },
        ),
        alone,
      }),
      z.strictObject({
        form: field('The name of the field of `request.form`.', parameterName, { example: 'cursor' }),
        alone,
      }),
    ],
    'must have one of query, header, body and form, for a cursor, or be "url"',
  ),
);

const absent = field(
  'There is none: no header, no field, or null in JSON; or the path of what the last page lacks, if that contains the field.',
  z.union([z.literal(true), pathText], 'must be true or a path'),
  { example: '/paging' },
);
const end = optionalField(
  'How the last page says that it is the last. Without it, it has no next page at this place.',
  oneFormOf(
    [
      z.strictObject({ absent }),
      z.strictObject({
        value: field('A certain value, such as `null` or an empty text.', z.string().check(z.maxLength(200))),
        absent: z.optional(absent),
      }),
      z.strictObject({
        flag: field(
          'The path of a flag in the body, which has another value on the last page than on all others.',
          z.string().check(z.minLength(1, 'must not be empty')),
          { example: '/has_more' },
        ),
        is: optionalField('The value of the flag on the last page. Without it, false.', flag()),
        decides: optionalField(
          'Whether the flag alone decides, because the last page has a next page, too. Weaker than a flag and a next page that must agree. Without it, false.',
          flag(),
        ),
      }),
      z.strictObject({
        without: field(
          'The path of another field, which all pages but the last have: it decides alone, whatever is at the place of the next page.',
          pathText,
          { example: '/paging/next' },
        ),
        absent: z.optional(absent),
      }),
      z.strictObject({
        link: field(
          'A parameter of the link with its value on the last page, which has a link, too. Every link must have the parameter.',
          z
            .record(z.string(), z.string())
            .check(z.refine((parameters) => Object.keys(parameters).length === 1, 'must have one parameter')),
          { example: { results: 'false' } },
        ),
      }),
      z.strictObject({
        empty: field(
          'It has no reports: for a cursor in the last report only, and weaker than a flag. A short page is not the last one.',
          z.literal(true, 'must be true'),
        ),
      }),
      z.strictObject({ same: field('It is the cursor of the request.', z.literal(true, 'must be true')) }),
    ],
    `must have one of absent, value, flag, without, link, empty or same, or absent beside value or without. An end by a short page is refused: a page may be short by mistake, and the rest would be missing unnoticed. ${vendorAdvice}`,
  ),
);

const rejected = optionalField(
  'How a response with status 200 says that the cursor has expired. The run then starts over.',
  z.strictObject({
    at: field('A path.', pathText, { example: '/OAI-PMH/error/@code' }),
    is: field('The text there.', z.string(), { example: 'badResumptionToken' }),
  }),
);

const nextSchema = oneKindOf(
  'from',
  [
    z.strictObject({
      from: from('header'),
      at: field('The name of the header.', headerName, { example: 'X-Cursor' }),
      to,
      end,
      rejected,
    }),
    z.strictObject({
      from: from('link'),
      at: field(
        'The relation of the link to the next page.',
        z._default(text(/^([a-z][\w.-]*|[a-z]+:[^\s"<>]+)$/i, 'must be a relation, such as next'), 'next'),
      ),
      end,
      rejected,
    }),
    z.strictObject({
      from: from('body'),
      at: field(
        'The path in the body: a JSON Pointer, such as `/meta/next`, or elements of XML, such as `/feed/link[@rel=next]/@href`.',
        pathText,
        { example: '/meta/next' },
      ),
      to,
      end,
      rejected,
    }),
    z.strictObject({
      from: from('report'),
      at: field('The path of a field in each report: the cursor is that of the last report of the page.', pathText, {
        example: '/id',
      }),
      to,
      end,
      rejected,
    }),
    z.strictObject({
      from: from('count'),
      to,
      first: field(
        'The number that the first request sends.',
        z._default(
          z
            .int('must be a whole number')
            .check(z.minimum(0, 'must not be negative'), z.maximum(1_000_000, 'must be at most 1000000')),
          1,
        ),
      ),
      step: field(
        'What each further request adds to it: 1 for numbers of pages; for an offset, `reports` adds how many reports the page had.',
        z._default(
          z.union(
            [z.int().check(z.minimum(1, 'must be 1 or more, or "reports"')), z.literal('reports')],
            'must be 1 or more, or "reports"',
          ),
          1,
        ),
      ),
      total: field(
        'Where every page has the number of all reports: a path in the body, or a header.',
        oneFormOf(
          [
            pathText,
            z.strictObject({ header: field('The name of the header.', headerName, { example: 'X-Total-Count' }) }),
          ],
          'must be a path, or have header',
        ),
        { example: '/total' },
      ),
      confirm: field(
        'Whether the page after the last one is requested, which must have no reports. With false, for an API that refuses this request or repeats its last page, the total alone decides.',
        z._default(flag(), true),
      ),
    }),
  ],
  (place) => (/offset|page|number|skip/i.test(place) ? countAdvice : undefined),
);

/** Names have no prefix, as `formats/xml.ts` compares them: with one, nothing would ever be found. */
const xmlPath = /^(\/[^/@[\]:=\s"']+(\[@[^/@[\]:=\s"']+=("[^"\]/]*"|'[^'\]/]*'|[^"'\]/]*)\])?)+(\/@[^/@[\]:=\s"']+)?$/;
/** A JSON Pointer, one of whose names may select an item of its list by a field: `/link[relation=next]/url`. */
const jsonPath = /^(?!.*\[.*\[)(\/([^~/[\]]|~[01])*(\[([^~/[\]="']|~[01])+=("[^"\]/]*"|'[^'\]/]*'|[^"'\]/]*)\])?)+$/;

/** What a format is called in the content type of its pages. */
const mediaTypes = {
  xml: ['application/xml', 'text/xml'],
  json: ['application/json'],
  ndjson: ['application/x-ndjson', 'application/ndjson', 'application/jsonl'],
  csv: ['text/csv'],
} as const;

const format = <Format extends string>(name: Format) =>
  field(
    'What a page is. All but `bytes` are checked for completeness while they stream, and their reports are counted.',
    z.literal(name),
  );

const typesSchema = z.readonly(
  z
    .array(text(/^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+$/, 'must be a content type in lower case, without parameters'))
    .check(z.minLength(1, 'must not be empty')),
);
const types = optionalField('The content types of pages. Without it, those of the format.', typesSchema, {
  example: ['application/vnd.acme+json'],
});

const error = optionalField('A path at which only an error stands: a page that has it is a ContractError.', pathText, {
  example: '/errors',
});
const empty = optionalField(
  'What says that there are no reports: as the first page, such a response is the whole export.',
  oneFormOf(
    [
      z.strictObject({
        at: field('A path.', pathText, { example: '/OAI-PMH/error/@code' }),
        is: field('The text there; in XML, without the white space around it.', z.string(), {
          example: 'noRecordsMatch',
        }),
      }),
      z.strictObject({
        status: field(
          'In place of both, the status of a response without content: the page has no bytes then.',
          z.literal(204, 'must be 204'),
        ),
      }),
    ],
    'must have at and is, or status',
  ),
);

const pageSchema = oneKindOf('format', [
  z.strictObject({
    format: format('xml'),
    reports: optionalField(
      'Where the reports are, as a path of elements. Every page must have what contains them. Without it, the child elements of the root.',
      pathText.check(
        z.refine(
          (path) => xmlPath.test(path) && !path.includes('@') && path.includes('/', 1),
          'must be a path of elements without prefixes, such as /feed/entry',
        ),
      ),
      { example: '/feed/entry' },
    ),
    types,
    error,
    empty,
  }),
  z.strictObject({
    format: format('json'),
    reports: field(
      'Where the reports are: the JSON Pointer of a list, followed by `/*`. Every page must have the list.',
      text(
        /^(\/([^~/[\]]|~[01])*)*\/\*$/,
        'must be the JSON Pointer of a list, followed by /*, such as /data/*, without brackets',
      ).check(z.maxLength(1_000, 'must have at most 1,000 characters')),
      { example: '/data/*' },
    ),
    types,
    error,
    empty,
  }),
  z.strictObject({ format: format('ndjson'), types, empty }),
  z
    .strictObject({
      format: format('csv'),
      types,
      reports: optionalField(
        'Says that the first row is a report, too. Without it, the first row has the names of the columns.',
        z.literal('/*', 'must be /* in csv, if the first row is a report'),
      ),
      columns: optionalField(
        'The first row of every page, as it is there. Without it, that of earlier pages and runs.',
        z.string().check(
          z.minLength(1, 'must not be empty'),
          z.maxLength(65_536, 'must have at most 65,536 characters'),
          z.refine((row) => !/[\r\n]$/.test(row), 'must not end with a line break'),
        ),
        { example: 'id,date,text' },
      ),
      empty,
    })
    .check(
      z.refine(({ reports, columns }) => reports === undefined || columns === undefined, {
        path: ['columns'],
        error: 'has no meaning with reports, which say that the first row is a report',
      }),
    ),
  z.strictObject({
    format: format('bytes'),
    types: field('The content types of pages.', typesSchema, { example: ['application/pdf'] }),
    empty,
  }),
]);

const dateForms = ['iso', 'iso-ms', 'epoch', 'epoch-ms', 'date'] as const;

const dateUnitsMs: Readonly<Record<Api['dates'], number>> = {
  iso: 1_000,
  'iso-ms': 1,
  epoch: 1_000,
  'epoch-ms': 1,
  date: 86_400_000,
};

/** The milliseconds between two dates that a request can have. The Report Export Service has whole seconds. */
export const unitOfDates = (api: { readonly dates?: Api['dates'] } | undefined): number =>
  dateUnitsMs[api?.dates ?? 'iso'];

/** `findContradictions` has the rules that concern several of the fields. */
export const apiSchema = z.strictObject({
  request: field('What every request is.', requestSchema),
  dates: field(
    'How `{since}` and `{until}` are written: `2026-11-20T02:00:00Z`, always in whole seconds; with milliseconds; as seconds or milliseconds since 1970; or as `2026-11-20`, in UTC. `{since}` is rounded down, and `{until}` up.',
    z._default(z.enum(dateForms, `must be one of ${dateForms.join(', ')}`), 'iso'),
  ),
  auth: field('How requests are authenticated. The key itself is never in the settings.', authSchema),
  next: field('Where the next page is, and how it is requested.', nextSchema),
  page: field('What a page is.', pageSchema),
});
/** With the defaults of all fields. */
export type Api = z.infer<typeof apiSchema>;

/** Whether a response has the URL of the next page, not a cursor. */
export const isUrl = ({ next }: { readonly next: { readonly from?: string; readonly to?: unknown } }): boolean =>
  next.from === 'link' || next.to === 'url';

/** Whether the cursor is sent in a place with the name of an offset. Some APIs call a cursor so; a number there counts reports. */
export function isSentAsOffset({ from: place, to }: AnyOf<Api['next']>): boolean {
  if (place === 'count') return false;
  const { query, body = '', form }: AnyOf<Exclude<typeof to, 'url' | undefined>> = typeof to === 'object' ? to : {};
  return isOffset(query ?? form ?? '') || isOffsetPath(body.split('/').slice(1));
}

/** The paths of a description, at which the check of a page finds values, and the fields that have them. */
export function pathsOf({ next = {}, page = {} }: Pick<Valid<Api>, 'next' | 'page'>) {
  const all: readonly (readonly [path: Path, value: string | boolean | undefined])[] = [
    [['next', 'at'], next.from === 'body' && next.at],
    [['next', 'end', 'absent'], next.end?.absent],
    [['next', 'end', 'flag'], next.end?.flag],
    [['next', 'end', 'without'], next.end?.without],
    [['next', 'rejected', 'at'], next.rejected?.at],
    [['next', 'total'], typeof next.total === 'string' && next.total],
    [['page', 'error'], page.error],
    [['page', 'empty', 'at'], page.empty?.at],
  ];
  return all.flatMap(([name, value]) => (typeof value === 'string' ? [{ name, value }] : []));
}

/** What is wrong with fields that are valid by themselves. */
export function findContradictions({
  request,
  auth = {},
  next = {},
  page = {},
}: Valid<Api>): readonly SettingsProblem[] {
  const { from: place, at, end, rejected } = next;
  const { format: pageFormat, reports } = page;
  const to = typeof next.to === 'object' ? next.to : {};
  const sent = [...Object.keys(request?.query ?? {}), to.query];
  const absentPart = place === 'body' && at !== undefined && typeof end?.absent === 'string' ? end.absent : undefined;
  const hasPart = [at, end?.without ?? at].every(
    (path) => absentPart === undefined || isWithin(path ?? '', absentPart),
  );
  const isInBody = place === 'body' || place === 'report';
  const isCounted = place === 'count';
  const needsReports = place === 'report' || isCounted;
  const isInside = place === 'body' && at !== undefined && isInReport(at, page);
  return findBroken([
    [
      ['auth', 'clientAuthentication'],
      auth.clientAuthentication === 'none' && auth.grant !== 'refresh_token',
      'none requires "grant": "refresh_token"',
    ],
    [
      ['next', place === 'link' ? 'from' : 'to'],
      isUrl({ next }) && request?.method === 'POST',
      `must not be ${place === 'link' ? 'link' : 'url'} for POST: a URL replaces path and query, and says nothing of the body`,
    ],
    [['next', 'to', 'body'], to.body !== undefined && request?.method === 'GET', 'needs the method POST'],
    [
      ['next', 'to', 'body'],
      to.body !== undefined && request?.form !== undefined,
      'must be form: the request has no JSON body',
    ],
    [
      ['next', 'to', 'form'],
      to.form !== undefined && request !== undefined && request.form === undefined,
      'needs request.form',
    ],
    [
      ['request'],
      uses({ request }, 'until') && !uses({ request }, 'since'),
      'must have {since} beside {until}: with an upper bound alone, each part of a period would have all earlier reports',
    ],
    ...parametersIn(request?.path ?? '').map(([name]): Rule => [
      ['request', 'path'],
      sent.includes(name),
      `must not have ${name}, which is sent, too`,
    ]),
    ...pathsOf({ next, page }).map(({ name, value }): Rule => {
      const isElsewhere = name[1] === 'end' && !isInBody;
      const ofPath = pageFormat && findPathProblem(value, pageFormat);
      const message = isElsewhere ? 'needs from: body, as only a body has paths' : ofPath;
      return [name, message !== undefined, message ?? ''];
    }),
    [
      ['next', 'from'],
      place === 'report' && pageFormat !== 'json' && pageFormat !== 'xml',
      'needs the page format json or xml',
    ],
    [
      ['page', 'reports'],
      needsReports && pageFormat === 'xml' && reports === undefined,
      `is required with next.from: ${place}`,
    ],
    ...(isCounted ? countedRules({ request, next, page }) : []),
    [
      ['next', 'at'],
      place === 'report' && !isFieldOfReport(at ?? '', page),
      'must be the path of a field in a report, such as /id',
    ],
    [['next', 'to'], needsReports && next.to === 'url', 'must not be url: there is none in a report, or in a number'],
    [
      ['next', 'end'],
      place === 'report' && end?.flag === undefined && end?.empty === undefined,
      'must be a flag or {"empty": true}: every last report has the field, also that of the last page',
    ],
    [
      ['next', 'end', 'empty'],
      end?.empty !== undefined && place !== 'report',
      `needs from: report. Elsewhere, an empty page does not show that it is the last. ${vendorAdvice}`,
    ],
    [['next', 'end', 'link'], end?.link !== undefined && place !== 'link', 'needs from: link'],
    [
      ['next', 'end', 'without'],
      end?.without !== undefined && isWithin(at ?? '', end.without),
      'must be another field than next.at, and not contain it: that the next page is absent is described by absent',
    ],
    [
      ['next', 'rejected'],
      rejected !== undefined && !isInBody && end !== undefined && end.absent === undefined,
      'needs absent in next.end: a response without a next page in its headers would be an error before its body is read',
    ],
    [
      ['next', 'end', 'absent'],
      !hasPart,
      'must be next.at or what contains it, and next.end.without: that anything else is absent does not say that there is no next page',
    ],
    [
      ['next', 'end', 'absent'],
      hasPart && absentPart !== undefined && isWithin(reports ?? '', absentPart),
      'must not contain the reports, which every page has',
    ],
    [
      ['page', 'reports'],
      absentPart !== undefined && reports === undefined && pageFormat === 'xml',
      'is required with a path in next.end.absent: any other document also lacks what is there',
    ],
    [
      ['page', 'reports'],
      isInside && reports === undefined,
      'is required: next.at is in a child element of the root, which otherwise counts as a report',
    ],
    [
      ['next', 'at'],
      isInside && reports !== undefined,
      `is in a report, so that a short page would count as the last one. ${vendorAdvice}`,
    ],
  ]);
}

function countedRules({
  request,
  next = {},
  page = {},
}: Pick<Valid<Api>, 'request' | 'next' | 'page'>): readonly Rule[] {
  const { format: pageFormat, error: errorPath } = page;
  const { query, form, body = '', alone } = typeof next.to === 'object' ? next.to : {};
  const name = query ?? form ?? body.split('/').at(-1) ?? '';
  const keys = body.split('/').slice(1);
  const inBody = keys.reduce<unknown>((parent, key) => fieldsOf(parent)[key], request?.body);
  const sent = [request?.query?.[query ?? ''], request?.form?.[form ?? ''], keys.length === 0 ? undefined : inBody];
  const total = typeof next.total === 'string' ? next.total : undefined;
  return [
    [['page', 'format'], pageFormat === 'bytes', 'must be one whose reports are counted, not bytes'],
    [
      ['request'],
      request !== undefined && !uses({ request }, 'until'),
      'must have {since} and {until} with next.from: count: pages shift while reports are added to their period',
    ],
    [['next', 'to', 'alone'], alone === true, 'must not be set: every counted page has the same request'],
    [
      ['next', 'to'],
      sent.some((value) => value !== undefined),
      `must not be ${name} of request, which the number would replace. Remove it there; next.first is the first number`,
    ],
    [
      ['next', 'step'],
      next.step === 1 && /offset|skip|start|row/i.test(name) && !/page/i.test(name),
      `must be "reports" if ${name} is an offset: 1 would repeat all reports of a page but one`,
    ],
    [
      ['next', 'total'],
      total !== undefined && (total === errorPath || isInReport(total, page)),
      'must be outside of reports and of page.error',
    ],
    [
      ['next', 'confirm'],
      pageFormat === 'ndjson' && next.confirm === true,
      'must be false for ndjson: a page without reports is no NDJSON',
    ],
  ];
}

/** Whether the path leads to what is at `part`, or into it. */
const isWithin = (path: string, part: string): boolean =>
  path.startsWith(part) && /^([/[]|$)/.test(path.slice(part.length));

function findPathProblem(path: string, pageFormat: Api['page']['format']): string | undefined {
  if (pageFormat === 'xml') {
    return xmlPath.test(path)
      ? undefined
      : 'must be a path of elements without prefixes, such as /feed/link[@rel=next]/@href';
  }
  if (pageFormat !== 'json') return `has no meaning in ${pageFormat}, which has no paths`;
  return jsonPath.test(path)
    ? undefined
    : 'must be a JSON Pointer, such as /meta/next, in which one list may have a selection, such as /link[relation=next]/url';
}

const isFieldOfReport = (at: string, { format: pageFormat, reports }: Valid<Api['page']>): boolean =>
  pageFormat === 'xml'
    ? xmlPath.test(`${reports ?? '/a'}${at}`) && !at.includes('[')
    : jsonPath.test(at) && !/[[*]|^\/$/.test(at);

/** Whether a path leads to a report, or into one. Without `reports`, the reports of XML are the child elements of the root. */
function isInReport(path: string, { format: pageFormat, reports }: Valid<Api['page']>): boolean {
  if (pageFormat === 'json') return reports !== undefined && isWithin(path, reports.replace(/\/\*$/, ''));
  if (pageFormat !== 'xml') return false;
  const names = namesOf(path);
  const reportNames = namesOf(reports ?? '/*/*');
  const isSame = (one: string, other: string | undefined) => one === other || [one, other].includes('*');
  return reportNames.length <= names.length && reportNames.every((name, index) => isSame(name, names[index]));
}

/** The names of the elements in a path of XML: `feed` and `link` of `/feed/link[@rel=next]/@href`. */
const namesOf = (path: string): readonly string[] =>
  [...path.matchAll(/\/([^/@[\]]+)(?:\[[^\]]*\])?/g)].map(([, name = '']) => name);

/** The content types that a page may have. */
export const mediaTypesOf = (page: Api['page']): readonly string[] =>
  page.format === 'bytes' ? page.types : (page.types ?? mediaTypes[page.format]);

/** The format of a run: `JSON`. It becomes the extension of its pages. */
export const formatOf = ({ page }: Api): string => (page.format === 'bytes' ? 'BIN' : page.format.toUpperCase());
