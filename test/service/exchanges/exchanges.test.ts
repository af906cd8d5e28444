/** Exchanges with APIs that settings describe. Each file is a subject; a vendor's habit is an exchange. */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import { asCursor, type ExportRequest } from '../../../lib/core/model.ts';
import type { PageRequest, Received } from '../../../lib/core/ports.ts';
import { type ApiKeySource, fixedApiKey } from '../../../lib/service/client/api-key.ts';
import { describeApi } from '../../../lib/service/api/description.ts';
import { mediaTypesOf } from '../../../lib/service/api/page.ts';
import { apiOfRequest } from '../../../lib/settings/settings.ts';
import { collect } from '../../support/builders.ts';
import { describedWith, filled, readExchanges, type WrittenExchange, wireOf } from '../../support/service/exchanges.ts';
import { type RawReply, startRawServer } from '../../support/service/raw-server.ts';
import { clientFor, expectNoKey, pageRequest, trickyApiKey } from '../../support/service/service-client.ts';

/** The last key is that of the service: the first ones are returned until they are refreshed. */
function sourceOf(keys: readonly string[], place?: string): ApiKeySource {
  const [first = '', ...others] = keys;
  if (others.length === 0) return fixedApiKey(first, place);
  let current = first;
  return { get: async () => current, refresh: async () => (current = others.shift() ?? current) };
}

/** Calls `action` when the client has read the headers of a response, and what arrived with them. */
function onceRead(action: () => void): void {
  const channel = 'undici:request:headers';
  const onHeaders = () => {
    unsubscribe(channel, onHeaders);
    setImmediate(action);
  };
  subscribe(channel, onHeaders);
}

const replyWith =
  (response: string, key: string, contentType: () => string): RawReply =>
  (socket: Socket, { headers }) => {
    const { bytes, ending } = wireOf(response, { key, host: headers.host ?? '' }, contentType());
    // A reset discards what the client has not read yet.
    if (ending === 'reset') onceRead(() => socket.resetAndDestroy());
    socket.write(bytes, () => {
      if (ending === 'end') socket.end();
    });
  };

type GivenRequest = { readonly cursor?: string } & Partial<
  Pick<PageRequest, 'since' | 'until' | 'parent'> & ExportRequest
>;

/** What `# client {…}` may have: settings of the client, and what the test does with the service. */
interface GivenClient extends Omit<NonNullable<Parameters<typeof clientFor>[1]>, 'now'> {
  /** A secret with several fields is an object. */
  readonly keys?: readonly (string | Readonly<Record<string, string>>)[];
  /** What a message calls the place of the key. */
  readonly place?: string;
  /** The path of the base URL. */
  readonly path?: string;
  readonly now?: string;
  readonly elapsedMs?: number;
}

/** The facts of a page, or the error, and the requests that were sent. */
async function carryOut({ parts, contract, given, client: settings, steps }: WrittenExchange) {
  const { keys: secrets = [trickyApiKey], place, path = '', now, elapsedMs, ...others } = settings as GivenClient;
  const keys = secrets.map((each) => (typeof each === 'string' ? each : JSON.stringify(each)));
  let type = 'application/xml';
  const [first = '', ...more] = steps.map(({ response }) => replyWith(response, keys[0] ?? '', () => type));
  await using server = await startRawServer(first, ...more);
  const { host } = new URL(server.url);
  const described = JSON.parse(JSON.stringify(parts).replaceAll('HOST', host)) as object;
  const { api, problems } = contract === undefined ? describedWith(described) : { api: undefined, problems: [] };
  if (problems.length > 0) return { message: `refused ${problems.join('; ')}`, facts: {} as Facts, requests: [] };
  if (api !== undefined) type = mediaTypesOf(api.page)[0] ?? 'application/octet-stream';
  const times = [0, elapsedMs ?? 0];
  await using client = clientFor(
    { url: `${server.url}${path}` },
    {
      ...(api === undefined ? contract : { api }),
      ...others,
      apiKey: sourceOf(keys, place),
      ...(now !== undefined && { now: () => Date.parse(now) }),
      ...(elapsedMs !== undefined && { monotonicNow: () => times.shift() ?? Number.NaN }),
    },
  );
  const { cursor, since, until, parent, ...rest } = given as GivenRequest;
  const request = {
    ...pageRequest({
      cursor: cursor === undefined ? null : asCursor(cursor),
      ...(api && { api: apiOfRequest(describeApi(api)) }),
      ...rest,
    }),
    ...(since && { since }),
    ...(until && { until }),
    ...(parent && { parent }),
  };
  let body: readonly Uint8Array[] = [];
  const sink = async (chunks: AsyncIterable<Uint8Array>) => {
    body = await collect(chunks);
  };
  const outcome = await client.fetch(request, { sink }).then(
    (received) => ({ message: '', facts: factsOf(received, Buffer.concat(body)) }),
    (error: unknown) => ({ message: messageOf(error, secrets).replaceAll(host, 'HOST'), facts: {} as Facts }),
  );
  return { ...outcome, requests: server.requests };
}

