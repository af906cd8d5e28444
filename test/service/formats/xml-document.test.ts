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

describe('a well-formed document', () => {
  it.each([
    [
      'as in the service contract',
      '<?xml version="1.0" encoding="UTF-8"?><reports><report/><report>x</report></reports>',
      2,
    ],
    ['with only a root', '<r/>', 0],
    ['with a byte order mark', '\uFEFF<?xml version="1.0"?><r><a/></r>', 1],
    ['in US-ASCII, a subset of UTF-8', "<?xml version='1.0' encoding='us-ascii'?><r>plain</r>", 0],
    ['in lower-case utf-8', '<?xml version="1.0" encoding="utf-8" standalone="yes"?><r>ä</r>', 0],
    ['with nested elements, of which only the root’s children count', '<r><a><a/><a><a/></a></a><b/>text<c/></r>', 3],
    [
      'with CDATA, comments and instructions that contain tags',
      '<r><!-- <a/> --><![CDATA[<a/>]]><?p <a/>?><a/></r>',
      1,
    ],
    ['with namespaces, bound or not', '<x:r xmlns:x="u"><x:a/><y:b/></x:r>', 2],
    ['with comments and blanks around the root', '<!-- a -->\n<?p?>\n<r/>\n<!-- z -->\n', 0],
    ['in XML 1.1', '<?xml version="1.1"?><r>&#1;<a/></r>', 1],
    [
      'with a DTD that may declare its entities',
      '<!DOCTYPE r [<!ENTITY who "Ann"><!-- ]> -->]><r a="&who;">&who;&other;<a/></r>',
      1,
    ],
  ])('is accepted: %s', (_, document, reports) => {
    expect(check(document)).toEqual({ problem: undefined, reports });
    expect(check(...bytewise(document))).toEqual({ problem: undefined, reports });
  });
});

describe('any other document', () => {
  it.each([
    ['nothing', '', 'the body is empty'],
    ['nothing but blanks', '  \n', 'root element'],
    ['nothing but a declaration', '<?xml version="1.0"?>', 'root element'],
    ['a missing end tag', '<r>\n<a></a>\n', 'unclosed tag: r'],
    ['a truncated tag', '<r><a', 'unclosed tag'],
    ['two roots', '<r/><r/>', 'documents may contain only one root, near byte 7'],
    ['text after the root', '<r/>x', 'text data outside of root'],
    ['text before the root', 'x<r/>', 'text data outside of root'],
    ['two byte order marks', '\uFEFF\uFEFF<r/>', 'text data outside of root'],
    ['overlapping elements', '<r><a></r></a>', 'unexpected close tag'],
    ['a duplicate attribute', '<r a="1" a="2"/>', 'duplicate attribute'],
    ['a `<` in an attribute', '<r a="<"/>', 'disallowed character'],
    ['a bare ampersand', '<r>a & b</r>', 'unclosed tag'],
    ['an undeclared entity', '<r>&nbsp;</r>', 'undefined entity'],
    ['a control character', '<r>\u0001</r>', 'disallowed character'],
    [
      'half a character inside',
      Uint8Array.from(Array.from(Buffer.from('<r><a>ä</a></r>')).toSpliced(7, 1)),
      'not UTF-8',
    ],
    ['another encoding', '<?xml version="1.0" encoding="ISO-8859-1"?><r/>', 'declares the encoding ISO-8859-1'],
    ['UTF-16', Buffer.from('\uFEFF<r/>', 'utf16le'), 'not UTF-8'],
    ['Latin-1', Buffer.from('<r>\n  ä</r>', 'latin1'), 'not UTF-8'],
    ['half a character at the end', Buffer.from('<r/>ä').subarray(0, -1), 'in the middle of a character'],
    ['US-ASCII with other characters', '<?xml version="1.0" encoding="US-ASCII"?><r>ä</r>', 'US-ASCII'],
    ['HTML', '<!DOCTYPE html><html><br><p>Sorry</html>', 'unexpected close tag'],
  ])('is rejected: %s', (_, document, problem) => {
    expect(check(document).problem).toContain(problem);
    expect(check(...bytewise(document)).problem).toBeDefined();
  });

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

describe('the root', () => {
  const rootOf = (...pieces: readonly (string | Uint8Array)[]): string | null => {
    const { problem, rootName } = checkPage(createXmlFormatCheck, pieces);
    expect(problem).toBeUndefined();
    return rootName;
  };

  it.each([
    ['without a namespace', '<reports/>', 'reports'],
    ['without content', '<reports></reports>', 'reports'],
    ['in a default namespace', '<reports xmlns="urn:a"><report/></reports>', '{urn:a}reports'],
    ['with a prefix', '<a:reports xmlns:a="urn:a" xmlns="urn:b" xmlns:b="urn:c"/>', '{urn:a}reports'],
    ['with another prefix', "<b:reports b:x='' xmlns:b = 'urn:a'>x</b:reports>", '{urn:a}reports'],
    ['with a default namespace that its prefix does not use', '<a:r xmlns="urn:b" xmlns:a="urn:a"/>', '{urn:a}r'],
    [
      'whose children are in other namespaces',
      '<r xmlns="urn:a"><x xmlns="urn:b"/><y:r xmlns:y="urn:c"/></r>',
      '{urn:a}r',
    ],
    ['without a namespace, although its children have one', '<r><x xmlns="urn:b"/></r>', 'r'],
    ['with an empty namespace', '<r xmlns=""/>', 'r'],
    ['with a prefix that nothing declares', '<a:reports/>', 'a:reports'],
    ['with a prefix that only a child declares', '<a:r><x xmlns:a="urn:a"/></a:r>', 'a:r'],
    ['with references in its namespace', '<r xmlns="urn:&#97;&amp;&#x62;"/>', '{urn:a&b}r'],
    ['after a byte order mark and a declaration', '\uFEFF<?xml version="1.0"?><r xmlns="urn:a"/>', '{urn:a}r'],
    ['after comments and instructions', '<!-- <no/> --><?no <no/>?>\n<r/><!-- <no/> -->', 'r'],
    [
      'after a DTD',
      '<!DOCTYPE html [<!ELEMENT no ANY>]><html xmlns="http://www.w3.org/1999/xhtml"/>',
      '{http://www.w3.org/1999/xhtml}html',
    ],
    ['not in ASCII', '<отчёты xmlns="urn:ä"/>', '{urn:ä}отчёты'],
    [
      'with many attributes and blanks',
      `<r\n${Array.from({ length: 500 }, (_, n) => ` a${n}=\t"${n}"\n`).join('')} xmlns="urn:a"\n>x</r\n>`,
      '{urn:a}r',
    ],
    ['of 50,000 characters', `<r xmlns="${'n'.repeat(50_000)}"/>`, `{${'n'.repeat(50_000)}}r`],
  ])('is the name of the root element with its namespace: %s', (_, xml, name) => {
    expect(rootOf(xml)).toBe(name);
    expect(rootOf(...bytewise(xml))).toBe(name);
  });
});
