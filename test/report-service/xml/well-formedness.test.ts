/** Whole well-formed documents, told from all else while they stream by. */

import { isUtf8 } from 'node:buffer';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { cases, fc } from '../../support/property.ts';
import { SaxesParser } from 'saxes';
import { describe, expect, it } from 'vitest';
import { generatedReportXml } from '../../../lib/report-service/simulator/generated-reports.ts';
import { createFastPath } from '../../../lib/report-service/xml/fast-path.ts';
import { createXmlCheck } from '../../../lib/report-service/xml/well-formedness.ts';

/** What the check says of a document that comes in these pieces. */
function checked(...pieces: readonly (string | Uint8Array)[]): { problem: string | undefined; reports: number } {
  const check = createXmlCheck();
  for (const piece of pieces) check.push(Buffer.from(piece));
  return { problem: check.end(), reports: check.reports };
}

const bytewise = (document: string | Uint8Array) => Array.from(Buffer.from(document), (byte) => Uint8Array.of(byte));

describe('a whole document', () => {
  it.each([
    ['the contract’s own', '<?xml version="1.0" encoding="UTF-8"?><reports><report/><report>x</report></reports>', 2],
    ['nothing but a root', '<r/>', 0],
    ['with a byte order mark', '\uFEFF<?xml version="1.0"?><r><a/></r>', 1],
    ['in US-ASCII, which is UTF-8 too', "<?xml version='1.0' encoding='us-ascii'?><r>plain</r>", 0],
    ['in a lower-case utf-8', '<?xml version="1.0" encoding="utf-8" standalone="yes"?><r>ä</r>', 0],
    ['with nested reports, of which only the root’s children count', '<r><a><a/><a><a/></a></a><b/>text<c/></r>', 3],
    ['with CDATA, comments and instructions full of tags', '<r><!-- <a/> --><![CDATA[<a/>]]><?p <a/>?><a/></r>', 1],
    ['with namespaces, bound or not', '<x:r xmlns:x="u"><x:a/><y:b/></x:r>', 2],
    ['with comments and blanks around the root', '<!-- a -->\n<?p?>\n<r/>\n<!-- z -->\n', 0],
    ['in XML 1.1', '<?xml version="1.1"?><r>&#1;<a/></r>', 1],
    [
      'with a DTD that may declare its entities',
      '<!DOCTYPE r [<!ENTITY who "Ann"><!-- ]> -->]><r a="&who;">&who;&other;<a/></r>',
      1,
    ],
    [
      'with references wherever they may stand',
      '<r a="&lt;&#9;\'">&amp;&gt;&apos;&quot;&#x10FFFF;&#00000032;<a/></r>',
      1,
    ],
    ['with what only looks like an end', '<r>]] ]]] ]&gt; ><!-- - -> ]]> --><![CDATA[ ] ]] > -- --> ]]]></r>', 0],
    [
      'with the last characters there are',
      '<r a="\uFFFD">\u007F\uE000\uFFFD\u{10FFFF}<!--\uFFFD--><![CDATA[\uFFFD]]></r>',
      0,
    ],
    ['with blanks wherever they may stand', "<r\n><a\t\nb = 'x'\r\nc= \"'\" \n/><d\r\n></d \t></r\n>", 2],
    [
      'with entities that would grow without end',
      '<!DOCTYPE r [<!ENTITY a "&b;&b;"><!ENTITY b "&a;&a;">]><r>&a;<a/></r>',
      1,
    ],
    ['with an instruction that begins like the declaration', '<?xml-stylesheet href="a"?><r/>', 0],
  ])('is good: %s', (_, document, reports) => {
    expect(checked(document)).toEqual({ problem: undefined, reports });
    expect(checked(...bytewise(document))).toEqual({ problem: undefined, reports });
  });
});

