/** No description ends a run at an error document: each kind of `next` with each form of `last` and `empty`. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { asCursor } from '../../../lib/core/model.ts';
import type { Api } from '../../../lib/service/api/description.ts';
import { fetchPage } from '../../support/builders.ts';
import { describedWith } from '../../support/service/exchanges.ts';
import { type RawServer, rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import { clientFor, pageRequest } from '../../support/service/service-client.ts';

const json = { 'content-type': 'application/json' };
const documents = {
  HTML: { headers: { 'content-type': 'text/html' }, body: '<!DOCTYPE html><html><body>Log in</body></html>' },
  'HTML as JSON': { headers: json, body: '<!DOCTYPE html><html><body>Log in</body></html>' },
  'an error': { headers: json, body: '{"error": {"code": 5}}' },
  '{}': { headers: json, body: '{}' },
  '[]': { headers: json, body: '[]' },
  null: { headers: json, body: 'null' },
  'a truncated page': { headers: json, body: '{"data": [1], "more": false, "next": null' },
  'null and an error': { headers: json, body: '{"data": null, "error": "out of order"}' },
  'no content': { status: 204, headers: {}, body: '' },
} as const;
type Document = keyof typeof documents;

const lasts: readonly unknown[] = [
  undefined,
  { at: '/more', is: false },
  { at: '/next', is: null },
  { at: '/next', is: 'null' },
  { at: '/next', is: '{cursor}' },
  { at: '/paging', is: null },
  { at: '/code', not: 0 },
  { at: '/final' },
  { header: 'X-More', is: null },
  { header: 'X-Last', is: 'yes' },
  { parameter: 'results', is: 'false' },
  { reports: 0 },
  { at: '', is: null },
  { status: 204 },
  { status: 404, at: '/end', is: true },
  [
    { at: '/more', is: false },
    { at: '/next', is: null },
  ],
];

const whens: readonly { readonly empty?: unknown; readonly error?: unknown }[] = [
  {},
  { empty: { at: '/total', is: 0 } },
  { empty: { at: '/kind', is: 'reports' } },
  { empty: { at: '/total', is: [0, '0'] } },
  { empty: { header: 'X-Total', is: 0 } },
  { empty: { status: 204 } },
  { empty: { status: 404, at: '/code', is: 'none' } },
  { empty: { at: '', is: null } },
  { empty: { at: '/data', is: null } },
  { empty: { at: '/data', is: null }, error: { at: '/error' } },
  { empty: [{ at: '/total', is: 0 }, { status: 204 }], error: { at: '/error' } },
  // Refused by themselves: an error document lacks these, too.
  { empty: { at: '/total', is: null } },
  { empty: { at: '/total', not: 5 } },
  { empty: { header: 'X-Total', is: null } },
  { empty: { reports: 0 } },
  { empty: { status: 404 } },
];

const to = { query: 'cursor' };
const nexts = {
  body: { from: 'body', at: '/next', to },
  'body, also on the last page': { from: 'body', at: '/next', to, alsoOnLast: true },
  'an object around it': { from: 'body', at: '/paging/next', to },
  header: { from: 'header', at: 'X-Next', to },
  link: { from: 'link', to: { query: '*' } },
  report: { from: 'report', at: '/id', to },
  count: { from: 'count', to: { query: 'page' }, total: '/total' },
  none: { from: 'none' },
};

interface Row {
  readonly last: unknown;
  readonly when: (typeof whens)[number];
}

/** Documents whose meaning a description states. */
function isDescribed({ last, when }: Row, document: Document): boolean {
  const blank = '{"at":"","is":null}';
  const empty = JSON.stringify(when.empty ?? {});
  if (document === 'no content') return `${empty}${JSON.stringify(last ?? {})}`.includes('204');
  return empty === blank && (document === '{}' || document === '[]');
}

const rows: readonly Row[] = lasts.flatMap((last) => whens.map((when) => ({ last, when })));
const isRefusedAlone = ({ when }: Row): boolean => whens.indexOf(when) >= whens.length - 5;
const isAboutListAlone = ({ last, when }: Row): boolean =>
  JSON.stringify(when) === JSON.stringify({ empty: { at: '/data', is: null } }) && last === undefined;

let server: RawServer;
let reply: Buffer;
beforeAll(async () => {
  server = await startRawServer((socket) => void socket.write(reply));
});
afterAll(() => server[Symbol.asyncDispose]());

const described = (next: object, { last, when }: Row) =>
  describedWith({
    request: { path: '/logs', query: { from: '{since}', to: '{until}' } },
    next,
    ...(last !== undefined && { last }),
    when,
  });

/** The documents at which a run ends, or continues, although the description does not say so. */
async function mistaken(api: Api, row: Row): Promise<readonly string[]> {
  const found: string[] = [];
  await using client = clientFor(server, { api });
  for (const [name, document] of Object.entries(documents) as [Document, (typeof documents)[Document]][]) {
    if (isDescribed(row, name)) continue;
    for (const cursor of [null, asCursor(api.next.from === 'count' ? '2 (1 of 1 by 1)' : 'a')]) {
      reply = rawResponse(document);
      const isPage = await fetchPage(client, pageRequest({ cursor })).then(
        () => true,
        () => false,
      );
      if (isPage) found.push(`${name} with the cursor ${cursor}`);
    }
  }
  return found;
}

describe.each(Object.entries(nexts))('next: %s', (_, next) => {
  it('takes no error document for a page, whatever last and empty are', async () => {
    let count = 0;
    for (const row of rows) {
      const { api, problems } = described(next, row);
      if (api === undefined || problems.length > 0) continue;
      count += 1;
      expect({ ...row, mistaken: await mistaken(api, row) }).toEqual({ ...row, mistaken: [] });
    }
    expect(count).toBeGreaterThan(0);
  });

  it('is refused with an empty that an error document fulfils', () => {
    const accepted = rows
      .filter((row) => isRefusedAlone(row) || isAboutListAlone(row))
      .filter((row) => described(next, row).problems.length === 0);
    expect(accepted).toEqual([]);
  });
});
