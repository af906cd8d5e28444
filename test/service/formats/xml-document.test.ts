/** Complete well-formed documents are accepted, everything else is rejected, while it streams through. */

import { isUtf8 } from 'node:buffer';
import { describe, expect, it } from 'vitest';
import { createXmlFormatCheck } from '../../../lib/service/formats/xml.ts';
import { anyCodePoint, cases, fc } from '../../support/property.ts';
import { bytewise, check as checkPage, cut, isAcceptedBySaxes } from '../../support/service/checked-pages.ts';

/** The result for a document in these pieces. */
function check(...pieces: readonly (string | Uint8Array)[]): { problem: string | undefined; reports: number | null } {
  const { problem, reports } = checkPage(createXmlFormatCheck, pieces);
  return { problem, reports };
}

const newCheck = () => createXmlFormatCheck({ paths: [], present: String });

describe('a document', () => {
  it.each([
    ['nested elements', '<a>', 'nested deeper'],
    ['attributes in one tag', ' b="1"', 'attributes in one tag', '<a'],
    ['a name', 'n', 'name longer', '<'],
    ['an entity name', 'n', 'name longer', '<a>&'],
    ['an instruction name', 'n', 'name longer', '<?'],
    ['a declaration', '1', 'name longer', '<?xml version="'],
  ])('is rejected at a limit, so that it needs bounded memory: %s', (_, filling, problem, opening = '') => {
    const xmlCheck = newCheck();
    xmlCheck.push(Buffer.from(opening));
    for (let sent = 0; sent < 40; sent += 1) xmlCheck.push(Buffer.from(filling.repeat(2_000)));
    expect(xmlCheck.end()).toContain(problem);
  });

  it('remains rejected, whatever follows', () => {
    const xmlCheck = newCheck();
    const first = xmlCheck.push(Buffer.from('<r></q>'));
    expect(first).toContain('near byte 7');
    expect(xmlCheck.push(Buffer.from('<r/>'))).toBe(first);
    expect(xmlCheck.end()).toBe(first);
  });
});

const name = fc.constantFrom('a', 'report', 'x:y', 'ß', '世', '_-.1');
const text = fc
  .string({ unit: anyCodePoint, maxLength: 12 })
  .map((raw) =>
    raw
      .replace(/[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '?')
      .replace(/[<&>]/g, (character) => ({ '<': '&lt;', '&': '&amp;' })[character] ?? '&#x3E;'),
  );
const plain = text.map((escaped) => escaped.replace(/[-&?\]]/g, '.'));
const attributes = fc
  .uniqueArray(fc.tuple(name, text), { selector: ([one]) => one, maxLength: 3 })
  .map((pairs) => pairs.map(([one, value]) => ` ${one}="${value.replaceAll('"', '&quot;')}"`).join(''));
const misc = fc.oneof(
  plain.map((content) => `<!--${content}-->`),
  plain.map((content) => `<?p ${content}?>`),
  fc.constantFrom(' ', '\n', '\r\n'),
);
const { element } = fc.letrec<{ element: string; content: string }>((tie) => ({
  element: fc.tuple(name, attributes, fc.array(tie('content'), { maxLength: 4 })).map(([one, given, inside]) => {
    return inside.length === 0 ? `<${one}${given} />` : `<${one}${given}>${inside.join('')}</${one} >`;
  }),
  content: fc.oneof(
    { maxDepth: 4 },
    text,
    misc,
    plain.map((content) => `<![CDATA[${content}<&]]>`),
    tie('element'),
  ),
}));
const childless = fc.oneof(
  text,
  misc,
  plain.map((content) => `<![CDATA[${content}]]>`),
);
const document = fc
  .record({
    declaration: fc.constantFrom('', '\uFEFF', '<?xml version="1.0"?>', '<?xml version="1.0" encoding="UTF-8"?>\n'),
    before: fc.array(misc, { maxLength: 2 }),
    children: fc.array(element, { maxLength: 5 }),
    between: fc.array(childless, { minLength: 6, maxLength: 6 }),
    trailing: fc.array(misc, { maxLength: 2 }),
  })
  .map(({ declaration, before, children, between, trailing }) => ({
    xml: `${declaration}${before.join('')}<root>${between[5]}${children
      .map((child, index) => child + between[index])
      .join('')}</root>${trailing.join('')}`,
    children: children.length,
  }));

describe('any document', () => {
  it('is accepted and its reports counted, however it is cut', () => {
    fc.assert(
      fc.property(document, fc.array(fc.nat(), { maxLength: 20 }), ({ xml, children }, seeds) => {
        expect(check(...cut(Buffer.from(xml), seeds))).toEqual({ problem: undefined, reports: children });
        expect(check(...bytewise(xml))).toEqual({ problem: undefined, reports: children });
      }),
    );
  });

  it('is rejected when it is truncated inside its root', () => {
    fc.assert(
      fc.property(document, fc.nat(), ({ xml }, seed) => {
        const bytes = Buffer.from(xml);
        const end = bytes.lastIndexOf('</root>') + '</root>'.length;
        expect(check(bytes.subarray(0, seed % end)).problem).toBeDefined();
      }),
    );
  });

  it('with errors in it is accepted or rejected as by saxes, at any chunk boundary', () => {
    const replacement = fc.constantFrom(...'<>&;"/?!-][ x\0'.split(''), '<a>', '</a>', ']]>');
    fc.assert(
      fc.property(
        document,
        fc.array(fc.record({ at: fc.nat(), instead: replacement, length: fc.nat(3) }), { minLength: 1, maxLength: 3 }),
        fc.array(fc.nat(), { maxLength: 20 }),
        ({ xml }, edits, seeds) => {
          const edited = edits.reduce((left, { at, instead, length }) => {
            const position = at % (left.length + 1);
            return left.slice(0, position) + instead + left.slice(position + length);
          }, xml);
          const bytes = Buffer.from(edited.toWellFormed());
          const isAccepted = isAcceptedBySaxes(bytes.toString());
          expect(check(...cut(bytes, seeds)).problem === undefined).toBe(isAccepted);
          expect(check(...bytewise(bytes)).problem === undefined).toBe(isAccepted);
        },
      ),
      { numRuns: cases(300) },
    );
  });

  it('with wrong bytes gets the verdict of the decoder and saxes', () => {
    const wrong = fc.constantFrom(0x00, 0x80, 0xbf, 0xc0, 0xc3, 0xe0, 0xed, 0xef, 0xf0, 0xf4, 0xf8, 0xff);
    fc.assert(
      fc.property(document, fc.nat(), wrong, fc.boolean(), fc.array(fc.nat()), ({ xml }, at, byte, more, seeds) => {
        const bytes = Array.from(Buffer.from(xml));
        const edited = Buffer.from(bytes.toSpliced(at % bytes.length, more ? 0 : 1, byte));
        const isAccepted = isUtf8(edited) && isAcceptedBySaxes(edited.toString());
        expect(check(...cut(edited, seeds)).problem === undefined).toBe(isAccepted);
      }),
      { numRuns: cases(300) },
    );
  });
});

it('the root may have many attributes before its namespace', () => {
  const attributes = Array.from({ length: 500 }, (_, n) => ` a${n}=\t"${n}"\n`).join('');
  const xml = `<r\n${attributes} xmlns="urn:a"\n>x</r\n>`;
  for (const pieces of [[xml], bytewise(xml)]) {
    expect(checkPage(createXmlFormatCheck, pieces)).toMatchObject({ problem: undefined, rootName: '{urn:a}r' });
  }
});
