/** Values and reports at paths of an XML page. `xml-document.test.ts` tests which documents are accepted. */

import { describe, expect, it } from 'vitest';
import { createXmlFormatCheck } from '../../../lib/service/formats/xml.ts';
import { cases, fc } from '../../support/property.ts';
import { bytewise, check as checkPage, type Checked, cut, damage } from '../../support/service/checked-pages.ts';

const check = (document: string, paths: readonly string[], reports?: string): Checked => {
  const result = checkPage(createXmlFormatCheck, [document], { paths, reports });
  const bytewiseResult = checkPage(createXmlFormatCheck, bytewise(document), { paths, reports });
  expect(bytewiseResult.problem ?? bytewiseResult).toEqual(result.problem ?? result);
  return result;
};

const s3Page =
  '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>true</IsTruncated>' +
  '<Contents><Key>a</Key></Contents><Contents><Key>b</Key></Contents><NextContinuationToken>1+2/=</NextContinuationToken></ListBucketResult>';
const atomPage =
  '<a:feed xmlns:a="http://www.w3.org/2005/Atom"><a:link rel="self" href="/1"/><a:link href="/2?a=1&amp;b=2" rel="next"/>' +
  '<a:entry><a:link rel="next" href="/no"/></a:entry></a:feed>';
const oaiPage =
  '<OAI-PMH><ListRecords><record/><record/><resumptionToken completeListSize="2"/></ListRecords></OAI-PMH>';

describe('reports', () => {
  it.each([
    ['at a path', s3Page, '/ListBucketResult/Contents', 2],
    ['in an element, whatever their name', oaiPage, '/OAI-PMH/ListRecords/*', 3],
    ['whatever their prefix', atomPage, '/feed/entry', 1],
    ['with an attribute', atomPage, '/feed/link[@rel="next"]', 1],
    ['none', '<feed><link/></feed>', '/feed/entry', 0],
    ['without their container', '<OAI-PMH><error code="x"/></OAI-PMH>', '/OAI-PMH/ListRecords/record', null],
    ['without the root', '<Error><entry/></Error>', '/feed/entry', null],
    ['in several containers', '<r><l><i/></l><l><i/><i/></l></r>', '/r/l/i', 3],
    ['not inside others of the same name', '<r><r><r/></r><r/></r>', '/r/r', 2],
    ['as children of the root', s3Page, undefined, 4],
    ['at a path, in a document with declarations', '<!DOCTYPE r [<!ELEMENT i ANY>]><r><i/></r>', '/r/i', 1],
  ])('are counted: %s', (_, document, path, reports) => {
    expect(check(document, [], path)).toMatchObject({ problem: undefined, reports });
  });
});

