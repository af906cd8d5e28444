/**
 * Sends requests to the simulator as the service contract shows them, with undici, so that the simulator is tested
 * without the project's own client.
 */

import { request } from 'undici';
import { type InMemoryReport, inMemoryReports } from './in-memory-reports.ts';
import { type Simulator, type SimulatorOptions, startSimulator } from './simulator.ts';

export const simulatorApiKey = 'the-key-of-the-tests';

export const startTestSimulator = (options: Partial<SimulatorOptions> = {}): Promise<Simulator> =>
  startSimulator({ vendor: 'SERVICE', apiKey: simulatorApiKey, reports: inMemoryReports(someReports(3)), ...options });

/** Reports `r1`, `r2`, …, one second apart from 2026-11-20T00:00:01Z, each `<r id="r1"/>`. */
export const someReports = (count: number): InMemoryReport[] =>
  Array.from({ length: count }, (_, index) => aReport(index + 1));

export const aReport = (n: number, overrides: Partial<InMemoryReport> = {}): InMemoryReport => ({
  id: `r${n}`,
  date: Date.UTC(2026, 10, 20) + n * 1_000,
  xml: `<r id="r${n}"/>`,
  ...overrides,
});

export interface SimulatorRequest {
  readonly cursor?: string | undefined;
  readonly cursorIn?: 'query' | 'body';
  /** Replaces fields of the request body; undefined omits a field. */
  readonly fields?: Readonly<Record<string, unknown>>;
  /** Replaces the complete body. */
  readonly body?: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
  readonly method?: 'POST' | 'GET' | 'PUT' | 'DELETE';
  readonly target?: string;
}

export interface SimulatorResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly cursor: string | string[] | undefined;
  readonly bytes: Buffer;
  readonly text: string;
  /** The `id` attributes of the page's `r` elements. */
  readonly ids: readonly string[];
}

export const requestBody = (fields: Readonly<Record<string, unknown>> = {}): string =>
  JSON.stringify({ filter: { date: { gte: '1970-01-01T00:00:00Z' } }, format: 'XML', container: 'NONE', ...fields });

export async function sendRequest(
  simulator: Pick<Simulator, 'baseUrl'>,
  options: SimulatorRequest = {},
): Promise<SimulatorResponse> {
  const { cursor, cursorIn = 'query', fields, method = 'POST' } = options;
  const query = cursor !== undefined && cursorIn === 'query' ? `?cursor=${encodeURIComponent(cursor)}` : '';
  const inBody = cursor !== undefined && cursorIn === 'body' ? { cursor } : {};
  const response = await request(`${simulator.baseUrl}${options.target ?? `/v1/report/export${query}`}`, {
    method,
    headers: { 'content-type': 'application/json', 'X-SERVICE-API-KEY': simulatorApiKey, ...options.headers },
    body: method === 'GET' ? null : (options.body ?? requestBody({ ...fields, ...inBody })),
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

/** Follows the cursors to the last page. */
export async function fetchAllPages(
  simulator: Simulator,
  options: Omit<SimulatorRequest, 'cursor'> = {},
): Promise<SimulatorResponse[]> {
  const pages: SimulatorResponse[] = [];
  let cursor: string | undefined;
  do {
    const page = await sendRequest(simulator, { ...options, cursor });
    if (page.status !== 200) throw new Error(`Page ${pages.length + 1} returned ${page.status}: ${page.text}`);
    pages.push(page);
    cursor = page.cursor as string | undefined;
  } while (cursor !== undefined);
  return pages;
}

/** The content of an error response. */
export function errorOf(response: SimulatorResponse): {
  readonly status: number;
  readonly error: string;
  readonly message: string;
} {
  return { status: response.status, ...(JSON.parse(response.text) as { error: string; message: string }) };
}
