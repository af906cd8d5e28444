/** The format checks hold no more of a page than their limits allow, whatever it contains. */

import { randomBytes } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { zipSync } from 'fflate';
import { describe, expect, it } from 'vitest';
import { createCsvCheck } from '../../../lib/service/formats/csv.ts';
import type { CheckOptions } from '../../../lib/service/formats/format-check.ts';
import { createJsonCheck } from '../../../lib/service/formats/json.ts';
import { createNdjsonCheck } from '../../../lib/service/formats/ndjson.ts';
import { jsonReports } from '../../../lib/service/formats/values/json-reports.ts';
import { createXmlFormatCheck } from '../../../lib/service/formats/xml.ts';
import { createZipCheck } from '../../../lib/service/formats/zip/zip.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;
const heapUsed = () => {
  collectGarbage();
  return process.memoryUsage().heapUsed;
};
const mebibyte = 1024 * 1024;
const checks = { JSON: createJsonCheck, NDJSON: createNdjsonCheck, CSV: createCsvCheck, XML: createXmlFormatCheck };
const words = 'all work and no play makes Jack a dull boy ';
const json: Partial<CheckOptions> = { paths: ['/next'], reports: '/data/*' };
const xml: Partial<CheckOptions> = { paths: ['/r/next'], reports: '/r/data/*' };

describe('memory', () => {
  it.each([
    ['JSON', 'a string', '{"data":["', words, '"]}', json],
    ['JSON', 'escapes', '{"data":["', String.raw`\u00e4\n`, '"]}', json],
    ['JSON', 'a key', '{"', words, '":1,"data":[]}', json],
    ['JSON', 'a number', '{"data":[1', '0123456789', ']}', json],
    ['JSON', 'blanks', '{"data":[', '  \n', ']}', json],
    ['JSON', 'reports', '{"data":[1', ',{"next":[1,"two"]}', ']}', json],
    ['JSON', 'keys', '{"data":[],"a":1', ',"b":1', '}', json],
    ['NDJSON', 'a line', '["', words, '"]', {}],
    ['NDJSON', 'lines', '{}\n', '{"a":[1,"two"]}\n', '', {}],
    ['NDJSON', 'blank lines', '{}\n', '\n', '', {}],
    ['CSV', 'a field', 'a,b\n1,', words, '\n', {}],
    ['CSV', 'a quoted field', 'a,b\n1,"', `${words}""\n`, '"\n', {}],
    ['CSV', 'rows', 'a,b\n', '1,"two"\n', '', {}],
    ['XML', 'text', '<r><data>', words, '</data></r>', xml],
    ['XML', 'an attribute', '<r><data a="', words, '"/></r>', xml],
    ['XML', 'a comment', '<r><!--', words, '--></r>', xml],
    ['XML', 'a CDATA section', '<r><![CDATA[', words, ']]></r>', {}],
    ['XML', 'an instruction', '<r><?p ', words, '?></r>', {}],
    ['XML', 'an instruction ahead of the root', '<?p ', words, '?><r/>', {}],
    ['XML', 'a DTD', '<!DOCTYPE r [<!-- ', words, '-->]><r/>', {}],
    ['XML', 'blanks in a tag', '<r', ' ', '/>', {}],
    ['XML', 'reports', '<r><data>', '<next a="1">two</next>', '</data></r>', xml],
  ] as const)('of the %s check does not grow with %s', (format, _, opening, filling, closing, options) => {
    const check = checks[format]({ paths: [], present: (name) => name, ...options });
    const piece = Buffer.from(filling.repeat(Math.floor((64 * 1024) / filling.length)));
    const before = heapUsed();
    check.push(Buffer.from(opening));
    for (let sent = 0; sent < 16 * mebibyte; sent += piece.length) check.push(piece);
    // Nothing is closed yet, so anything that is buffered is held now.
    expect(heapUsed() - before).toBeLessThan(2 * mebibyte);
    check.push(Buffer.from(closing));
    expect(check.end()).toBeTypeOf('object');
  });

  it('of the digest of a report in JSON does not grow with the report', () => {
    const reader = jsonReports({ format: 'json', reports: '/data/*' }, [''], () => {});
    const piece = ',{"next":[1,"two"]}'.repeat(3_000);
    const before = heapUsed();
    reader.read('{"data":[[1');
    for (let sent = 0; sent < 16 * mebibyte; sent += piece.length) reader.read(piece);
    expect(heapUsed() - before).toBeLessThan(2 * mebibyte);
    reader.read(']]}');
    expect(reader.end()).toBeTypeOf('object');
  });

  it.each([0, 1] as const)('of the ZIP check does not grow with an entry at level %i', async (level) => {
    const archive = zipSync({ 'a.bin': randomBytes(16 * mebibyte) }, { level });
    const check = createZipCheck();
    const used = () => heapUsed() + process.memoryUsage().arrayBuffers;
    const before = used();
    const end = archive.length - mebibyte;
    for (let at = 0; at < end; at += 64 * 1024) await check.push(archive.slice(at, Math.min(at + 64 * 1024, end)));
    // Another thread frees what was collected.
    await expect.poll(() => used() - before).toBeLessThan(2 * mebibyte);
    await check.push(archive.slice(end));
    expect(await check.end()).toBeTypeOf('object');
  });

  it('of the XML check does not grow with the attributes of an open element', () => {
    const check = createXmlFormatCheck({ paths: [], present: String });
    const value = 'x'.repeat(64 * 1024);
    const before = heapUsed();
    check.push(Buffer.from('<r'));
    for (let number = 0; number < 256; number += 1) check.push(Buffer.from(` a${number}="${value}"`));
    expect(heapUsed() - before).toBeLessThan(2 * mebibyte);
    check.push(Buffer.from('/>'));
    expect(check.end()).toBeTypeOf('object');
  });
});
