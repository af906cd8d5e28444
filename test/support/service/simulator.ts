/** The simulator with scripted faults (`faults.ts`), and with a record of its requests and responses. */

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Headers, ReceivedRequest } from '../../../lib/service/simulator/report-export-service.ts';
import type { PreparedResponse } from '../../../lib/service/simulator/simulator.ts';
import * as regular from '../../../lib/service/simulator/simulator.ts';
import type { Api } from '../../../lib/service/api/description.ts';
import { describedApi } from '../described-api/described-api.ts';
import type { Fault, FaultScript } from './faults.ts';

export interface SimulatorOptions extends Omit<regular.SimulatorOptions, 'send' | 'answer'> {
  /** The API to serve. Default: the Report Export Service. */
  readonly api?: Api | undefined;
  /** The most reports on a page of that API. */
  readonly pageSize?: number | undefined;
  /** Whether some pages of a described API lack their list, as it says. */
  readonly quietPages?: boolean | undefined;
  readonly faults?: FaultScript | undefined;
}

export interface Simulator extends regular.Simulator {
  /** Oldest first. A client that has its response finds it here. */
  readonly exchanges: readonly Exchange[];
}

/** One request and its response. Never contains the API key. */
interface Exchange {
  readonly method: string;
  /** Path and query as received, still percent-encoded. */
  readonly target: string;
  /** Parsed if it is JSON, otherwise as text. */
  readonly requestBody: unknown;
  /** The effective cursor: query before body. undefined if none was sent or the request was invalid. */
  readonly cursor: string | undefined;
  readonly status: number;
  /** The IDs of the reports on the page. */
  readonly reportIds: readonly string[];
  /** Bytes of the body that were sent, and their SHA-256 in lower-case hexadecimal. */
  readonly bytes: number;
  readonly sha256: string;
}

export async function startSimulator({
  faults = () => undefined,
  api,
  pageSize,
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
    answer: api && describedApi(api, { ...options, pageSize }),
    async send(response, reply, signal) {
      requests += 1;
      const { received, answer } = reply;
      const fault = faultInjector.faultFor(requests, reply) ?? {};
      if (fault.delayMs !== undefined) await sleep(fault.delayMs, undefined, { signal });
      if (fault.until !== undefined) await Promise.race([fault.until, once(signal, 'abort')]);
      const prepared = applyFault(reply.prepare(), fault, cursorHeader);
      const next = prepared.headers.find(([name]) => name === cursorHeader)?.[1];
      if (answer.page !== undefined && next !== undefined) faultInjector.recordCursor(answer.page.cursor, next);

      const { bytes, sha256, finish } = await deliver(response, prepared, fault, signal);
      const { method, target } = received;
      const { status } = prepared;
      exchanges.push({
        method,
        target,
        requestBody: bodyForRecord(received),
        cursor: answer.page?.cursor,
        status,
        reportIds: answer.reportIds,
        bytes,
        sha256,
      });
      await finish();
    },
  });
  return { ...simulator, exchanges };
}

/** Sends everything except the last chunk, and never throws. `finish` sends the rest, or closes the connection. */
async function deliver(response: ServerResponse, prepared: PreparedResponse, fault: Fault, signal: AbortSignal) {
  const { disconnect, trickle, framing } = fault;
  const hash = createHash('sha256');
  let bytes = 0;
  let last: Uint8Array = Buffer.of();
  const sent = (finish: () => unknown) => ({ bytes, sha256: hash.digest('hex'), finish });
  const closeConnection = () =>
    disconnect?.by === 'reset' ? response.socket?.resetAndDestroy() : response.socket?.destroy();
  if (disconnect?.at === 'start') return sent(closeConnection);

  async function* allButLast() {
    for await (const chunk of faultyBody(prepared.body, fault, signal)) {
      bytes += chunk.length;
      hash.update(chunk);
      yield last;
      last = chunk;
    }
  }
  try {
    response.sendDate = false;
    if (framing === 'close') response.useChunkedEncodingByDefault = false;
    const lines = framing === 'close' ? [...prepared.headers, ['connection', 'close'] as const] : prepared.headers;
    // node:http sends header lines in the given order and case only if it receives them as one flat list.
    response.writeHead(prepared.status, lines.flat());
    if (trickle !== undefined) response.flushHeaders();
    await pipeline(allButLast(), response, { end: false });
  } catch {
    return sent(() => response.destroy());
  }
  if (disconnect === undefined) return sent(() => response.end(last));
  return sent(async () => {
    // Until all has left this process, or the connection is closed.
    await new Promise<void>((resolve) => {
      response.once('close', resolve).write(last, () => resolve());
    });
    closeConnection();
  });
}

async function* faultyBody(body: Buffer, { disconnect, trickle }: Fault, signal: AbortSignal) {
  const part = typeof disconnect?.at === 'number' ? body.subarray(0, disconnect.at) : body;
  const bytes = trickle?.bytes ?? part.length;
  for (let start = 0; start < part.length; start += bytes) {
    yield part.subarray(start, start + bytes);
    if (trickle !== undefined) await sleep(trickle.everyMs, undefined, { signal });
  }
}

/** The body as JSON if it is JSON, otherwise as text. */
function bodyForRecord({ body }: ReceivedRequest): unknown {
  try {
    return body && JSON.parse(body.toString());
  } catch {
    return body?.toString();
  }
}

/** Tracks the page number that each cursor leads to, and the attempts at each page, because scripts refer to them. */
function createFaultInjector(script: FaultScript) {
  const pageNumbers = new Map<string, number>();
  const attempts = new Map<string | undefined, number>();
  const pageOf = (cursor: string | undefined) => (cursor === undefined ? 1 : pageNumbers.get(cursor));

  return {
    faultFor(request: number, { answer: { page } }: regular.Reply) {
      if (page === undefined) return script({ request, page: undefined, attempt: 1 });
      const { cursor } = page;
      const attempt = (attempts.get(cursor) ?? 0) + 1;
      attempts.set(cursor, attempt);
      return script({ request, page: pageOf(cursor), attempt });
    },
    /** Records the cursor that was sent with the page that `cursor` selects. */
    recordCursor(cursor: string | undefined, next: string) {
      const page = pageOf(cursor);
      // The first page that sends a cursor determines its page number; in a cycle, later pages send it again.
      if (page !== undefined && !pageNumbers.has(next)) pageNumbers.set(next, page + 1);
    },
  };
}

/** Applies the parts of `fault` that concern status, headers and body. `cursorHeader` is the regular header's name. */
function applyFault(response: PreparedResponse, fault: Fault, cursorHeader: string): PreparedResponse {
  const body = fault.body && Buffer.from(fault.body(response.body));
  const headers = replaceHeaders(response.headers, {
    ...(fault.cursors && { [cursorHeader]: fault.cursors }),
    ...(body && { 'content-length': String(body.length) }),
    ...(fault.framing && { 'content-length': null }),
  });
  return {
    ...response,
    status: fault.status ?? response.status,
    // Headers that the fault sets explicitly take precedence.
    headers: replaceHeaders(headers, fault.headers ?? {}),
    ...(body && { body }),
  };
}

function replaceHeaders(headers: Headers, changes: NonNullable<Fault['headers']>): Headers {
  const changed = new Set(Object.keys(changes).map((name) => name.toLowerCase()));
  const added = Object.entries(changes).flatMap(([name, values]) =>
    [values ?? []].flat().map((value) => [name, value] as const),
  );
  return [...headers.filter(([name]) => !changed.has(name.toLowerCase())), ...added];
}
