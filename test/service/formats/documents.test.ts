/**
 * Documents that the check of a format accepts or refuses, and what it finds in them, whole or in pieces. A line of
 * `documents.txt` has a title, what is looked for (`reports` or the value `at` a path), the document, and `accepted`,
 * the number of reports, `root` with its name, `value` with what is at the path, or a part of the problem. `‹…›` is
 * explained in test/support/service/exchanges.ts.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { createCsvCheck } from '../../../lib/service/formats/csv.ts';
import { createJsonCheck } from '../../../lib/service/formats/json.ts';
import { createNdjsonCheck } from '../../../lib/service/formats/ndjson.ts';
import { createXmlFormatCheck } from '../../../lib/service/formats/xml.ts';
import { bytewise, check, type Checked } from '../../support/service/checked-pages.ts';
import { filled, filledBytes } from '../../support/service/exchanges.ts';

const checks = { json: createJsonCheck, ndjson: createNdjsonCheck, csv: createCsvCheck, xml: createXmlFormatCheck };

const [, ...sections] = readFileSync(join(import.meta.dirname, 'documents.txt'), 'utf8').split(/^## /m);
const documents = sections.flatMap((section) => {
  const [format = '', ...blocks] = section.split(/\n+### /);
  return blocks.flatMap((block) => {
    const [subject = '', ...lines] = block.trim().split('\n');
    return lines.map((line) => {
      const [title = '', wanted = '', document = '', expected = ''] = line.split(' | ');
      const options = {
        paths: wanted.startsWith('at ') ? [wanted.slice(3)] : [],
        reports: wanted.startsWith('reports ') ? wanted.slice(8) : undefined,
      };
      return { name: `${format}, ${subject}: ${title}`, format, options, document, expected: filled(expected) };
    });
  });
});

/** What an expectation without a problem says. */
function contentOf(expected: string): Partial<Checked> | undefined {
  const [, reports] = /^(\d+) reports?$/.exec(expected) ?? [];
  if (reports !== undefined) return { problem: undefined, reports: Number(reports) };
  if (expected === 'not counted') return { problem: undefined, reports: null };
  if (expected === 'accepted') return { problem: undefined };
  if (expected.startsWith('root ')) return { problem: undefined, rootName: expected.slice(5) };
  if (!expected.startsWith('value ')) return undefined;
  return { problem: undefined, values: [JSON.parse(expected.slice(6)) as Checked['values'][number]] };
}

/** A long document is in pieces of a prime number of bytes: one by one, they would take seconds. */
const piecesOf = (bytes: Buffer): readonly Uint8Array[] =>
  bytes.length < 10_000
    ? bytewise(bytes)
    : Array.from({ length: Math.ceil(bytes.length / 251) }, (_, n) => bytes.subarray(n * 251, (n + 1) * 251));

/** The results of the check for the document as a whole, and in pieces. */
function resultsOf({ format, options, document }: (typeof documents)[number]): readonly Checked[] {
  const bytes = filledBytes(document);
  return [[bytes], piecesOf(bytes)].map((pieces) => check(checks[format as keyof typeof checks], pieces, options));
}

const [refused = [], accepted = []] = [true, false].map((isRefused) =>
  documents.filter(({ expected }) => (contentOf(expected) === undefined) === isRefused),
);

it.each(accepted)('$name', (document) => {
  const [whole, inPieces] = resultsOf(document);
  expect(whole).toEqual({ ...whole, ...contentOf(document.expected) });
  expect(inPieces).toEqual(whole);
});

it.each(refused)('$name', (document) => {
  const [whole, inPieces] = resultsOf(document);
  expect(whole?.problem).toContain(document.expected);
  expect(inPieces?.problem).toBeDefined();
});
