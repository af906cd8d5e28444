/**
 * A second implementation of HTTP/1.1 response parsing, strictly by RFC 9112 and on the complete response. The client's
 * streaming parser is compared with it.
 */

export interface ParsedResponse {
  /** Whether every byte conforms to the RFC, and no bytes follow the response. */
  readonly strict: boolean;
  /** undefined if there is no final response. */
  readonly status: number | undefined;
  /** By lower-case name, in order. Values are trimmed. */
  readonly headers: ReadonlyMap<string, readonly string[]>;
  /** undefined if the response is incomplete. */
  readonly body: Buffer | undefined;
}

const noResponse: ParsedResponse = { strict: false, status: undefined, headers: new Map(), body: undefined };

/** Parses the bytes of a connection. `closed`: the connection was closed regularly after them. */
export function parseResponse(sent: Buffer, closed: boolean): ParsedResponse {
  const emptyLines = /^[\r\n]*/.exec(sent.toString('latin1'))?.[0].length ?? 0;
  let rest = sent.subarray(emptyLines);
  let strict = emptyLines === 0;
  for (;;) {
    const end = rest.indexOf('\r\n\r\n');
    if (end === -1) return noResponse;
    const [statusLine = '', ...lines] = rest.subarray(0, end).toString('latin1').split('\r\n');
    rest = rest.subarray(end + 4);
    const [, code] = /^HTTP\/(?:0\.9|1\.[01]|2\.0) ([1-9]\d\d)(?: .*)?$/s.exec(statusLine) ?? [];
    if (code === undefined) return noResponse;
    const status = Number(code);
    strict &&= /^HTTP\/1\.1 \d{3} [\t\x20-\x7e\x80-\xff]*$/.test(statusLine);
    const headers = headersIn(lines);
    if (headers === undefined) return { ...noResponse, status };
    // Informational responses precede the final one. After a 101, the protocol is no longer HTTP.
    if (status < 200 && status !== 101) {
      strict &&= status !== 100;
      continue;
    }
    const body = bodyIn(rest, status, headers, closed);
    const empty = headers.get('transfer-encoding')?.includes('') === true;
    return { strict: strict && !empty && body?.strict === true, status, headers, body: body?.bytes };
  }
}

function headersIn(lines: readonly string[]): ReadonlyMap<string, readonly string[]> | undefined {
  const headers = new Map<string, string[]>();
  for (const line of lines) {
    const [, name, value] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*$/.exec(line) ?? [];
    if (name === undefined || value === undefined) return undefined;
    headers.set(name.toLowerCase(), [...(headers.get(name.toLowerCase()) ?? []), value]);
  }
  return headers;
}

interface Body {
  readonly bytes: Buffer;
  readonly strict: boolean;
}

function bodyIn(
  rest: Buffer,
  status: number,
  headers: ReadonlyMap<string, readonly string[]>,
  closed: boolean,
): Body | undefined {
  if (status === 204 || status === 304 || status === 101) return { bytes: Buffer.of(), strict: rest.length === 0 };
  const coding = headers.get('transfer-encoding')?.filter((value) => value !== '');
  const lengths = headers.get('content-length');
  if (coding !== undefined && coding.length > 0) {
    if (coding.length > 1 || coding[0]?.toLowerCase() !== 'chunked' || lengths !== undefined) return undefined;
    return chunksIn(rest);
  }
  if (lengths === undefined) return closed ? { bytes: rest, strict: true } : undefined;
  if (lengths.length > 1 || !/^\d+$/.test(lengths[0] ?? '')) return undefined;
  const length = Number(lengths[0]);
  if (rest.length < length) return undefined;
  return { bytes: rest.subarray(0, length), strict: rest.length === length };
}

function chunksIn(sent: Buffer): Body | undefined {
  const chunks: Buffer[] = [];
  let rest = sent;
  for (;;) {
    const end = rest.indexOf('\r\n');
    const [, size] =
      /^([0-9A-Fa-f]{1,12})(?:[ \t]*;.*)?$/.exec(rest.subarray(0, Math.max(0, end)).toString('latin1')) ?? [];
    if (size === undefined) return undefined;
    const length = Number.parseInt(size, 16);
    rest = rest.subarray(end + 2);
    if (length === 0) break;
    if (rest.length < length + 2 || rest.subarray(length, length + 2).toString('latin1') !== '\r\n') return undefined;
    chunks.push(rest.subarray(0, length));
    rest = rest.subarray(length + 2);
  }
  const trailerEnd = rest.toString('latin1').startsWith('\r\n') ? 0 : rest.indexOf('\r\n\r\n') + 2;
  if (trailerEnd === 1) return undefined;
  const trailers = rest.subarray(0, trailerEnd).toString('latin1').split('\r\n').filter(Boolean);
  if (headersIn(trailers) === undefined) return undefined;
  return { bytes: Buffer.concat(chunks), strict: rest.length === 2 };
}
