import { fc, it } from '@fast-check/vitest';
import { expect } from 'vitest';
import { html, scriptSafeJson } from '../../../lib/operator/run-report/markup.ts';

const trouble = ['<', '>', '&', '"', "'", '`', '=', '/', '\\', '\u2028', '\u2029', '\0', '\n', ' '];
const text = fc
  .array(fc.oneof(fc.constantFrom(...trouble), fc.string({ unit: 'binary' })))
  .map((parts) => parts.join(''));

const decoded: Readonly<Record<string, string>> = {
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&#39;': "'",
  '&amp;': '&',
};

it.prop([text])('text stays text, in an element and in an attribute', (words) => {
  const { html: markup } = html`<a title="${words}">${words}</a>`;
  const [, attribute = '', content = ''] = /^<a title="([^"<>]*)">([^"'<>]*)<\/a>$/.exec(markup) ?? [];
  expect(attribute).toBe(content);
  const shown = content.replaceAll(/&[a-z0-9#]*;/g, (entity) => decoded[entity] ?? entity);
  expect(shown).toBe(words.replaceAll(/[\s\u2028\u2029]+/g, ' ').replaceAll(/\p{C}/gu, ''));
});

it.prop([fc.jsonValue(), text])(
  'JSON comes out of a script element as it went in, and does not end it',
  (value, words) => {
    const json = scriptSafeJson({ [words]: value, words });
    expect(json).not.toMatch(/[<>&\u2028\u2029]/);
    expect(JSON.parse(json)).toEqual(JSON.parse(JSON.stringify({ [words]: value, words })));
  },
);
