/** Arbitrary bodies that are or resemble a page, and framings that mark the end of a body correctly or incorrectly. */

import { gzipSync } from 'node:zlib';
import { fc } from '../property.ts';
import { chunk } from './raw-server.ts';

/** `bad` in `badPercent` percent of the cases. Otherwise almost every response would be rejected at its first line. */
export function mostly<Value>(good: fc.Arbitrary<Value>, bad: fc.Arbitrary<Value>, badPercent: number) {
  return fc.oneof({ weight: 100 - badPercent, arbitrary: good }, { weight: badPercent, arbitrary: bad });
}

/** A position as a fraction of the length, from 0 to almost 1. */
export const anyFraction = fc.nat(9_999).map((parts) => parts / 10_000);
export const offsetAt = (bytes: Uint8Array, fraction: number): number => Math.floor(fraction * (bytes.length + 1));

const byte = fc.nat(255).map((code) => String.fromCharCode(code));
const delimiters = '\0\t\n\r "%,:;<=\\\x1b\x7f\x80\xe9'.split('');
/** Characters that are special to parsers, one per byte. */
export const junk = fc.string({ unit: fc.oneof(fc.constantFrom(...delimiters), byte), maxLength: 30 });

const reports = fc.array(
  fc.constantFrom(
    '<report id="1">Grüße</report>',
    '<report/>',
    '<r><![CDATA[<&]]></r>',
    '<!-- c -->',
    '<?p i?>',
    'text',
  ),
  { maxLength: 5 },
);
const prologs = fc.constantFrom('', '<?xml version="1.0" encoding="UTF-8"?>\n', '\ufeff', '<!DOCTYPE r>');
const goodXml = fc
  .tuple(prologs, reports)
  .map(([prolog, inside]): Buffer => Buffer.from(`${prolog}<reports>${inside.join('')}</reports>\n`));

/** Deeper than the maximum nesting of a page. */
export const tooDeep = '<a>'.repeat(1_001);

const oddities = (key: string) => [
  `<${'n'.repeat(2_000)}>`,
  `<a ${'b'.repeat(70_000)}="1"/>`,
  `<a b="${'c'.repeat(70_000)}"/>`,
  `${tooDeep}${'</a>'.repeat(1_001)}`,
  `${'<a>'.repeat(500)}${'</a>'.repeat(500)}`,
  `<${key.replaceAll(/\W/g, '')}>`,
  `<r>${key}</r>`,
  '<!DOCTYPE r [<!ENTITY a "&b;&b;"><!ENTITY b "&a;&a;">]><r>&a;</r>',
  '<!DOCTYPE r SYSTEM "http://127.0.0.1:1/"><r>&e;</r>',
  '{"error":"no"}',
  '',
];

export function bodies(key: string): fc.Arbitrary<Buffer> {
  const recoded = goodXml.chain((xml) =>
    fc.constantFrom(
      Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(xml.toString(), 'utf16le')]),
      Buffer.from(xml.toString(), 'latin1'),
      gzipSync(xml),
    ),
  );
  const bad = fc.oneof(
    { weight: 4, arbitrary: fc.tuple(goodXml, anyFraction).map(([xml, part]) => xml.subarray(0, offsetAt(xml, part))) },
    { weight: 2, arbitrary: fc.constantFrom(`You sent ${key}`, `<r>${key}<r>`).map((text) => Buffer.from(text)) },
    { weight: 2, arbitrary: fc.constantFrom('<r>Grüße</r>', '<r>\xff</r>').map((text) => Buffer.from(text, 'latin1')) },
    fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
    recoded,
    fc.constantFrom(...oddities(key)).map((text) => Buffer.from(text)),
  );
  return mostly(goodXml, bad as fc.Arbitrary<Buffer>, 35);
}

export type HeaderLine = readonly [name: string, value: string];
type Framing = (body: Buffer) => { readonly lines: readonly HeaderLine[]; readonly bytes: Buffer };

const byLength =
  (difference: number): Framing =>
  (body) => ({ lines: [['content-length', String(Math.max(0, body.length + difference))]], bytes: body });

const byClosing: Framing = (body) => ({ lines: [['connection', 'close']], bytes: body });

const inChunks =
  ({ parts = 1, extension = '', trailer = '' }): Framing =>
  (body) => {
    const size = Math.ceil(body.length / parts);
    const pieces = Array.from({ length: parts }, (_, part) => body.subarray(part * size, (part + 1) * size));
    const chunks = pieces.filter(({ length }) => length > 0).map((piece) => chunk(piece).toString('latin1'));
    const text = `${chunks.join('').replace(/^[0-9a-f]+/, (first) => first + extension)}0\r\n${trailer}\r\n`;
    return { lines: [['transfer-encoding', 'chunked']], bytes: Buffer.from(text, 'latin1') };
  };

/** The header lines of both, and the body of the second. */
const both =
  (one: Framing, other: Framing): Framing =>
  (body) => ({ lines: [...one(body).lines, ...other(body).lines], bytes: other(body).bytes });

const broken = ['zz\r\n', 'ffffffffffffffffff\r\n', '-1\r\n', '5\r\n<r/>', '0x4\r\n<r/>\r\n0\r\n\r\n'];

/** How the end of a body is marked, correctly or incorrectly. */
export const framings: fc.Arbitrary<Framing> = mostly(
  fc.constantFrom(byLength(0), inChunks({}), inChunks({ parts: 2 }), byClosing),
  fc.oneof(
    fc.integer({ min: -20, max: 20 }).map(byLength),
    fc.constantFrom(both(byLength(0), inChunks({})), both(byLength(0), byLength(1))),
    fc.constantFrom(';x=y', ';"\n"', `;${'x'.repeat(20_000)}`).map((extension) => inChunks({ extension })),
    fc
      .constantFrom('x-service-cursor: too-late\r\n', 'no colon\r\n', `t: ${'x'.repeat(20_000)}\r\n`, '\0')
      .map((trailer) => inChunks({ trailer })),
    fc.constantFrom(...broken).map((chunks): Framing => () => ({
      lines: [['transfer-encoding', 'chunked']],
      bytes: Buffer.from(chunks),
    })),
  ),
  15,
);