type Facts = Readonly<Record<string, unknown>>;
type Outcome = Awaited<ReturnType<typeof carryOut>>;

function factsOf(received: Received, body: Buffer): Facts {
  if (received.kind === 'end') return { end: received.status, reason: received.reason };
  const { nextCursor, reports, ...page } = received;
  return {
    ...page,
    next: nextCursor,
    [nextCursor === null ? 'last' : 'more']: '',
    [`${reports}`]: reports === 1 ? 'report' : 'reports',
    text: body.toString(),
    rootText: page.documentRootText(),
    excerpt: page.excerpt(),
  };
}

function messageOf(error: unknown, secrets: GivenClient['keys'] = []): string {
  const parts = secrets.flatMap((each) => (typeof each === 'string' ? each : Object.values(each)));
  for (const part of parts) if (part.length >= 8) expectNoKey(error, part);
  if (!(error instanceof ExportError)) throw error;
  const { name, message, retryAfterSeconds } = error;
  expect(message).toMatch(/^[^\p{C}\p{Zl}\p{Zp}]{10,1000}$/u);
  return `${name} ${message}${retryAfterSeconds === undefined ? '' : ` (${retryAfterSeconds} s)`}`;
}

const unexpected = ({ message, facts, requests }: Outcome, expected: readonly string[]) =>
  expected
    .flatMap((line) => (message === '' ? line.split(/, (?=\d+ reports?$)/) : [line]))
    .filter((line) => {
      const [, count] = /^(\d+) requests?$/.exec(line) ?? [];
      if (count !== undefined) return requests.length !== Number(count);
      if (message === '') {
        const [name = '', ...value] = line.split(' ');
        return String(facts[name]) !== value.join(' ');
      }
      if (/^\/.*\/$/.test(line)) return !new RegExp(line.slice(1, -1), 'u').test(message);
      const [name = ''] = line.split(' ');
      return /^(refused|\w+Error)$/.test(name)
        ? !(message.startsWith(`${name} `) && message.includes(line.slice(name.length + 1)))
        : !message.includes(line);
    });

/** The lines of the request that was sent, in the places of those that are expected. */
function comparable(request: string, sent: Outcome['requests'][number] | undefined): string {
  const [head = '', body] = request.split('\n\n');
  const sentHeaders = new Map(Object.entries(sent?.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]));
  const headers = head.split('\n').slice(1);
  const shown = headers.map((line) => {
    const name = line.replace(/:.*/, '');
    return `${name}: ${sentHeaders.get(name.toLowerCase()) ?? ''}`.trim();
  });
  const isCompared = body !== undefined || (sent?.method === 'GET' && sent.body !== '');
  return [[`${sent?.method} ${sent?.target}`, ...shown].join('\n'), ...(isCompared ? [sent?.body] : [])].join('\n\n');
}

describe.each(readdirSync(import.meta.dirname).filter((file) => file.endsWith('.http')))('%s', (file) => {
  const exchanges = readExchanges(join(import.meta.dirname, file));
  it.each(exchanges.map((each) => [each.title, each] as const))('%s', async (_, exchange) => {
    const outcome = await carryOut(exchange);
    const missing = unexpected(outcome, exchange.expected.map(filled));
    const found = outcome.message || JSON.stringify(outcome.facts).slice(0, 1_000);
    expect({ missing, found: missing.length === 0 ? '' : found }).toEqual({ missing: [], found: '' });
    for (const [index, { request: written }] of exchange.steps.entries()) {
      const request = filled(written);
      expect(request === '' ? '' : comparable(request, outcome.requests[index])).toBe(request);
    }
  });
});
