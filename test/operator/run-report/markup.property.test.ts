import { expect } from 'vitest';
import { html, scriptSafeJson } from '../../../lib/operator/run-report/markup.ts';
import { fc, it } from '../../support/property.ts';

const specialCharacters = ['<', '>', '&', '"', "'", '`', '=', '/', '\\', '\u2028', '\u2029', '\0', '\n', ' '];
const text = fc
  .array(fc.oneof(fc.constantFrom(...specialCharacters), fc.string({ unit: 'binary' })))
  .map((parts) => parts.join(''));

const characters: Readonly<Record<string, string>> = {
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&#39;': "'",
  '&amp;': '&',
};

it.prop([text])('escapes text in an element and in an attribute', (value) => {
  const { html: markup } = html`<a title="${value}">${value}</a>`;
  const [, attribute = '', content = ''] = /^<a title="([^"<>]*)">([^"'<>]*)<\/a>$/.exec(markup) ?? [];
  expect(attribute).toBe(content);
  const decodedContent = content.replaceAll(/&[a-z0-9#]*;/g, (entity) => characters[entity] ?? entity);
  expect(decodedContent).toBe(value.replaceAll(/[\s\u2028\u2029]+/g, ' ').replaceAll(/\p{C}/gu, ''));
});

it.prop([fc.jsonValue(), text])(
  'embeds JSON in a script element unchanged, without ending the element',
  (value, key) => {
    const json = scriptSafeJson({ [key]: value, key });
    expect(json).not.toMatch(/[<>&\u2028\u2029]/);
    expect(JSON.parse(json)).toEqual(JSON.parse(JSON.stringify({ [key]: value, key })));
  },
);
