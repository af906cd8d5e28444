/**
 * Arbitrary responses of a broken or hostile service: a valid page in which any part, from the status line to the last
 * chunk, is replaced by anything, truncated anywhere.
 */

import { fc } from '../property.ts';
import { anyFraction, bodies, framings, type HeaderLine, junk, mostly, offsetAt } from './hostile-bodies.ts';

export interface HostileResponse {
  readonly bytes: Buffer;
  /** The offsets at which the bytes are split into separate writes. */
  readonly cuts: readonly number[];
  /** What happens to the connection after them. */
  readonly ending: 'stay open' | 'end' | 'reset';
}

const statuses = [
  100, 101, 102, 103, 199, 201, 202, 203, 204, 205, 206, 207, 226, 299, 300, 301, 302, 303, 304, 307, 308, 399, 400,
  401, 403, 404, 405, 408, 410, 413, 422, 425, 429, 431, 451, 499, 500, 501, 502, 503, 504, 511, 599, 600, 700, 999,
];

const statusLines = mostly(
  fc.constantFrom('HTTP/1.1 200 OK', 'HTTP/1.1 200 ', 'HTTP/1.1 200 Gr\xfc\xdf dich'),
  fc.oneof(
    { weight: 5, arbitrary: fc.constantFrom(...statuses).map((status) => `HTTP/1.1 ${status} Reason`) },
    {
      weight: 3,
      arbitrary: fc.constantFrom(206, 204, 304, 400, 401, 429, 503).map((status) => `HTTP/1.1 ${status} x`),
    },
    fc.constantFrom('HTTP/1.1 200', 'HTTP/1.0 200 OK', 'HTTP/1.1  200 OK', 'HTTP/1.1 200  OK', 'http/1.1 200 OK'),
    fc.constantFrom('HTTP/2 200 OK', 'HTTP/2.0 200 OK', 'HTTP/0.9 200 OK', 'HTTP/1.2 200 OK', 'ICY 200 OK', ''),
    fc.constantFrom('HTTP/1.1 000 OK', 'HTTP/1.1 99 OK', 'HTTP/1.1 2000 OK', 'HTTP/1.1 -200 OK', 'HTTP/1.1 2x0 OK'),
    fc.constantFrom(
      'PRI * HTTP/2.0\r\n\r\nSM\r\n',
      '\0\0\x12\x04\0\0\0\0\0',
      '\x15\x03\x01\0\x02\x02\x28',
      'SSH-2.0-x',
    ),
    junk.map((reason) => `HTTP/1.1 200 ${reason}`),
    junk,
  ),
  25,
);

/** Bytes before the status line. */
const leadingBytes = mostly(
  fc.constant(''),
  fc.oneof(
    fc.constantFrom('HTTP/1.1 103 Early Hints\r\nx-service-cursor: not-this-one\r\n\r\n', 'HTTP/1.1 102 Wait\r\n\r\n'),
    fc.constantFrom('HTTP/1.1 100 Continue\r\n\r\n', '\r\n', '\r\n\r\n', '\n', ' ', '\xef\xbb\xbf'),
    fc.nat(50).map((times) => 'HTTP/1.1 103 Early Hints\r\nlink: </>\r\n\r\n'.repeat(times)),
  ),
  6,
);

/** Bytes after a complete response on the same connection. */
const smuggled = 'HTTP/1.1 200 OK\r\ncontent-type: application/xml\r\ncontent-length: 11\r\n\r\n<smuggled/>';
const trailingBytes = mostly(fc.constant(''), fc.constantFrom('\r\n', 'x', smuggled), 5);

/** Header values. `key` is the API key, which errors must not contain. */
const values = (key: string) =>
  fc.oneof(
    junk,
    fc.constantFrom('', ' ', '\t', 'a-name'),
    fc.constantFrom(key, encodeURIComponent(key), Buffer.from(key).toString('hex'), `${'x'.repeat(80)}${key}x`),
    fc.constantFrom('\r\n folded', 'a\r\n\tb', 'a\nb', 'a\rb', '\u00e9\u00ff', '=?UTF-8?Q?=C3=A9?='),
    fc.constantFrom(300, 900, 9_000, 20_000).map((length) => 'v'.repeat(length)),
  );

const cursors = fc.oneof(
  fc.constantFrom('', ' ', 'no-comma', '1588888888888,', ',', '%2C', '"', '\\', 'a b', '  a  b  ', 'caf\xe9', 'a\tb'),
  fc.constantFrom(800, 801, 4_096).map((length) => 'c'.repeat(length)),
);

const dates = fc.constantFrom(
  'Fri, 20 Nov 2026 02:00:07',
  'Fri, 31 Feb 2026 02:00:07 GMT',
  'Thu, 01 Jan 1970 00:00:00 GMT',
  'Sat, 13 Sep 275760 00:00:00 GMT',
  '-271821-04-20 GMT',
  '1 GMT',
  '99999999999999999999 GMT',
  'Sunday, 06-Nov-94 08:49:37 GMT',
);

