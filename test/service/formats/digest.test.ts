/** The digest of reports in JSON: it is that of the list alone. */

import { expect, it } from 'vitest';
import { createJsonCheck } from '../../../lib/service/formats/json.ts';

function digestOf(document: string, at: number = document.length): string | undefined {
  const check = createJsonCheck({ paths: ['/next'], reports: '/data/*', present: (name) => name });
  const bytes = Buffer.from(document);
  check.push(bytes.subarray(0, at));
  check.push(bytes.subarray(at));
  const content = check.end();
  if (typeof content === 'string') throw new Error(content);
  return content.reportsDigest;
}

const list = '[{"id":1,"text":"a\\n","tags":[null,true,1.50]},{"id":2}]';
const page = `{"data":${list},"next":"b"}`;
const escapes = String.raw`{"data":["😀\ud83d\ude00","größe\/\"\u0041"],"next":"b"}`;

it.each([
  `{"took":7,"next":"another","data": ${list}}`,
  `{"links":[["[",{"data":[1]}]],"data":${list},"next":"]]","tail":[[]]}`,
  String.raw`{"\"[":1,"data":${list}}`,
])('is the same whatever stands around the list: %s', (other) => {
  for (let at = 0; at < other.length; at += 1) expect(digestOf(other, at)).toBe(digestOf(page));
});

it('is absent where the end of the list is not certain', () => {
  expect(digestOf(String.raw`{"data":${list},"next":"\u005d"}`)).toBeUndefined();
});

it('is the same however the page arrives in pieces', () => {
  for (const document of [page, escapes])
    for (let at = 0; at < document.length; at += 1) expect(digestOf(document, at)).toBe(digestOf(document));
});

it.each([
  '[{"id":1,"text":"a\\n","tags":[null,true,1.50]},{"id":3}]',
  '[{"id":1,"text":"a\\n","tags":[null,true,1.5]},{"id":2}]',
  '[{"id":1,"text":"a\\n","tags":[true,null,1.50]},{"id":2}]',
  '[{"id":1,"text":"a\\n","tags":[null,false,1.50]},{"id":2}]',
  '[{"id":"1","text":"a\\n","tags":[null,true,1.50]},{"id":2}]',
  '[{"id":1,"text":"a\\n"},{"tags":[null,true,1.50],"id":2}]',
  '[{"id":2},{"id":1,"text":"a\\n","tags":[null,true,1.50]}]',
  '[{"id":1,"text":"a\\n","tags":[null,true,1.50]}]',
  '[]',
])('is another one for other reports: %s', (other) => {
  expect(digestOf(`{"data":${other},"next":"b"}`)).not.toBe(digestOf(page));
});

it.each([
  ['at its beginning', 'b', 'c'],
  ['after 100,000 characters', 'a', 'd'],
])('is another one for a long list that differs %s', (_, start, end) => {
  const long = (...items: readonly string[]) => JSON.stringify({ data: items, next: 'b' });
  const middle = 'x'.repeat(100_000);
  expect(digestOf(long('a', middle, 'c'))).toBe(digestOf(long('a', middle, 'c'), 70_000));
  expect(digestOf(long(start, middle, end))).not.toBe(digestOf(long('a', middle, 'c')));
});
