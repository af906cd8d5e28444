import { describe, expect, it } from 'vitest';
import { splitReports } from '../../../lib/service/xml/split-reports.ts';
import { collect } from '../../support/builders.ts';
import { fc, test } from '../../support/property.ts';

/** The page in pieces of `size` bytes. */
async function* inPieces(text: string, size: number): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text);
  for (let start = 0; start < bytes.length; start += size) yield bytes.subarray(start, start + size);
}
const reportsOf = (text: string, size = 7) => collect(splitReports(inPieces(text, size)));

/** Reports in many forms, each a complete element. */
const reports = [
  '<report id="1"/>',
  '<r/>',
  '<r:x xmlns:r="urn:x" a=">" b=\'/>\'>text</r:x >',
  '<r><r><r/></r><!-- <r> --></r>',
  '<r><![CDATA[</r>]]]]><![CDATA[>]]></r>',
  '<r><?pi </r> ?></r\n>',
  '<übung>Zürich 北京 🜁 &amp; &#x41;</übung>',
  '<r\r\n  a="1"\r\n>\r\n</r>',
  '<R.-_1>&undeclared;</R.-_1>',
  `<long>${'x'.repeat(300)}</long>`,
] as const;
const between = ['', ' ', '\n', '\r\n', '<!-- <r/> -->', '<?skip <r/> ?>', 'text 🜁'] as const;
const prologues = [
  '',
  '\ufeff',
  '<?xml version="1.0" encoding="UTF-8"?>\n',
  '<!DOCTYPE reports [<!ENTITY e "<r/>">]>\n<!-- <r/> -->',
] as const;

describe('the reports of a page', () => {
  it('are the child elements of the root, whatever their name, unchanged', async () => {
    const page = `<?xml version="1.0"?>\n<reports>\n  <report id="1"><a/></report>\n  <Other/>\n</reports>\n`;
    expect(await reportsOf(page)).toEqual(['<report id="1"><a/></report>', '<Other/>']);
  });

  it('may be none', async () => {
    for (const page of ['<reports/>', '<reports></reports>', '<reports> <!-- <r/> --> </reports>']) {
      expect(await reportsOf(page)).toEqual([]);
    }
  });

  const part = fc.tuple(fc.constantFrom(...reports), fc.constantFrom(...between));
  test.prop([fc.constantFrom(...prologues), fc.array(part, { maxLength: 6 }), fc.integer({ min: 1, max: 40 })])(
    'are found however the page is chunked',
    async (prologue, parts, size) => {
      // An undeclared entity is an error without a DOCTYPE.
      const inside = parts.filter(([report]) => prologue.includes('DOCTYPE') || !report.includes('&undeclared;'));
      const page = `${prologue}<root a="&lt;r/>">${inside.map((each) => each.join('')).join('')}</root>\n`;
      expect(await reportsOf(page, size)).toEqual(inside.map(([report]) => report));
    },
  );

  it('of a large page are returned one at a time', async () => {
    let count = 0;
    async function* page() {
      yield Buffer.from('<reports>');
      for (let n = 0; n < 20_000; n += 1) yield Buffer.from(`<report n="${n}">${'x'.repeat(500)}</report>\n`);
      yield Buffer.from('</reports>');
    }
    for await (const report of splitReports(page())) {
      expect(report.length).toBeLessThan(600);
      count += 1;
    }
    expect(count).toBe(20_000);
  });

  it('of an incomplete page end with an error', async () => {
    await expect(reportsOf('<reports><report/>')).rejects.toThrow(/unclosed tag/);
    await expect(reportsOf('<reports><report></reports>')).rejects.toThrow(/unexpected close tag/);
  });
});
