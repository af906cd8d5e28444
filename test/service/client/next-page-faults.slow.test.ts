/** Each kind of `next` and `last` with the faults in docs/apis.md ("Faults"): three pages, the second is faulty. */

import { afterAll, beforeAll, expect, it } from 'vitest';
import { fixedApiKey } from '../../../lib/service/client/api-key.ts';
import { apiSchema, describeApi } from '../../../lib/service/api/description.ts';
import { formatOf } from '../../../lib/service/api/page.ts';
import { apiOfRequest } from '../../../lib/settings/settings.ts';
import { anExportRequest } from '../../support/builders.ts';
import { anExportBench, pageAt, pagesIn } from '../../support/export/export-bench.ts';
import { type RawServer, rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import { clientFor } from '../../support/service/service-client.ts';

const key = 'S3cr3t-key-of-the-service';
const ends = 'ends the run';
const refused = (what: string) => `refused: ${what}`;

interface Kind {
  readonly name: string;
  readonly format: 'json' | 'xml';
  readonly next: {
    readonly from: 'header' | 'link' | 'body' | 'report';
    readonly at?: string;
    readonly to?: 'url' | { readonly query: string };
    readonly alsoOnLast?: boolean;
  };
  readonly condition?: object;
  /** What messages call the place of the next page. */
  readonly place: string;
  /** What the last page has there. */
  readonly last?: (sent: string) => readonly string[];
  /** Outcomes that differ from those of most kinds. */
  readonly except?: Partial<Record<FaultName, string>>;
}

const inDocument = (format: 'json' | 'xml'): readonly Kind[] => {
  const root = format === 'json' ? '' : '/r';
  const place = `${root}/meta/next`;
  const flag = `${root}/more`;
  const body = { from: 'body', at: place, to: { query: 'c' } } as const;
  const inReport = { from: 'report', at: '/id', to: { query: 'c' } } as const;
  const flagged = { at: flag, is: false };
  const kept = () => ['r9'];
  const kinds: readonly Omit<Kind, 'format'>[] = [
    { name: 'body', place, next: body, except: { missing: ends } },
    { name: 'body, URL', place, next: { ...body, to: 'url' }, except: { missing: ends } },
    {
      name: 'part',
      place,
      next: body,
      condition: { at: `${root}/meta`, is: null },
      // An object without fields is as good as none.
      except: { missing: ends },
    },
    { name: 'value', place, next: body, condition: { at: place, is: 'end' }, last: () => ['end'] },
    {
      name: 'same',
      place,
      next: body,
      condition: { at: place, is: '{cursor}' },
      last: (sent) => [sent],
      except: { 'A-A': ends },
    },
    { name: 'flag', place, next: body, condition: flagged },
    {
      name: 'flag, also on the last page',
      place,
      next: { ...body, alsoOnLast: true },
      condition: flagged,
      last: kept,
      except: { contradiction: ends },
    },
    {
      name: 'another field',
      place,
      next: { ...body, alsoOnLast: true },
      condition: { at: flag, is: null },
      last: kept,
      except: { contradiction: ends },
    },
    {
      name: 'report, flag',
      place: '/id',
      next: inReport,
      condition: flagged,
      last: kept,
      except: { contradiction: ends, 'no reports': refused('it has no reports') },
    },
    {
      name: 'report, empty',
      place: '/id',
      next: inReport,
      condition: { reports: 0 },
      except: { 'no reports': ends },
    },
  ];
  return kinds.map((kind) => ({ ...kind, name: `${kind.name} (${format})`, format }));
};

const header = { from: 'header', at: 'X-Next', to: { query: 'c' } } as const;
const kinds: readonly Kind[] = [
  ...inDocument('json'),
  ...inDocument('xml'),
  { name: 'header', format: 'json', place: 'cursor header', next: header, except: { missing: ends } },
  {
    name: 'header, value',
    format: 'json',
    place: 'cursor header',
    next: header,
    condition: { header: 'X-Next', is: 'end' },
    last: () => ['end'],
    except: { 'error document': refused('no cursor header') },
  },
  { name: 'link', format: 'xml', place: 'link', next: { from: 'link' }, except: { missing: ends } },
  {
    name: 'link, parameter',
    format: 'json',
    place: 'link',
    next: { from: 'link', alsoOnLast: true },
    condition: { parameter: 'more', is: 'false' },
    last: () => ['/logs?c=r9'],
    except: { contradiction: ends, 'error document': refused('no link') },
  },
];

const hasFlag = ({ condition = {} }: Kind) => JSON.stringify(condition).includes('more');
const lacksPart = ({ condition = {} }: Kind) => 'is' in condition && condition.is === null;
const isUrl = ({ next }: Kind) => next.from === 'link' || next.to === 'url';
const isInBody = ({ next }: Kind) => next.from === 'body' || next.from === 'report';
/** What leads to the page with this cursor. */
const leadTo = (kind: Kind, cursor: string) => (isUrl(kind) ? `/logs?c=${cursor}` : cursor);

interface Page {
  readonly reports: readonly string[];
  /** In the place of the next page. */
  readonly next: readonly string[];
  readonly more: boolean;
  readonly status?: number;
  readonly type?: string;
  readonly body?: string;
  readonly isCut?: boolean;
}

interface Fault {
  /** The number of the faulty page; 2 unless it is set. */
  readonly page?: number;
  /** How often it is faulty; always unless it is set. */
  readonly times?: number;
  /** Undefined: pages of this kind cannot have the fault. */
  readonly change: (page: Page, kind: Kind) => Partial<Page> | undefined;
  readonly outcome: (kind: Kind) => string;
}

const faults = {
  missing: { change: () => ({ next: [] }), outcome: ({ place }) => refused(place) },
  'A-A': { change: (_, kind) => ({ next: [leadTo(kind, 'r2')] }), outcome: () => 'RepeatedCursorError' },
  'A-B-A': {
    page: 3,
    change: (_, kind) => ({ next: [leadTo(kind, 'r2')], more: true }),
    outcome: () => 'RepeatedCursorError',
  },
  'no reports': { change: () => ({ reports: [] }), outcome: () => 'accepted' },
  'cut off': { change: () => ({ isCut: true }), times: 1, outcome: () => 'accepted after a retry' },
  'content type': { change: () => ({ type: 'text/html' }), outcome: () => refused('content type') },
  'error document': {
    change: (_, { format }) => ({ next: [], body: format === 'json' ? '{"error":"x"}' : '<error>x</error>' }),
    outcome: () => refused('nothing that contains reports'),
  },
  contradiction: {
    change: (_, kind) => (hasFlag(kind) ? { more: false } : undefined),
    outcome: ({ place }) => refused(place),
  },
  ambiguous: { change: ({ next }) => ({ next: [...next, ...next] }), outcome: ({ place }) => refused(place) },
  'no cursor': {
    // Any text in XML can be sent back.
    change: (_, kind) =>
      isInBody(kind) && kind.format === 'xml' && !isUrl(kind)
        ? undefined
        : { next: [isInBody(kind) && kind.format === 'json' ? '{"x":1}' : isUrl(kind) ? 'http://[' : 'é'] },
    outcome: ({ place }) => refused(place),
  },
  'other host': {
    change: (_, kind) => (isUrl(kind) ? { next: ['http://example.com/logs?c=r4'] } : undefined),
    outcome: () => refused('leads to http://example.com'),
  },
  'key in the cursor': {
    change: (_, kind) => ({ next: [leadTo(kind, key)] }),
    outcome: () => refused('contains the API key'),
  },
  'rejected cursor': { change: () => ({ status: 410 }), times: 1, outcome: () => 'accepted after a restart' },
} satisfies Record<string, Fault>;
type FaultName = keyof typeof faults;

/** Page 1 has the reports `r1` and `r2`, and page 2 is requested with the cursor `r2`. */
function pageOf(kind: Kind, number: number, sent: string): Page {
  const isLast = number === ('reports' in (kind.condition ?? {}) ? 4 : 3);
  const next = isLast ? (kind.last?.(sent) ?? []) : [leadTo(kind, `r${number * 2}`)];
  return { reports: number === 4 ? [] : [`r${number * 2 - 1}`, `r${number * 2}`], next, more: !isLast };
}

function responseOf(kind: Kind, page: Page): Buffer {
  const {
    format,
    next: { from },
  } = kind;
  const { next, more, reports } = page;
  const isJson = format === 'json';
  const field = (name: string, value: string) => (isJson ? `"${name}":${value}` : `<${name}>${value}</${name}>`);
  const text = (value: string) => (isJson && !value.startsWith('{') ? `"${value}"` : value);
  const join = (fields: readonly string[]) => (isJson ? `{${fields.join()}}` : fields.join(''));
  const items = reports.map((id, index) => {
    const ids = from === 'report' && index === reports.length - 1 ? next : [id];
    return join(ids.map((one) => field('id', text(one))));
  });
  const fields = [
    isJson ? `"data":[${items.join()}]` : items.map((item) => field('i', item)).join(''),
    ...(more || !(lacksPart(kind) && hasFlag(kind)) ? [field('more', String(more))] : []),
    ...(more || !(lacksPart(kind) && !hasFlag(kind))
      ? [field('meta', join(from === 'body' ? next.map((one) => field('next', text(one))) : []))]
      : []),
  ];
  const headers = {
    header: next.map((one) => ['x-next', one] as const),
    link: next.map((one) => ['link', `<${one}>; rel=next; more=${more}`] as const),
    body: [],
    report: [],
  }[from];
  return rawResponse({
    status: page.status ?? 200,
    headers: [['content-type', page.type ?? `application/${format}`], ...headers],
    body: page.body ?? (isJson ? join(fields) : field('r', join(fields))),
  });
}

let server: RawServer;
let respond: (sent: string) => { readonly bytes: Buffer; readonly isCut: boolean | undefined };

beforeAll(async () => {
  server = await startRawServer((socket, { target }) => {
    const { bytes, isCut } = respond(new URL(target, 'http://localhost').searchParams.get('c') ?? '');
    if (isCut === true) socket.end(bytes.subarray(0, -9));
    else socket.write(bytes);
  });
});
afterAll(() => server[Symbol.asyncDispose]());

/** How a run with this fault ends. */
async function outcomeOf(kind: Kind, { page: faulty = 2, times = Infinity, change }: Fault): Promise<string> {
  const page = { format: kind.format, reports: kind.format === 'json' ? '/data/*' : '/r/i' };
  const api = apiSchema.parse({
    request: { path: '/logs' },
    auth: { kind: 'bearer' },
    next: kind.next,
    last: kind.condition,
    page,
  });
  let [left, begun] = [times, 0];
  respond = (sent) => {
    const number = sent === '' ? 1 : Number(sent.slice(1)) / 2 + 1;
    begun += Number(number === 1);
    const right = pageOf(kind, number, sent);
    const served = number === faulty && (left -= 1) >= 0 ? { ...right, ...change(right, kind) } : right;
    return { bytes: responseOf(kind, served), isCut: served.isCut };
  };
  await using service = clientFor(server, { api, apiKey: fixedApiKey(key) });
  const request = anExportRequest({ source: server.url, format: formatOf(api), api: apiOfRequest(describeApi(api)) });
  const bench = anExportBench({ definition: { request } });
  Object.assign(bench.deps, { service });
  const end = await bench.start();
  if (end.status !== 'completed') {
    const { error, message } = end.status === 'failed' ? end.failed : { error: end.status, message: '' };
    return error === 'ContractError' ? refused(message) : error;
  }
  if (!pagesIn(bench).some((path) => pageAt(bench, path).includes('r5'))) return ends;
  return `accepted${begun > 1 ? ' after a restart' : bench.slept.length > 0 ? ' after a retry' : ''}`;
}

it.each(kinds)('the kind "$name" leads through a run, whatever its second page is', async (kind) => {
  expect(await outcomeOf(kind, { change: () => ({}), outcome: () => '' })).toBe('accepted');
  for (const [name, fault] of Object.entries(faults) as [FaultName, Fault][]) {
    if (fault.change(pageOf(kind, 2, 'r2'), kind) === undefined) continue;
    const [expected = '', what = ''] = (kind.except?.[name] ?? fault.outcome(kind)).split(': ');
    const outcome = await outcomeOf(kind, fault);
    expect
      .soft([name, outcome.split(': ')[0], outcome.includes(what) ? what : outcome])
      .toEqual([name, expected, what]);
  }
});