describe('the value at a path', () => {
  it.each([
    ['the text of an element', s3Page, '/ListBucketResult/NextContinuationToken', '1+2/='],
    ['an attribute, with references decoded once', atomPage, '/feed/link[@rel=next]/@href', '/2?a=1&b=2'],
    ['an attribute of the root', '<r next="a"/>', '/r/@next', 'a'],
    ['an attribute with a prefix', '<r x:next="a" xmlns:next="b"/>', '/r/@next', 'a'],
    ['an empty element', oaiPage, '/OAI-PMH/ListRecords/resumptionToken', ''],
    ['text with references decoded once', '<r><n>&amp;lt;&#x41;&#66;</n></r>', '/r/n', '&lt;AB'],
    [
      'text with CDATA, comments and instructions',
      '<r><n>a<![CDATA[<b>&amp;]]]]><!-- no --><?no no?>c</n></r>',
      '/r/n',
      'a<b>&amp;]]c',
    ],
    ['the text of all elements inside', '<r><n>a<b>c<d/></b>e</n></r>', '/r/n', 'ace'],
    ['text with its blanks', '<r><n>\n a\r\n </n></r>', '/r/n', '\n a\n '],
    ['the text of an element selected in quotes', `<r><l a="x/y]">1</l></r>`, `/r/l[@a='x/y]']`, '1'],
    ['in a document whose DOCTYPE only names the root', `<!-- "[' --><!DOCTYPE r\n><r n="a"/>`, '/r/@n', 'a'],
    ['text that is not in ASCII', '<отчёты><n>ä😀</n></отчёты>', '/отчёты/n', 'ä😀'],
  ])('is %s', (_, document, path, text) => {
    const expected = { parent: true, type: 'string', text };
    expect(check(document, [path])).toMatchObject({ problem: undefined, values: [expected] });
  });

  it.each([
    ['is missing', '<r><m/></r>', '/r/n', true],
    ['stands elsewhere', '<r><m><n/></m><n2/></r>', '/r/n', true],
    ['is in no selected element', '<r><link rel="prev" href="a"/></r>', '/r/link[@rel=next]/@href', true],
    ['has no parent', '<r><other/></r>', '/r/meta/n', false],
    ['is in another root', '<Error><n>1</n></Error>', '/r/n', false],
    ['is an attribute that is missing', '<r/>', '/r/@n', true],
  ])('is not found if it %s', (_, document, path, parent) => {
    expect(check(document, [path]).values).toEqual([{ parent }]);
  });

  it('is found for each of several paths, in a document with reports', () => {
    const { values, reports, problem } = check(
      s3Page,
      ['/ListBucketResult/NextContinuationToken', '/ListBucketResult/IsTruncated', '/ListBucketResult'],
      '/ListBucketResult/Contents',
    );
    expect(problem).toBeUndefined();
    expect(values.map(({ text }) => text)).toEqual(['1+2/=', 'true', 'trueab1+2/=']);
    expect(reports).toBe(2);
  });

  it.each([
    ['there are two', '<r><n>1</n><n>1</n></r>', '/r/n', 'two values at /r/n'],
    ['there are two in different parents', '<r><m><n/></m><m><n/></m></r>', '/r/m/n', 'two values'],
    ['two attributes have the same local name', '<r n="1" x:n="2"/>', '/r/@n', 'two values'],
    [
      'the selected element lacks the attribute',
      '<r><l rel="next"/></r>',
      '/r/l[@rel=next]/@href',
      'has no attribute href',
    ],
    [
      'an entity may stand for its element',
      '<!DOCTYPE r [<!ENTITY e "<n>1</n>">]><r>&e;</r>',
      '/r/n',
      'the DOCTYPE has declarations',
    ],
    [
      'it may be a default',
      `<!-- ${'x'.repeat(9_000)}"[ --><!DOCTYPE r [<!ATTLIST r n CDATA '1'>]><r/>`,
      '/r/@n',
      'has declarations',
    ],
    ['an external DTD may declare it', '<!DOCTYPE r SYSTEM "r.dtd"><r/>', '/r/@n', 'has declarations'],
    ['a public DTD may declare it', `<!DOCTYPE r PUBLIC '-//r' 'r.dtd'\n><r/>`, '/r/@n', 'has declarations'],
    ['an entity is in it', '<!DOCTYPE r><r><n>&e;</n></r>', '/r/n', 'undefined entity'],
    ['an entity is in the attribute', '<!DOCTYPE r><r n="&e;"/>', '/r/@n', 'undefined entity'],
  ])('is rejected if %s', (_, document, path, problem) => {
    expect(check(document, [path]).problem).toContain(problem);
  });

  it.each([
    ['element', `<r><n>${'x'.repeat(70_000)}</n></r>`, '/r/n'],
    ['element, in parts', `<r><n>${`${'x'.repeat(1_000)}<b/>`.repeat(70)}</n></r>`, '/r/n'],
    ['attribute', `<r n="${'x'.repeat(70_000)}"/>`, '/r/@n'],
  ])('is rejected if it is longer than 64 KiB: %s', (_, document, path) => {
    expect(checkPage(createXmlFormatCheck, [document], { paths: [path] }).problem).toMatch(/too long|value longer/);
  });

  it.each(['/', 'r', '/r//n', '/r/', '/r/@n/m', '/r[@a]', '/r[1]', '//n'])('has a path: %s has none', (path) => {
    expect(() => createXmlFormatCheck({ paths: [path], present: String })).toThrow('not a path');
  });
});