describe('anything else', () => {
  it.each([
    ['nothing', '', 'the body is empty'],
    ['nothing but blanks', '  \n', 'root element'],
    ['nothing but a declaration', '<?xml version="1.0"?>', 'root element'],
    ['an end that is missing', '<r>\n<a></a>\n', 'byte 12: unclosed tag: r'],
    ['a tag that breaks off', '<r><a', 'unclosed tag'],
    ['a comment that breaks off', '<r/><!-- ', 'unexpected end'],
    ['two roots', '<r/><r/>', 'byte 7: documents may contain only one root'],
    ['text behind the root', '<r/>x', 'text data outside of root'],
    ['text before the root', 'x<r/>', 'text data outside of root'],
    ['blanks before the declaration', ' <?xml version="1.0"?><r/>', 'declaration'],
    ['two byte order marks', '\uFEFF\uFEFF<r/>', 'text data outside of root'],
    ['tags that cross', '<r><a></r></a>', 'unexpected close tag'],
    ['one attribute twice', '<r a="1" a="2"/>', 'duplicate attribute'],
    ['an attribute with a tag in it', '<r a="<"/>', 'disallowed character'],
    ['a bare ampersand', '<r>a & b</r>', 'unclosed tag'],
    ['an entity with a blank in it', '<r>a & b;</r>', 'entity name'],
    ['an entity nobody declares', '<r>&nbsp;</r>', 'undefined entity'],
    ['an entity named like a method', '<r>&constructor;</r>', 'undefined entity'],
    ['a character XML has not', '<r>&#0;</r>', 'malformed character entity'],
    ['a control character', '<r>\u0001</r>', 'disallowed character'],
    ['the end of CDATA without its beginning', '<r>]]></r>', ']]>'],
    ['the same behind another bracket', '<r><a>x]]]></a></r>', ']]>'],
    ['a comment with two dashes in it', '<r><!-- -- --></r>', 'comment'],
    ['a comment that ends in three', '<r><!-- ---></r>', 'comment'],
    ['a comment that breaks off inside', '<r><a><!-- x', 'unclosed tag'],
    ['a section that breaks off inside', '<r><a><![CDATA[x]]', 'unclosed tag'],
    ['a control character in a comment', '<r><!-- \u0001 --></r>', 'disallowed character'],
    ['a control character in a section', '<r><a><![CDATA[\u0001]]></a></r>', 'disallowed character'],
    ['a control character in a value', '<r><a b="\u0001"/></r>', 'disallowed character'],
    ['what is no character, in text', '<r><a>\uFFFE</a></r>', 'disallowed character'],
    ['what is no character, in a value', '<r><a b="\uFFFF"/></r>', 'disallowed character'],
    ['what is no character, in a comment', '<r><!--\uFFFF--></r>', 'disallowed character'],
    ['what is no character, in a section', '<r><![CDATA[\uFFFE]]></r>', 'disallowed character'],
    ['a reference to what is no character', '<r><a>&#xFFFE;</a></r>', 'malformed character entity'],
    ['a reference to half a character', '<r><a b="&#xD800;"/></r>', 'malformed character entity'],
    ['a reference with a capital X', '<r><a>&#X41;</a></r>', 'malformed character entity'],
    ['a reference without an end', '<r><a b="&amp"/></r>', 'unclosed tag'],
    ['a hexadecimal digit too much', '<r>&#1A;</r>', 'malformed character entity'],
    ['an attribute twice, with one between', '<r><a b="" c="" b=""/></r>', 'duplicate attribute'],
    ['an attribute without a value', '<r><a b/></r>', 'disallowed character in attribute name'],
    ['an attribute without quotes', '<r><a b=c/></r>', 'unquoted attribute value'],
    ['attributes without a blank between', '<r><a b="1"c="2"/></r>', 'no whitespace between attributes'],
    ['a tag in a value', '<r><a b="<"/></r>', 'disallowed character'],
    ['a blank before a name', '<r>< a/></r>', 'disallowed character'],
    ['a slash that closes nothing', '<r><a / ></r>', 'forward-slash'],
    ['an end tag of a longer name', '<r><a></ab></r>', 'unexpected close tag'],
    ['an end tag of a shorter name', '<r><ab></a></r>', 'unexpected close tag'],
    ['an end tag with an attribute', '<r><a></a b="1"></r>', 'disallowed character'],
    ['an end that is one too many', '<r><a/></a></r>', 'unexpected close tag'],
    [
      'a character cut in half inside',
      Uint8Array.from(Array.from(Buffer.from('<r><a>ä</a></r>')).toSpliced(7, 1)),
      'not UTF-8',
    ],
    ['another encoding', '<?xml version="1.0" encoding="ISO-8859-1"?><r/>', 'declares the encoding ISO-8859-1'],
    ['UTF-16, whatever it declares', Buffer.from('\uFEFF<r/>', 'utf16le'), 'not UTF-8'],
    ['Latin-1', Buffer.from('<r>\n  ä</r>', 'latin1'), 'not UTF-8'],
    ['a character cut in half at the end', Buffer.from('<r/>ä').subarray(0, -1), 'in the middle of a character'],
    ['US-ASCII that is none', '<?xml version="1.0" encoding="US-ASCII"?><r>ä</r>', 'US-ASCII'],
    ['HTML', '<!DOCTYPE html><html><br><p>Sorry</html>', 'unexpected close tag'],
    ['JSON', '{"reports":[]}', 'text data outside of root'],
  ])('is not: %s', (_, document, problem) => {
    expect(checked(document).problem).toContain(problem);
    expect(checked(...bytewise(document)).problem).toBeDefined();
  });

  it('stays what it is, whatever comes behind', () => {
    const check = createXmlCheck();
    const first = check.push(Buffer.from('<r></q>'));
    expect(first).toContain('byte 7');
    expect(check.push(Buffer.from('<r/>'))).toBe(first);
    expect(check.end()).toBe(first);
  });
});

