/**
 * Random conditions and responses: the client reacts exactly if the condition holds by the reading of it below, which
 * is written from the description of the language alone, and shares no code with the client.
 */

import { afterAll, beforeAll, expect, it } from 'vitest';
import { asCursor } from '../../../lib/core/model.ts';
import { fetchPage } from '../../support/builders.ts';
import { cases, fc } from '../../support/property.ts';
import { describedWith } from '../../support/service/exchanges.ts';
import { type RawServer, rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import { clientFor, pageRequest } from '../../support/service/service-client.ts';

// The reading of a condition

type Scalar = string | number | boolean | null;

interface Part {
  readonly at?: string;
  readonly header?: string;
  readonly parameter?: string;
  readonly reports?: 0;
  readonly is?: Scalar | readonly Scalar[];
  readonly not?: Scalar | readonly Scalar[];
  readonly status?: number | readonly number[];
}

interface Response {
  readonly status: number;
  readonly more: string | undefined;
  /** The parameter of the link to the next page; null: the link has none; undefined: there is no link. */
  readonly link: string | null | undefined;
  readonly document: unknown;
  readonly isCut: boolean;
}

type Value = { readonly here: unknown } | 'nothing' | 'no place';

const pageStatuses = [200, 201];
const sentCursor = 'cursor=b';
const asList = <Item>(value: Item | readonly Item[]): readonly Item[] =>
  (Array.isArray(value) ? value : [value]) as never;
const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

function valueAt(document: unknown, pointer: string): Value {
  let value: Value = { here: document };
  for (const name of pointer.split('/').slice(1)) {
    const key = name.replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof value === 'string') return 'no place';
    const parent: unknown = value.here;
    if (!isObject(parent)) return 'no place';
    if (Array.isArray(parent) && parent.length > 0) {
      // An index that a list does not have is nothing; a name has no place in a list.
      if (!/^\d+$/.test(key)) return 'no place';
    }
    value = Object.hasOwn(parent, key) ? { here: parent[key] } : 'nothing';
  }
  return value;
}

const isNothing = (value: unknown): boolean =>
  value === undefined || value === null || value === '' || (isObject(value) && Object.keys(value).length === 0);

function partHolds(part: Part, response: Response): boolean {
  const { status, document, isCut } = response;
  const isPage = pageStatuses.includes(status);
  if (!(part.status === undefined ? pageStatuses : asList(part.status)).includes(status)) return false;
  const readable = isCut ? undefined : document;
  if (part.reports === 0)
    return (
      isPage &&
      Array.isArray((readable as { data?: unknown }).data) &&
      (readable as { data: unknown[] }).data.length === 0
    );
  let value: Value;
  if (part.at !== undefined) value = readable === undefined ? 'no place' : valueAt(readable, part.at);
  else if (part.header !== undefined) value = response.more === undefined ? 'nothing' : { here: response.more };
  else if (part.parameter !== undefined) {
    if (response.link === undefined) value = 'no place';
    else value = response.link === null ? 'nothing' : { here: response.link };
  } else return true;
  if (value === 'no place') return false;
  const here = value === 'nothing' ? undefined : value.here;
  const isAmong = (values: Scalar | readonly Scalar[]) =>
    asList(values).some((each) => {
      if (each === null) return isNothing(here);
      if (here === undefined || here === null || isObject(here)) return false;
      return String(here as Scalar) === (each === '{cursor}' ? sentCursor : String(each));
    });
  if (part.is !== undefined) return isAmong(part.is);
  if (part.not !== undefined) return !isNothing(here) && !isAmong(part.not);
  return !isNothing(here);
}

// Random conditions and responses

