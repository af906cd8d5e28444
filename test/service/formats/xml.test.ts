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

it('a value is found for each of several paths, in a document with reports', () => {
  const { values, reports, problem } = check(
    s3Page,
    ['/ListBucketResult/NextContinuationToken', '/ListBucketResult/IsTruncated', '/ListBucketResult'],
    '/ListBucketResult/Contents',
  );
  expect(problem).toBeUndefined();
  expect(values.map(({ text }) => text)).toEqual(['1+2/=', 'true', 'trueab1+2/=']);
  expect(reports).toBe(2);
});

it.each(['/', 'r', '/r//n', '/r/', '/r/@n/m', '/r[@a]', '/r[1]', '//n'])('%s is no path', (path) => {
  expect(() => createXmlFormatCheck({ paths: [path], present: String })).toThrow('not a path');
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
