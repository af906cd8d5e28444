import { hash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { PageSettings } from '../../../lib/service/api/page.ts';
import { reportReaderOf } from '../../../lib/service/formats/values/report-reader.ts';

/** The texts at the paths in each report, with the types that are not `string`; null: nothing is there. */
async function read(page: PageSettings, text: string, paths: readonly string[], chunkBytes = 3) {
  const bytes = Buffer.from(text);
  async function* chunks() {
    for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.subarray(at, at + chunkBytes);
  }
  const reports = await reportReaderOf({ listed: { page } })?.read(chunks(), paths);
  return reports?.map((values) =>
    values.map((value) =>
      value === undefined ? null : value.type === 'string' ? value.text : `${value.type} ${value.text}`.trimEnd(),
    ),
  );
}
const json: PageSettings = { format: 'json', reports: '/data/*' };
const csv: PageSettings = { format: 'csv' };

describe('values of reports', () => {
  it('in JSON are at pointers from each report, as they are written', async () => {
    const page =
      '{"id": "no", "data": [{"id": 1.0, "name": "a\\u00e4/\\"", "x/y": {"z": [7, true]}, "o": {}}, {"id": null}, {}], "meta": {"data": [{"id": 9}]}}';
    const paths = ['/id', '/name', '/x~1y/z/1', '/o'];
    const first = ['number 1.0', 'aä/"', 'boolean true', 'object'];
    expect(await read(json, page, paths)).toEqual([first, ['null', null, null, null], [null, null, null, null]]);
    expect(await read({ format: 'json', reports: '/*' }, '[{"id": "a"}, {"id": "b"}]', ['/id'])).toEqual([
      ['a'],
      ['b'],
    ]);
  });

  it('in JSON may be the reports themselves: of an object or an array, a digest', async () => {
    const digest = (text: string) => hash('sha256', text);
    const text = '{"a": [{ "b":1.0,\n"c":[null, "\\u00e4"] }], "id": 7}';
    const same = digest('{"a":[{"b":1.0,"c":[null,"ä"]}],"id":7}');
    expect(await read(json, `{"data": ["a/b", 2, [ ], ${text}], "x": {}}`, [''])).toEqual([
      ['a/b'],
      ['number 2'],
      [`array ${digest('[]')}`],
      [`object ${same}`],
    ]);
    expect(await read({ ...json, single: true }, `{"data": ${text}}`, ['/id', ''])).toEqual([
      ['number 7', `object ${same}`],
    ]);
    expect(await read({ ...json, single: true }, `{"data": [${text}, {}]}`, [''])).toEqual([
      [`object ${same}`],
      [`object ${digest('{}')}`],
    ]);
    expect(await read({ format: 'ndjson' }, '{"a": 1}\n[2]\n', [''])).toEqual([
      [`object ${digest('{"a":1}')}`],
      [`array ${digest('[2]')}`],
    ]);
    const long = `{"a":"${'x'.repeat(100_000)}"}`;
    expect(await read(json, `{"data": [${long}]}`, [''], 9_999)).toEqual([[`object ${digest(long)}`]]);
  });

  it('in JSON are those of an object in the place of the list, which is one report unless it is empty', async () => {
    const single: PageSettings = { ...json, single: true };
    expect(await read(single, '{"data": {"id": "a", "n": {"id": "b"}}}', ['/id'])).toEqual([['a']]);
    expect(await read(single, '{"data": {}}', ['/id'])).toEqual([]);
    expect(await read(json, '{"data": {"id": "a"}}', ['/id'])).toEqual([]);
    expect(await read(json, '{"data": null}', ['/id'])).toEqual([]);
  });

  it('in JSON are refused if they are there twice or too long, and other values may be', async () => {
    await expect(read(json, '{"data": [{"id": 1, "id": 2}]}', ['/id'])).rejects.toThrow(
      'there are two values at /data/*/id',
    );
    expect(await read(json, '{"data": [{"id": 1, "x": 1, "x": 2}]}', ['/id'])).toEqual([['number 1']]);
    const long = 'x'.repeat(70_000);
    expect(await read(json, `{"data": [{"text": "${long}", "id": 1}]}`, ['/id'], 9_999)).toEqual([['number 1']]);
    await expect(read(json, `{"data": [{"id": "${long}"}]}`, ['/id'], 9_999)).rejects.toThrow('too long');
    await expect(read(json, '{"data": [{"id": 1', ['/id'])).rejects.toMatchObject({ name: 'ContractError' });
  });

  it.each<PageSettings>([json, { format: 'xml' }, { format: 'ndjson' }, csv])(
    'are none in a page without content, as a response with status 204 is stored: $format',
    async (page) => expect(await read(page, '', ['/id'])).toEqual([]),
  );

  it('in NDJSON are at pointers from each line', async () => {
    expect(await read({ format: 'ndjson' }, '{"id": "a"}\n\n{"id": 2}\n', ['/id'])).toEqual([['a'], ['number 2']]);
    expect(await read({ format: 'ndjson' }, '', ['/id'])).toEqual([]);
  });

  it('in XML are texts of elements and attributes below each report', async () => {
    const page =
      '<f:feed xmlns:f="urn:f" id="no"><id>no</id><entry f:key="k"> <id> a&amp;b </id><link href="l"/><n><id>x</id></n><idea>y</idea></entry><entry><id/></entry></f:feed>';
    const reports: PageSettings = { format: 'xml', reports: '/feed/entry' };
    const paths = ['/id', '/@key', '/link/@href', '/n'];
    expect(await read(reports, page, paths)).toEqual([
      ['a&b', 'k', 'l', 'x'],
      ['', null, null, null],
    ]);
    expect(await read({ format: 'xml' }, '<r><a id="1"/><b id="2"/></r>', ['/@id'])).toEqual([['1'], ['2']]);
    await expect(read(reports, '<feed><entry><id>1</id><id>2</id></entry></feed>', ['/id'])).rejects.toThrow(
      'there are two values at /feed/entry/id',
    );
    await expect(read(reports, '<!DOCTYPE f [<!ENTITY a "b">]><feed/>', ['/id'])).rejects.toThrow('DOCTYPE');
    const long = 'x'.repeat(70_000);
    expect(await read(reports, `<feed><entry><text>${long}</text><id>1</id></entry></feed>`, ['/id'], 9_999)).toEqual([
      ['1'],
    ]);
  });

  it('in CSV are the fields of columns', async () => {
    const page = 'id,"the ""name""",n\r\n1,"two\r\nlines, and ""quotes""",\r\n"2",b,c\r\n\r\n';
    expect(await read(csv, page, ['id', 'the "name"', 'n', 'other'])).toEqual([
      ['1', 'two\r\nlines, and "quotes"', '', null],
      ['2', 'b', 'c', null],
    ]);
    expect(await read({ format: 'csv', delimiter: ';' }, 'a;b\n1;2', ['b'])).toEqual([['2']]);
    expect(await read(csv, 'id\n""\n1\n\n', ['id'])).toEqual([[''], ['1']]);
    await expect(read(csv, 'id,id\n1,2\n', ['id'])).rejects.toThrow('there are two columns id');
  });
});
