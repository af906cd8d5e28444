/** No description ends a run at an error document. The table has each form of `last` and of `empty`, and each kind of error document. */

import { describe, expect, it } from 'vitest';
import { asCursor } from '../../../lib/core/model.ts';
import { fetchPage } from '../../support/builders.ts';
import { describedWith } from '../../support/service/exchanges.ts';
import { rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import { clientFor, pageRequest } from '../../support/service/service-client.ts';

const documents = {
  HTML: '<!DOCTYPE html><html><body>Log in</body></html>',
  'an error': '{"error": {"code": 5}}',
  '{}': '{}',
  '[]': '[]',
  null: 'null',
  'a truncated page': '{"data": [1], "more": false',
  'null and an error': '{"data": null, "error": "out of order"}',
  'no content': '',
} as const;
type Document = keyof typeof documents;

const forms: readonly (readonly [name: string, parts: object])[] = [
  ['no last', {}],
  ...(
    [
      { at: '/more', is: false },
      { at: '/next', is: null },
      { at: '/next', is: 'null' },
      { at: '/next', is: '{cursor}' },
      { at: '/paging', is: null },
      { at: '/code', not: 0 },
      { at: '/final' },
      { header: 'X-More', is: null },
      { header: 'X-Last', is: 'yes' },
      { reports: 0 },
      { at: '', is: null },
      { status: 204 },
      { status: 404, at: '/end', is: true },
      [
        { at: '/more', is: false },
        { at: '/next', is: null },
      ],
    ] as const
  ).map((last) => [`last ${JSON.stringify(last)}`, { last }] as const),
  ...(
    [
      { at: '/total', is: 0 },
      { at: '/kind', is: 'reports' },
      { at: '/total', is: [0, '0'] },
      { header: 'X-Total', is: 0 },
      { status: 204 },
      { status: 404, at: '/code', is: 'none' },
      { at: '', is: null },
    ] as const
  ).map((empty) => [`empty ${JSON.stringify(empty)}`, { when: { empty } }] as const),
  ['empty at the list, beside error', { when: { empty: { at: '/data', is: null }, error: { at: '/error' } } }],
  ['empty at the list, beside last', { last: { at: '/more', is: false }, when: { empty: { at: '/data', is: null } } }],
  ['no next page', { next: { from: 'none' } }],
];

/** What a description says in so many words that a document means. */
const isDescribed = (parts: object, document: Document): boolean => {
  const text = JSON.stringify(parts);
  if (document === 'no content') return text.includes('204') || text.includes('"at":"","is":null');
  return text.includes('"empty":{"at":"","is":null}') && ['{}', '[]'].includes(document);
};

async function endsAt(parts: object, document: Document, cursor: string | null): Promise<boolean> {
  const { api, problems } = describedWith(parts);
  expect(problems).toEqual([]);
  const status = document === 'no content' ? 204 : 200;
  const response = rawResponse({ status, headers: { 'content-type': 'application/json' }, body: documents[document] });
  await using server = await startRawServer(response);
  await using client = clientFor(server, { api });
  const request = pageRequest({ cursor: cursor === null ? null : asCursor(cursor) });
  return await fetchPage(client, request).then(
    ({ nextCursor }) => nextCursor === null,
    () => false,
  );
}

describe.each(forms)('%s', (_, parts) => {
  it.each([null, 'a'])(
    'does not end a run at an error document in place of the page with the cursor %j',
    async (cursor) => {
      const ended: string[] = [];
      for (const document of Object.keys(documents) as Document[]) {
        if (!isDescribed(parts, document) && (await endsAt(parts, document, cursor))) ended.push(document);
      }
      expect(ended).toEqual([]);
    },
  );
});
