/**
 * Faults that tests inject into responses. A fault changes one response; each of its fields changes exactly one aspect,
 * and fields combine. A script decides which requests get a fault, and is called once per request, in order of arrival:
 *
 *     startSimulator({ …, faults: combineScripts(
 *       onRequest(1, errorResponse(503)),           // the first request of all
 *       onPage(3, truncated(200), { times: 2 }),    // the first two attempts at page 3
 *       onPage(5, combineFaults(throttled('2'), delayed(50))),
 *     ) })
 */

export interface Fault {
  /** Milliseconds between selecting the page and the first byte. The `date` header shows the later time. */
  readonly delayMs?: number;
  /** The first byte is sent when this is fulfilled. */
  readonly until?: Promise<unknown>;
  readonly status?: number;
  /** Replaces the body, which is held in memory as a whole. The content-length is that of the result. */
  readonly body?: (original: Buffer) => string | Uint8Array;
  /** Replaces headers of the same name (in any case), sent exactly as written here. null removes the header. */
  readonly headers?: Readonly<Record<string, string | readonly string[] | null>>;
  /** The values of the cursor header, one header line each. */
  readonly cursors?: readonly string[];
  /** Sends no content-length. The body ends with an empty chunk (`chunked`) or with the connection (`close`). */
  readonly framing?: 'chunked' | 'close';
  /** Sends the body in pieces of `bytes` bytes, with a pause after each. */
  readonly trickle?: { readonly bytes: number; readonly everyMs: number };
  /**
   * Closes the connection early: at `start` before anything is sent, at a number after so many bytes of the body
   * (0: after the headers). `close` sends a FIN, `reset` an RST. The headers, content-length included, stay unchanged.
   */
  readonly disconnect?: { readonly at: 'start' | number; readonly by: 'close' | 'reset' };
}

/** Merges several faults into one. A later fault overrides the fields of an earlier one; `headers` are merged. */
export function combineFaults(...faults: readonly Fault[]): Fault {
  return Object.assign({}, ...faults, { headers: Object.assign({}, ...faults.map((fault) => fault.headers)) });
}

// Scripts

/** A request as a script sees it. */
interface ScriptInput {
  /** Counts the requests to this simulator, from 1. */
  readonly request: number;
  /** The page number, from 1. undefined for rejected requests and for cursors that another instance issued. */
  readonly page: number | undefined;
  /** How often this page was requested with this cursor, including this request. */
  readonly attempt: number;
}

export type FaultScript = (input: ScriptInput) => Fault | undefined;

export const always =
  (fault: Fault): FaultScript =>
  () =>
    fault;

export const onRequest =
  (request: number, fault: Fault): FaultScript =>
  (input) =>
    input.request === request ? fault : undefined;

/** Affects the first `times` attempts at the page. Default 1; Infinity affects all of them. */
export const onPage =
  (page: number, fault: Fault, { times = 1 } = {}): FaultScript =>
  (input) =>
    input.page === page && input.attempt <= times ? fault : undefined;

/** Calls every script and combines the faults they return. */
export const combineScripts =
  (...scripts: readonly FaultScript[]): FaultScript =>
  (input) => {
    const faults = scripts.map((script) => script(input)).filter((fault) => fault !== undefined);
    return faults.length > 0 ? combineFaults(...faults) : undefined;
  };

// Faults: error responses

/** An error status with a small JSON body and no cursor. */
export const errorResponse = (status: number, message = 'This response is a scripted fault'): Fault => ({
  status,
  body: () => JSON.stringify({ error: 'scripted', message }),
  headers: { 'content-type': 'application/json', 'content-disposition': null },
  cursors: [],
});

/** A string is sent as it is (`'2'`: seconds), a Date as an HTTP date. */
export const throttled = (retryAfter: string | Date, status = 429): Fault =>
  combineFaults(errorResponse(status), {
    headers: { 'retry-after': typeof retryAfter === 'string' ? retryAfter : retryAfter.toUTCString() },
  });

// Faults: slow or interrupted responses

export const delayed = (delayMs: number): Fault => ({ delayMs });
export const trickled = (bytes: number, everyMs: number): Fault => ({ trickle: { bytes, everyMs } });

/** Closes the connection after `at` bytes of the body, regardless of the framing. */
export const truncated = (at: number, framing?: Fault['framing']): Fault => ({
  disconnect: { at, by: 'close' },
  ...(framing && { framing }),
});
export const connectionReset = (at: 'start' | number): Fault => ({ disconnect: { at, by: 'reset' } });

// Faults: wrong bodies and headers

export const withBody = (body: string | Uint8Array): Fault => ({ body: () => body });
/** The complete page with a correct content-length, but the end tag of its root element has another name. */
export const malformedXml: Fault = { body: (page) => page.toString().replace(/<\/reports>$/, '</report>') };
export const withContentType = (contentType: string): Fault => ({ headers: { 'content-type': contentType } });

// Faults: well-formed documents that are no pages of reports

/** It would end pagination: its status is 200, and it has no cursor. */
const insteadOfPage = (document: string): Fault => combineFaults(withBody(document), { cursors: [] });
export const errorDocument: Fault = insteadOfPage('<error><code>500</code><message>Try again later</message></error>');
export const htmlAsXml: Fault = insteadOfPage(
  '<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml"><head><title>Maintenance</title></head><body/></html>',
);