const validHeaders: readonly HeaderLine[] = [
  ['date', 'Fri, 20 Nov 2026 02:00:07 GMT'],
  ['x-request-id', '4b1f0c9e'],
  ['content-type', 'application/xml;charset=UTF-8'],
];

type Change = (lines: readonly HeaderLine[]) => readonly HeaderLine[];

/** Replaces, adds, repeats or removes header lines. */
function changes(key: string): fc.Arbitrary<Change> {
  const value = values(key);
  const named = (name: string, ...given: readonly string[]) => valued(name, fc.constantFrom(...given));
  const valued = (name: string, given: fc.Arbitrary<string>) =>
    given.map((one): Change => (lines) => [...lines, [name, one]]);
  const one = fc.constantFrom(...validHeaders.map(([name]) => name));
  return fc.oneof(
    { weight: 4, arbitrary: valued('X-Service-Cursor', fc.oneof(cursors, value)) },
    {
      weight: 2,
      arbitrary: valued('Retry-After', fc.oneof(fc.constantFrom('0', '-1', '1e3', '9'.repeat(40)), dates, value)),
    },
    {
      weight: 2,
      arbitrary: valued(
        'Location',
        fc.oneof(fc.constantFrom(`https://${'h'.repeat(9_000)}/`, `http://${key}/`, '//'), value),
      ),
    },
    one.map(
      (gone): Change =>
        (lines) =>
          lines.filter(([name]) => name !== gone),
    ),
    one.map((twice): Change => (lines) => [...lines, ...lines.filter(([name]) => name === twice)]),
    fc.tuple(one, fc.oneof(value, dates, fc.constantFrom('text/html', 'text/plain', 'application/xml'))).map(
      ([changed, other]): Change =>
        (lines) =>
          lines.map(([name, old]) => [name, name === changed ? other : old]),
    ),
    named('Content-Encoding', 'identity', 'gzip', 'br', 'gzip, gzip', 'x'.repeat(500)),
    named('Content-Length', '0', '5', '-1', '+5', '0x10', '5, 5', '99999999999999999999', '', '5 '),
    named('Transfer-Encoding', 'chunked', 'gzip, chunked', 'identity', 'chunked, chunked', 'xchunked', ''),
    named('Connection', 'close', 'keep-alive', 'upgrade', 'x-service-cursor'),
    named('Upgrade', 'h2c', 'websocket'),
    named('Trailer', 'x-service-cursor'),
    fc.tuple(junk, value).map((line): Change => (lines) => [...lines, line]),
    fc.constantFrom(100, 2_000).map((count): Change => (lines) => [
      ...lines,
      ...Array<HeaderLine>(count).fill(['a', '']),
    ]),
  );
}

/** Text is Latin-1: one character per byte. */
export function hostileResponses(key: string): fc.Arbitrary<HostileResponse> {
  const parts = fc.record({
    leadingBytes,
    statusLine: statusLines,
    changes: fc.oneof(fc.constant<Change[]>([]), fc.array(changes(key), { minLength: 1, maxLength: 3 })),
    body: bodies(key),
    frame: framings,
    trailingBytes,
    /** The fraction of the response that is sent. */
    sentFraction: mostly(fc.constant(1), anyFraction, 12),
    cuts: fc.array(anyFraction, { maxLength: 3 }),
    ending: fc.oneof(
      { weight: 6, arbitrary: fc.constant('end' as const) },
      fc.constantFrom('stay open' as const, 'reset' as const),
    ),
  });
  return parts.map(({ ending, ...parts }): HostileResponse => {
    const framed = parts.frame(parts.body);
    const lines = parts.changes.reduce<readonly HeaderLine[]>(
      (left, change) => change(left),
      [...validHeaders, ...framed.lines],
    );
    const head = [
      `${parts.leadingBytes}${parts.statusLine}`,
      ...lines.map(([name, value]) => `${name}: ${value}`),
      '',
      '',
    ];
    const response = Buffer.concat([
      Buffer.from(head.join('\r\n'), 'latin1'),
      framed.bytes,
      Buffer.from(parts.trailingBytes),
    ]);
    const bytes = response.subarray(0, offsetAt(response, parts.sentFraction));
    const cuts = parts.cuts.map((part) => offsetAt(bytes, part)).toSorted((a, b) => a - b);
    return Object.assign({ bytes, cuts, ending }, { [fc.toStringMethod]: () => describe({ bytes, cuts, ending }) });
  });
}

/** For counterexamples: one character per byte, with long repetitions shortened. */
function describe({ bytes, ...response }: HostileResponse): string {
  return JSON.stringify({ ...response, sent: bytes.toString('latin1').replace(/(.{1,40}?)\1{20,}/gs, '$1 … $1') });
}
