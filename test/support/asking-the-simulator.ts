/**
 * Asks the simulator the way the contract shows it, by undici alone or over a bare socket, so that the simulator is not
 * judged through the project's own client.
 */

import { connect } from 'node:net';
import { SaxesParser } from 'saxes';
import { request } from 'undici';
import { type GivenReport, givenReports } from '../../lib/report-service/simulator/report-source.ts';
import type { SimulatorOptions } from '../../lib/report-service/simulator/simulator.ts';
import { type Simulator, startSimulator } from '../../lib/report-service/simulator/simulator.ts';

export const theKey = 'the-key-of-the-tests';

export const aSimulator = (options: Partial<SimulatorOptions> = {}): Promise<Simulator> =>
  startSimulator({ vendor: 'SERVICE', apiKey: theKey, reports: givenReports(someReports(3)), ...options });

/** Reports `r1`, `r2`, … a second apart from 2026-11-20T00:00:01Z on, each `<r id="r1"/>`. */
export const someReports = (count: number): GivenReport[] =>
  Array.from({ length: count }, (_, index) => aReport(index + 1));

export const aReport = (n: number, overrides: Partial<GivenReport> = {}): GivenReport => ({
  id: `r${n}`,
  date: Date.UTC(2026, 10, 20) + n * 1_000,
  xml: `<r id="r${n}"/>`,
  ...overrides,
});

export interface Asking {
  readonly cursor?: string | undefined;
  readonly cursorIn?: 'query' | 'body';
  /** Replaces fields of the request's body; undefined leaves one out. */
  readonly fields?: Readonly<Record<string, unknown>>;
  /** Replaces the body altogether. */
  readonly body?: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
  readonly method?: 'POST' | 'GET' | 'PUT' | 'DELETE';
  readonly target?: string;
}

export interface Told {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly cursor: string | string[] | undefined;
  readonly bytes: Buffer;
  readonly text: string;
  /** The `id` attributes of the page's `r` elements. */
  readonly ids: readonly string[];
}

export const aBody = (fields: Readonly<Record<string, unknown>> = {}): string =>
  JSON.stringify({ filter: { date: { gte: '1970-01-01T00:00:00Z' } }, format: 'XML', container: 'NONE', ...fields });

export async function ask(simulator: Simulator, asking: Asking = {}): Promise<Told> {
  const { cursor, cursorIn = 'query', fields, method = 'POST' } = asking;
  const query = cursor !== undefined && cursorIn === 'query' ? `?cursor=${encodeURIComponent(cursor)}` : '';
  const inBody = cursor !== undefined && cursorIn === 'body' ? { cursor } : {};
  const response = await request(`${simulator.baseUrl}${asking.target ?? `/v1/report/export${query}`}`, {
    method,
    headers: { 'content-type': 'application/json', 'X-SERVICE-API-KEY': theKey, ...asking.headers },
    body: method === 'GET' ? null : (asking.body ?? aBody({ ...fields, ...inBody })),
  });
  const bytes = Buffer.from(await response.body.arrayBuffer());
  const text = bytes.toString();
  const ids = Array.from(text.matchAll(/<r id="([^"]*)"/g), ([, id = '']) => id);
  return {
    status: response.statusCode,
    headers: response.headers,
    cursor: response.headers['x-service-cursor'],
    bytes,
    text,
    ids,
  };
}

/** Follows the cursor to the last page. */
export async function walk(simulator: Simulator, asking: Omit<Asking, 'cursor'> = {}): Promise<Told[]> {
  const pages: Told[] = [];
  let cursor: string | undefined;
  do {
    const page = await ask(simulator, { ...asking, cursor });
    if (page.status !== 200) throw new Error(`Page ${pages.length + 1} was answered ${page.status}: ${page.text}`);
    pages.push(page);
    cursor = page.cursor as string | undefined;
  } while (cursor !== undefined);
  return pages;
}

/** What a refusal says. */
export function refusalOf(told: Told): { readonly status: number; readonly error: string; readonly message: string } {
  return { status: told.status, ...(JSON.parse(told.text) as { error: string; message: string }) };
}

/** How many child elements the root has. Throws where `xml` is not one well-formed document. */
export function childrenOf(xml: string): number {
  const parser = new SaxesParser();
  let depth = 0;
  let children = 0;
  parser.on('opentag', () => {
    depth += 1;
    if (depth === 2) children += 1;
  });
  parser.on('closetag', () => {
    depth -= 1;
  });
  parser.write(xml).close();
  return children;
}

export interface OnTheWire {
  /** Everything received, one character a byte. */
  readonly text: string;
  /** The code of the error that ended the connection, if it did not end in good order. */
  readonly error: string | undefined;
}

/** Sends an export request over a bare socket and reads until the server ends the connection. */
export async function askOnTheWire(
  simulator: Simulator,
  {
    body = aBody(),
    headers = [],
    keyHeader = 'X-SERVICE-API-KEY',
  }: { body?: string; headers?: string[]; keyHeader?: string } = {},
): Promise<OnTheWire> {
  const socket = connect(simulator.port, '127.0.0.1');
  const chunks: Buffer[] = [];
  let error: string | undefined;
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  socket.on('error', (cause: NodeJS.ErrnoException) => {
    error = cause.code;
  });
  const lines = [
    'POST /v1/report/export HTTP/1.1',
    'host: 127.0.0.1',
    'connection: close',
    'content-type: application/json',
    `${keyHeader}: ${theKey}`,
    `content-length: ${Buffer.byteLength(body)}`,
    ...headers,
  ];
  socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`);
  await new Promise((resolve) => socket.on('close', resolve));
  return { text: Buffer.concat(chunks).toString('latin1'), error };
}
