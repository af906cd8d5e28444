/** Exchanges with APIs that settings describe. Each file is a subject; a vendor's habit is an exchange. */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { asCursor, type Instant } from '../../../lib/core/model.ts';
import type { Api } from '../../../lib/service/api/description.ts';
import { mediaTypesOf } from '../../../lib/service/api/page.ts';
import { fetchPage } from '../../support/builders.ts';
import {
  describedWith,
  readExchanges,
  type WrittenExchange,
  type WrittenResponse,
} from '../../support/service/exchanges.ts';
import { type RawReply, startRawServer } from '../../support/service/raw-server.ts';
import { clientFor, pageRequest } from '../../support/service/service-client.ts';

function bytesOf({ status, headers, body }: WrittenResponse, api: Api): Buffer {
  const has = (name: string) => headers.some(([each]) => each.toLowerCase() === name);
  const ownType = mediaTypesOf(api.page)[0] ?? 'application/octet-stream';
  const lines = [
    `HTTP/1.1 ${status} Reason`,
    ...headers.map(([name, value]) => `${name}: ${value}`),
    ...(has('content-type') || status === 204 ? [] : [`content-type: ${ownType}`]),
    ...(status === 204 ? [] : [`content-length: ${Buffer.byteLength(body)}`]),
  ];
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n${body}`);
}

/** What the client makes of the exchange, and the request that it sent. */
async function carryOut({ parts, given, responses }: WrittenExchange) {
  const { api, problems } = describedWith(parts);
  if (api === undefined || problems.length > 0) return { result: `refused ${problems.join('; ')}`, request: '' };
  const [first, ...more] = responses.map((each): RawReply => bytesOf(each, api));
  await using server = await startRawServer(first ?? '', ...more);
  await using client = clientFor(server, { api });
  const { cursor, since, until, ...rest } = given as { cursor?: string; since?: Instant; until?: Instant };
  const request = {
    ...pageRequest({ cursor: cursor === undefined ? null : asCursor(cursor), ...rest }),
    ...(since && { since }),
    ...(until && { until }),
  };
  const result = await fetchPage(client, request).then(
    ({ nextCursor, reports }) =>
      `${nextCursor === null ? 'last' : `next ${nextCursor}`}, ${reports} ${reports === 1 ? 'report' : 'reports'}`,
    ({ name, message, retryAfterSeconds }: Error & { readonly retryAfterSeconds?: number }) =>
      `${name} ${message.replaceAll(new URL(server.url).host, 'HOST')}${retryAfterSeconds === undefined ? '' : ` (${retryAfterSeconds} s)`}`,
  );
  const sent = server.requests.at(-1);
  const shown = sent && `${sent.method} ${sent.target}${sent.body === '' ? '' : `\n\n${sent.body}`}`;
  return { result, request: shown ?? '', requests: server.requests.length };
}

/** Whether each part of what is expected is in the result. */
const isAsExpected = (result: string, expected: string): boolean =>
  /^(refused|\w+Error) /.test(expected)
    ? result.startsWith(expected.split(' ')[0] ?? '') && result.includes(expected.replace(/^\S+ /, ''))
    : expected.split(', ').every((part) => result.split(', ').includes(part));

describe.each(readdirSync(import.meta.dirname).filter((file) => file.endsWith('.http')))('%s', (file) => {
  it.each(readExchanges(join(import.meta.dirname, file)).map((each) => [each.title, each] as const))(
    '%s',
    async (_, exchange) => {
      const { result, request } = await carryOut(exchange);
      expect(isAsExpected(result, exchange.expected) ? exchange.expected : result).toBe(exchange.expected);
      expect(exchange.request === '' ? '' : request).toBe(exchange.request);
    },
  );
});