const scalar: fc.Arbitrary<Scalar> = fc.constantFrom<Scalar[]>(
  '',
  'x',
  'null',
  'true',
  '0',
  'cursor=b',
  '{cursor}',
  0,
  1,
  1.5,
  true,
  false,
  null,
);
const values = fc.oneof(scalar, fc.array(scalar, { minLength: 1, maxLength: 3 }));
const compared = fc.oneof(
  fc.constant({}),
  values.map((is) => ({ is })),
  values.map((not) => ({ not })),
);
const pointers = fc.constantFrom('', '/a', '/a/b', '/a/0', '/a/b/c', '/x', '/x/a', '/data', '/a~1b', '/__proto__');
const places = fc.oneof(
  { weight: 6, arbitrary: fc.record({ at: pointers }) },
  { weight: 2, arbitrary: fc.constant({ header: 'X-More' }) },
  { weight: 2, arbitrary: fc.constant({ parameter: 'results' }) },
);
const statuses = fc.constantFrom<(number | readonly number[])[]>(
  200,
  201,
  202,
  400,
  404,
  422,
  500,
  [200, 404],
  [400, 500],
);
const withStatus = fc.oneof(
  { weight: 2, arbitrary: fc.constant({}) },
  { weight: 1, arbitrary: statuses.map((status) => ({ status })) },
);
const parts: fc.Arbitrary<Part> = fc.oneof(
  { weight: 8, arbitrary: fc.tuple(places, compared, withStatus).map((each) => Object.assign({}, ...each) as Part) },
  { weight: 1, arbitrary: withStatus.map((each) => ({ reports: 0 as const, ...each })) },
  { weight: 1, arbitrary: statuses.map((status) => ({ status })) },
);
const conditions = fc.oneof(parts, fc.array(parts, { minLength: 1, maxLength: 3 }));

const leaf = fc.constantFrom<unknown[]>(
  '',
  'x',
  'null',
  'true',
  '0',
  'cursor=b',
  0,
  1,
  1.5,
  true,
  false,
  null,
  {},
  [],
  { b: 0 },
  [1],
  ['x', null],
);
const inside = fc.oneof(
  leaf,
  fc.record({ b: fc.oneof(leaf, fc.record({ c: leaf })) }, { requiredKeys: [] }),
  fc.array(leaf, { maxLength: 2 }),
);
const documents = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record(
      {
        data: fc.constantFrom<unknown[]>([], [1], null, {}, { id: 1 }),
        a: inside,
        'a/b': leaf,
        next: fc.constant('c'),
      },
      { requiredKeys: [] },
    ),
  },
  { weight: 1, arbitrary: fc.constantFrom<unknown[]>([], [1], {}) },
);
const responses: fc.Arbitrary<Response> = fc.record({
  status: fc.constantFrom(200, 200, 200, 201, 202, 400, 404, 422, 500),
  more: fc.constantFrom(undefined, undefined, '', 'x', '0', 'true', 'cursor=b', 'null'),
  link: fc.constantFrom(undefined, undefined, null, '', 'x', '0', 'true', 'cursor=b'),
  document: documents,
  isCut: fc.boolean(),
});

let server: RawServer;
let reply: Buffer;
beforeAll(async () => {
  server = await startRawServer((socket) => void socket.write(reply));
});
afterAll(() => server[Symbol.asyncDispose]());

function bytesOf({ status, more, link, document, isCut }: Response): Buffer {
  const text = JSON.stringify(document);
  const parameter = link === null || link === undefined ? '' : `; results="${link}"`;
  return rawResponse({
    status,
    headers: {
      'content-type': status === 200 || status === 201 ? 'application/json' : 'text/plain',
      ...(more !== undefined && { 'x-more': more }),
      ...(link !== undefined && { link: `</logs?cursor=c>; rel="next"${parameter}` }),
    },
    body: isCut ? text.slice(0, -1) : text,
  });
}

it('a condition holds exactly as it reads', async () => {
  const outcomes = { held: 0, not: 0 };
  await fc.assert(
    fc.asyncProperty(conditions, responses, async (condition, given) => {
      // A page that is cut off is refused before it is asked.
      const response = { ...given, isCut: given.isCut && !pageStatuses.includes(given.status) };
      const expected = asList<Part>(condition).some((part) => partHolds(part, response));
      const { api, problems } = describedWith({
        next: { from: 'link', to: { query: '*' } },
        page: { format: 'json', reports: '/data/*', status: pageStatuses },
        when: { cursorExpired: condition },
      });
      if (api === undefined) throw new Error(problems.join());
      fc.pre(problems.length === 0);
      reply = bytesOf(response);
      await using client = clientFor(server, { api });
      const outcome = await fetchPage(client, pageRequest({ cursor: asCursor(sentCursor) })).then(
        () => '',
        ({ message }: Error) => message,
      );
      outcomes[expected ? 'held' : 'not'] += 1;
      expect([outcome.includes('no longer accepts the cursor'), outcome]).toEqual([expected, outcome]);
    }),
    { numRuns: cases(1_000) },
  );
  expect(Math.min(outcomes.held, outcomes.not)).toBeGreaterThan(0);
});