interface Element {
  readonly name: string;
  readonly attribute: string | undefined;
  readonly text: string;
  readonly children: readonly Element[];
}
const name = fc.constantFrom('a', 'b', 'p:a', 'q:b', 'ß');
const text = fc.string({ unit: fc.constantFrom('a', '<', '&', '"', ']', '>', ' ', '\n', 'ä', '😀'), maxLength: 5 });
const { element } = fc.letrec<{ element: Element }>((tie) => ({
  element: fc.record({
    name,
    attribute: fc.option(text, { nil: undefined }),
    text,
    children: fc.oneof({ maxDepth: 3 }, fc.constant([]), fc.array(tie('element'), { maxLength: 4 })),
  }),
}));
const escape = (raw: string) => raw.replace(/[<&>"\n]/g, (character) => `&#${character.charCodeAt(0)};`);
function xmlOf({ name: tag, attribute, text: content, children }: Element): string {
  const given = attribute === undefined ? '' : ` x='no' n="${escape(attribute)}"`;
  const raw = content.includes(']]>') || content.length % 2 === 0 ? escape(content) : `<![CDATA[${content}]]>`;
  return `<${tag}${given}>${raw}<!-- & -->${children.map(xmlOf).join('')}</${tag}>`;
}

describe('any XML document', () => {
  const localName = (tag: string) => tag.replace(/^.*:/, '');
  const select = (elements: readonly Element[], step: string) => elements.filter((one) => localName(one.name) === step);
  const textOf = (one: Element): string => one.text + one.children.map(textOf).join('');

  it('has the values and reports of its tree, however it is cut', () => {
    const path = fc.array(fc.constantFrom('a', 'b', 'ß'), { minLength: 2, maxLength: 3 });
    fc.assert(
      fc.property(element, path, fc.array(fc.nat(), { maxLength: 10 }), (root, steps, seeds) => {
        const parents = steps
          .slice(0, -1)
          .reduce<readonly Element[]>(
            (found, step, depth) => select(depth === 0 ? [root] : found.flatMap(({ children }) => children), step),
            [],
          );
        const found = select(
          parents.flatMap(({ children }) => children),
          steps.at(-1) ?? '',
        );
        const attributes = found.flatMap(({ attribute }) => attribute ?? []);
        const at = `/${steps.join('/')}`;
        const xml = xmlOf(root);
        for (const pieces of [[xml], bytewise(xml), cut(Buffer.from(xml), seeds)]) {
          const { reports } = checkPage(createXmlFormatCheck, pieces, { reports: at });
          expect(reports).toBe(parents.length === 0 ? null : found.length);
          const results: [string, string[]][] = [
            [at, found.map(textOf)],
            [`${at}/@n`, attributes],
          ];
          for (const [one, texts] of results) {
            const { problem, values } = checkPage(createXmlFormatCheck, pieces, { paths: [one] });
            const [value] = values;
            expect(problem === undefined ? value?.text : problem.replace(/, near byte [\d,]+$/, '')).toBe(
              texts.length > 1 ? `there are two values at ${one}` : texts[0],
            );
          }
        }
      }),
      { numRuns: cases(300) },
    );
  });

  it('with errors in it is accepted or rejected with paths as without', () => {
    const wrong = fc.constantFrom('', '<', '>', '&', '/', '"', ']]>', '<a>', '</a>', '&x;', '\0', '-');
    fc.assert(
      fc.property(element, fc.nat(), wrong, (root, seed, replacement) => {
        const damaged = damage(xmlOf(root), seed, replacement);
        const withoutPaths = checkPage(createXmlFormatCheck, [damaged]);
        const { problem } = checkPage(createXmlFormatCheck, [damaged], { reports: '/a/a' });
        // Where a problem is noticed depends on the pieces that the parser reads.
        const place = /, near byte [\d,]+$/;
        expect(problem?.replace(place, '')).toBe(withoutPaths.problem?.replace(place, ''));
      }),
      { numRuns: cases(1_000) },
    );
  });
});
