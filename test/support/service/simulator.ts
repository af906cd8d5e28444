/** The simulator with scripted faults (`faults.ts`), and with a record of its requests and responses. */

import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ReceivedRequest } from '../../../lib/service/simulator/request.ts';
import type { Headers, PreparedResponse } from '../../../lib/service/simulator/response.ts';
import * as regular from '../../../lib/service/simulator/simulator.ts';
import type { Api } from '../../../lib/settings/api-settings.ts';
import { describedApi } from '../described-api/described-api.ts';
import { type Delivery, deliver } from './delivery.ts';
import type { Fault, FaultScript } from './faults.ts';

export interface SimulatorOptions extends Omit<regular.SimulatorOptions, 'send' | 'validate'> {
  /** The API to serve. Default: the Report Export Service. */
  readonly api?: Api | undefined;
  readonly faults?: FaultScript | undefined;
  /** Called for each exchange before the response is complete, so a client that has its response finds it recorded. */
  readonly onExchange?: ((exchange: Exchange) => void) | undefined;
}

export interface Simulator extends regular.Simulator {
  /** Oldest first. */
  readonly exchanges: readonly Exchange[];
}

/** One request and its response. Never contains the API key. */
export interface Exchange extends Delivery {
  /** Counts the requests to this simulator, from 1. */
  readonly number: number;
  readonly method: string;
  /** Path and query as received, still percent-encoded. */
  readonly target: string;
  /** Parsed if it is JSON, otherwise as text. */
  readonly requestBody: unknown;
  /** The effective cursor: query before body. undefined if none was sent or the request was invalid. */
  readonly cursor: string | undefined;

  /** 0 if the connection was closed before the status line. */
  readonly status: number;
  readonly headers: Headers;
  /** The values of the cursor header as sent: one, none on the last page, or those of a fault. */
  readonly nextCursors: readonly string[];
  /** The IDs of the reports on the page. */
  readonly reportIds: readonly string[];
}

export async function startSimulator({
  faults = () => undefined,
  onExchange,
  api,
  ...options
}: SimulatorOptions): Promise<Simulator> {
  const cursorHeader = `x-${options.vendor}-cursor`.toLowerCase();
  const faultInjector = createFaultInjector(faults);
  const exchanges: Exchange[] = [];
  let requests = 0;
  const simulator = await regular.startSimulator({
    // Most tests look at the bytes that are sent.
    compression: false,
    ...options,
    validate: api && describedApi(api, options),
    async send(response, reply, signal) {
      requests += 1;
      const number = requests;
      const { received, cursor, rejection } = reply;
      const fault = faultInjector.faultFor(number, reply) ?? {};
      if (fault.delayMs !== undefined) await sleep(fault.delayMs, undefined, { signal });
      if (fault.until !== undefined) await Promise.race([fault.until, once(signal, 'abort')]);
      const prepared = await applyFault(reply.prepare(), fault, cursorHeader);
      const nextCursors = prepared.headers
        .filter(([name]) => name.toLowerCase() === cursorHeader)
        .map(([, value]) => value);
      if (reply.isValid) faultInjector.recordCursors(cursor, nextCursors);

      const { delivery, finish } = await deliver(response, prepared, fault, signal);
      const exchange = {
        number,
        method: received.method,
        target: received.target,
        requestBody: bodyForRecord(received),
        cursor,
        status: fault.disconnect?.at === 'start' ? 0 : prepared.status,
        headers: prepared.headers,
        nextCursors,
        reportIds: prepared.reportIds,
        ...(rejection?.code === 'internal_error' && { error: rejection.cause }),
        ...delivery,
      };
      exchanges.push(exchange);
      onExchange?.(exchange);
      await finish();
    },
  });
  return { ...simulator, exchanges };
}

/** The body as JSON if it is JSON, otherwise as text. */
function bodyForRecord({ body }: ReceivedRequest): unknown {
  try {
    return body && JSON.parse(body.toString());
  } catch {
    return body?.toString();
  }
}

interface FaultInjector {
  faultFor(number: number, reply: Pick<regular.Reply, 'cursor' | 'isValid'>): Fault | undefined;
  /** Records the cursors that were sent with the page that `cursor` selects. */
  recordCursors(cursor: string | undefined, nextCursors: readonly string[]): void;
}

/** Tracks the page number that each cursor leads to, and the attempts at each page, because scripts refer to them. */
function createFaultInjector(script: FaultScript): FaultInjector {
  const pageNumbers = new Map<string, number>();
  const attempts = new Map<string | undefined, number>();
  const pageOf = (cursor: string | undefined) => (cursor === undefined ? 1 : pageNumbers.get(cursor));

  return {
    faultFor(number, { cursor, isValid }) {
      if (!isValid) return script({ request: number, page: undefined, attempt: 1, cursor: undefined });
      const attempt = (attempts.get(cursor) ?? 0) + 1;
      attempts.set(cursor, attempt);
      return script({ request: number, page: pageOf(cursor), attempt, cursor });
    },
    recordCursors(cursor, nextCursors) {
      const page = pageOf(cursor);
      if (page === undefined) return;
      // The first page that sends a cursor determines its page number; in a cycle, later pages send it again.
      for (const next of nextCursors) if (!pageNumbers.has(next)) pageNumbers.set(next, page + 1);
    },
  };
}

/** Applies the parts of `fault` that concern status, headers and body. `cursorHeader` is the regular header's name. */
async function applyFault(response: PreparedResponse, fault: Fault, cursorHeader: string): Promise<PreparedResponse> {
  const body = fault.body && Buffer.from(fault.body(await readBody(response)));
  const regularCursor = response.headers.find(([name]) => name === cursorHeader)?.[1];
  const cursors = fault.cursor?.(regularCursor) ?? (regularCursor === undefined ? [] : [regularCursor]);
  const headers = replaceHeaders(response.headers, {
    [cursorHeader]: null,
    ...(cursors.length > 0 && { [cursorHeader]: cursors }),
    ...(body && { 'content-length': String(body.length) }),
    ...(fault.framing && { 'content-length': null }),
  });
  return {
    ...response,
    status: fault.status ?? response.status,
    // Headers that the fault sets explicitly take precedence.
    headers: replaceHeaders(headers, fault.headers ?? {}),
    ...(body && { body: () => [body] }),
  };
}

async function readBody(response: PreparedResponse): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of response.body()) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function replaceHeaders(headers: Headers, changes: NonNullable<Fault['headers']>): Headers {
  const changed = new Set(Object.keys(changes).map((name) => name.toLowerCase()));
  const added = Object.entries(changes).flatMap(([name, values]) =>
    [values ?? []].flat().map((value) => [name, value] as const),
  );
  return [...headers.filter(([name]) => !changed.has(name.toLowerCase())), ...added];
}