/** A document as text, with how many children its root has. */
const name = fc.constantFrom('a', 'report', 'x:y', 'ß', '世', '_-.1');
const text = fc
  .string({ unit: 'binary', maxLength: 12 })
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
    behind: fc.array(misc, { maxLength: 2 }),
  })
  .map(({ declaration, before, children, between, behind }) => ({
    xml: `${declaration}${before.join('')}<root>${between[5]}${children
      .map((child, index) => child + between[index])
      .join('')}</root>${behind.join('')}`,
    children: children.length,
  }));

/** `bytes` cut at places that `seeds` choose. */
function cut(bytes: Buffer, seeds: readonly number[]): Buffer[] {
  const edges = [0, ...seeds.map((seed) => seed % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length];
  return edges.slice(1).map((end, index) => bytes.subarray(edges[index], end));
}

describe('any document', () => {
  it('is good and counts the root’s children, however it is cut', () => {
    fc.assert(
      fc.property(document, fc.array(fc.nat(), { maxLength: 20 }), ({ xml, children }, seeds) => {
        expect(checked(...cut(Buffer.from(xml), seeds))).toEqual({ problem: undefined, reports: children });
        expect(checked(...bytewise(xml))).toEqual({ problem: undefined, reports: children });
      }),
    );
  });

  it('is never taken for whole when it is cut off inside its root', () => {
    fc.assert(
      fc.property(document, fc.nat(), ({ xml }, seed) => {
        const bytes = Buffer.from(xml);
        const end = bytes.lastIndexOf('</root>') + '</root>'.length;
        expect(checked(bytes.subarray(0, seed % end)).problem).toBeDefined();
      }),
    );
  });

  it('with a slip in it is judged as saxes judges it whole, however it is cut', () => {
    const slip = fc.constantFrom(
      '<',
      '>',
      '&',
      ';',
      '"',
      '/',
      '?',
      '!',
      '-',
      ']',
      '[',
      ' ',
      'x',
      '\0',
      '<a>',
      '</a>',
      ']]>',
    );
    fc.assert(
      fc.property(
        document,
        fc.array(fc.record({ at: fc.nat(), instead: slip, length: fc.nat(3) }), { minLength: 1, maxLength: 3 }),
        fc.array(fc.nat(), { maxLength: 20 }),
        ({ xml }, slips, seeds) => {
          const spoilt = slips.reduce((left, { at, instead, length }) => {
            const place = at % (left.length + 1);
            return left.slice(0, place) + instead + left.slice(place + length);
          }, xml);
          const bytes = Buffer.from(spoilt.toWellFormed());
          const good = isGoodForSaxes(bytes.toString());
          expect(checked(...cut(bytes, seeds)).problem === undefined).toBe(good);
          expect(checked(...bytewise(bytes)).problem === undefined).toBe(good);
        },
      ),
      { numRuns: cases(300) },
    );
  });
});

/** Made of what pages are made of, with as many slips as there are places for them. */
const usual = fc
  .array(
    fc.constantFrom(
      '<a>',
      '</a>',
      '<report-1 >',
      '</report-1\n>',
      '<_:b/>',
      '<c d="1" e=\'"\'>',
      '</c>',
      '<c d="1"d="1"/>',
      '<f g = "&quot;" h="]]>"/>',
      '<f\tg="1" h="2" g="3"/>',
      '<a b="<"/>',
      '<a b=""',
      '/>',
      '>',
      '<',
      '</',
      '/',

      '&amp;',
      '&lt;',
      '&#10;',
      '&#xd7FF;',
      '&#xD800;',
      '&#x110000;',
      '&#1114111;',
      '&am',
      'p;',
      '&',
      ';',
      '&nbsp;',

      '<!--',
      '-->',
      '-',
      '--',
      '<!-- x -->',
      '<![CDATA[',
      ']]>',
      ']',
      ']]',
      '<![CDATA[<&]]]>',
      '<!',
      '<?p?>',
      '<!D',

      'text',
      ' ',
      '\r\n',
      'ä',
      '世界',
      '\u{1F600}',
      '\uFFFD',
      '\uFFFE',
      '\uFFFF',
      '\uEFBF',
      '\u007F',
      '\u0085',
      '\0',
      '"',
      "'",
      '=',
      'a="b"',
      'xml',
      '<ß>',
      '</ß>',
      '<a:b:c>',
      '</a:b:c>',
      '<1>',
      '<.>',
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(''));

describe('content', () => {
  it('of whatever parts is judged as saxes judges it whole, however it is cut', () => {
    fc.assert(
      fc.property(usual, fc.array(fc.nat(), { maxLength: 6 }), fc.boolean(), (content, seeds, isClosed) => {
        const bytes = Buffer.from(`<r>${content}${isClosed ? '</r>' : ''}`);
        const good = isGoodForSaxes(bytes.toString());
        expect(checked(...cut(bytes, seeds)).problem === undefined).toBe(good);
        expect(checked(bytes).problem === undefined).toBe(good);
        expect(checked(...bytewise(bytes)).problem === undefined).toBe(good);
      }),
      { numRuns: cases(2_000) },
    );
  });

  it('with bytes that are wrong is judged as the decoder and saxes judge it whole', () => {
    const wrong = fc.constantFrom(0x00, 0x80, 0xbf, 0xc0, 0xc3, 0xe0, 0xed, 0xef, 0xf0, 0xf4, 0xf8, 0xff);
    fc.assert(
      fc.property(document, fc.nat(), wrong, fc.boolean(), fc.array(fc.nat()), ({ xml }, at, byte, more, seeds) => {
        const bytes = Array.from(Buffer.from(xml));
        const spoilt = Buffer.from(bytes.toSpliced(at % bytes.length, more ? 0 : 1, byte));
        const good = isUtf8(spoilt) && isGoodForSaxes(spoilt.toString());
        expect(checked(...cut(spoilt, seeds)).problem === undefined).toBe(good);
      }),
      { numRuns: cases(300) },
    );
  });

  it('of several pages that come by turns is judged as that of each by itself', () => {
    const pages = fc.array(fc.tuple(usual, fc.array(fc.nat(), { minLength: 3, maxLength: 3 })), {
      minLength: 2,
      maxLength: 4,
    });
    fc.assert(
      fc.property(pages, (given) => {
        const documents = given.map(([content, seeds]) => cut(Buffer.from(`<r><a>${content}</a></r>`), seeds));
        const alone = documents.map((pieces) => checked(...pieces));
        const checks = documents.map(() => createXmlCheck());
        for (let loop = 0; loop < 4; loop += 1) {
          for (const [index, check] of checks.entries()) check.push(documents[index]?.[loop] ?? Buffer.of());
        }
        expect(checks.map((check) => ({ problem: check.end(), reports: check.reports }))).toEqual(alone);
      }),
      { numRuns: cases(1_000) },
    );
  });

  it('of a usual page is read without the parser, however it is cut', () => {
    const page = Buffer.from(Array.from({ length: 200 }, (_, k) => generatedReportXml(1, k, `R-${k}`, 0)).join(''));
    for (const pieceBytes of [1, 7, 1_000, 64 * 1024, page.length]) {
      const content = createFastPath();
      for (let from = 0; from < page.length; from += pieceBytes) {
        expect(content.push(page.subarray(from, from + pieceBytes))).toBeUndefined();
      }
    }
    const content = createFastPath();
    expect(content.push(page)).toBeUndefined();
    expect(content.reports()).toBe(200);
    expect(content.openTags()).toBe('');
    expect(content.rest()).toHaveLength(0);
  });

  it('that is cut within an attribute’s name is read on, whatever names came before', () => {
    const tag = '<v f="1" f1="2" ff="3"/>';
    for (let at = 1; at < tag.length; at += 1) {
      const content = createFastPath();
      expect(content.push(Buffer.from(tag.slice(0, at)))).toBeUndefined();
      expect({ at, left: content.push(Buffer.from(`${tag.slice(at)}${' '.repeat(50)}`)) }).toEqual({
        at,
        left: undefined,
      });
    }
  });

  it('that the parser must go on with is told to it as it stands', () => {
    const content = createFastPath();
    expect(content.push(Buffer.from('<a><b c="d">x<![CDATA[y'))).toBeUndefined();
    expect(content.openTags()).toBe('<a><b><![CDATA[');
    expect(content.push(Buffer.from(']]><?p?></b></a>'))?.toString()).toBe('<?p?></b></a>');
    expect(content.openTags()).toBe('<a><b>');
  });
});

/** saxes by itself, given the document in one piece: nothing gathered in it is let go of. */
function isGoodForSaxes(whole: string): boolean {
  const parser = new SaxesParser();
  let good = true;
  let hasDoctype = false;
  parser.on('doctype', () => {
    hasDoctype = true;
  });
  parser.on('xmldecl', ({ encoding = 'utf-8' }) => {
    good &&= encoding.toLowerCase() === 'utf-8';
  });
  parser.on('error', ({ message }) => {
    good &&= hasDoctype && message.endsWith('undefined entity.');
  });
  parser.write(whole).close();
  return good;
}

describe('memory', () => {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const heapUsed = () => {
    collectGarbage();
    return process.memoryUsage().heapUsed;
  };
  const mebibyte = 1024 * 1024;

  it.each([
    ['a CDATA section', '<r><![CDATA[', 64, ']]></r>'],
    ['a comment', '<r><!-- ', 16, '--></r>'],
    ['an instruction', '<r><?p ', 16, '?></r>'],
    ['an instruction ahead of the root', '<?p ', 16, '?><r/>'],
    ['text', '<r>', 16, '</r>'],
    ['an attribute', '<r a="', 16, '"/>'],
    ['a DTD', '<!DOCTYPE r [<!-- ', 16, '-->]><r/>'],
    ['blanks inside a tag', '<r', 16, '/>', ' '],
  ])(
    'does not grow with %s',
    (_, opening, mebibytes, closing, filling = 'all work and no play makes Jack a dull boy\n') => {
      const check = createXmlCheck();
      const piece = Buffer.from(filling.repeat(Math.floor((64 * 1024) / filling.length)));
      const before = heapUsed();
      check.push(Buffer.from(opening));
      for (let sent = 0; sent < mebibytes * mebibyte; sent += piece.length) check.push(piece);
      // All of it has gone by and nothing is closed yet, so whatever is gathered is held now.
      expect(heapUsed() - before).toBeLessThan((mebibytes * mebibyte) / 8);
      check.push(Buffer.from(closing));
      expect(check.end()).toBeUndefined();
    },
  );

  it('does not grow with the attributes of an open element', () => {
    const check = createXmlCheck();
    const value = 'x'.repeat(64 * 1024);
    const before = heapUsed();
    check.push(Buffer.from('<r'));
    for (let number = 0; number < 256; number += 1) check.push(Buffer.from(` a${number}="${value}"`));
    expect(heapUsed() - before).toBeLessThan(2 * mebibyte);
    check.push(Buffer.from('/>'));
    expect(check.end()).toBeUndefined();
  });

  it('does not grow with reports', () => {
    const check = createXmlCheck();
    const piece = Buffer.from('<report id="1" title="all work"><line>and no play</line></report>'.repeat(1_000));
    const before = heapUsed();
    check.push(Buffer.from('<r>'));
    for (let sent = 0; sent < 16 * mebibyte; sent += piece.length) check.push(piece);
    expect(heapUsed() - before).toBeLessThan(2 * mebibyte);
    check.push(Buffer.from('</r>'));
    expect(check.end()).toBeUndefined();
    expect(check.reports).toBe(Math.ceil((16 * mebibyte) / piece.length) * 1_000);
  });

  it.each([
    ['elements in elements', '<a>', 'nested deeper'],
    ['attributes in one tag', ' b="1"', 'attributes in one tag', '<a'],
    ['a name', 'n', 'name longer', '<'],
    ['an entity’s name', 'n', 'name longer', '<a>&'],
    ['an instruction’s name', 'n', 'name longer', '<?'],
    ['a declaration', '1', 'name longer', '<?xml version="'],
  ])('that would grow without bound is refused: %s', (_, filling, problem, opening = '') => {
    const check = createXmlCheck();
    check.push(Buffer.from(opening));
    for (let sent = 0; sent < 40; sent += 1) check.push(Buffer.from(filling.repeat(2_000)));
    expect(check.end()).toContain(problem);
  });
});
