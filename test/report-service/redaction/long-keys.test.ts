/** A key may be a token or a whole JSON document of thousands of characters, and may be wrapped into lines. */

import { randomBytes } from 'node:crypto';
import { describe, expect, it, vi } from 'vitest';
import { fixedApiKey } from '../../../lib/report-service/client/api-key.ts';
import { failure } from '../../../lib/report-service/client/errors.ts';
import { containsKey, maxOccurrenceLength, presentable, redact } from '../../../lib/report-service/redaction/redact.ts';
import { rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import { clientFor, expectNoKey, failureOf, pageRequest, readPage } from '../../support/service/service-client.ts';

/** A different token each time, so that nothing cached for another test's key applies. */
const token = (length: number) => `eyJ${randomBytes(length).toString('base64url')}`.slice(0, length);

/** A secret stored as JSON and sent as a whole: full of characters to escape and of consecutive backslashes. */
function jsonSecret(length: number): string {
  const fields = Object.entries({
    a: '"quoted" & <tagged> 100%41',
    path: 'C:\\x\\\\server',
    plus: '+ + x78 u0078 %25',
  });
  let text = '';
  while (text.length < length) text += JSON.stringify({ ...Object.fromEntries(fields), id: token(30) });
  return `${text.slice(0, length - 1)}}`;
}

const hex = (character: string) => character.charCodeAt(0).toString(16).padStart(2, '0');
const encodeEach = (key: string, encode: (character: string) => string) => Array.from(key, encode).join('');

const encodings: Readonly<Record<string, (key: string) => string>> = {
  plain: (key) => key,
  'in capitals': (key) => key.toUpperCase(),
  'in JSON': (key) => JSON.stringify(key).slice(1, -1),
  'in nested JSON': (key) => JSON.stringify(JSON.stringify(key)).slice(3, -3),
  'in JSON, each character': (key) => encodeEach(key, (character) => `\\u00${hex(character)}`),
  'in a URL': encodeURIComponent,
  'in a form': (key) => new URLSearchParams({ key }).toString().slice(4),
  'in a URL, each character, twice': (key) => encodeEach(key, (character) => `%25${hex(character)}`),
  'in HTML': (key) => key.replaceAll(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`),
  'in HTML, each character': (key) => encodeEach(key, (character) => `&#x00${hex(character)};`),
  'in hexadecimal': (key) => Buffer.from(key).toString('hex').toUpperCase(),
  'in Base64': (key) => Buffer.from(`${key}::`).toString('base64'),
  'in Base64, after one character': (key) => Buffer.from(`:${key}:::`).toString('base64'),
  'in Base64, after two characters': (key) => Buffer.from(`::${key}::::`).toString('base64url'),
};

const sizes = [1_599, 2_048, 16_384];

describe.each(sizes)('a key of %i characters', (size) => {
  const keys = { 'a token': token(size), 'a JSON document': jsonSecret(size) };

  it.each(Object.entries(keys))('that is %s is redacted completely in every encoding', (_, key) => {
    for (const [name, encode] of Object.entries(encodings)) {
      const left = redact(`<${encode(key)}>`, [key]);
      // In Base64, the first and last characters also encode adjacent text.
      expect({ name, isShort: left.length < 30 }).toEqual({ name, isShort: true });
      expect(left).toContain('[redacted]');
      expect(containsKey(`1588888888888,${encode(key)}`, [key])).toBe(true);
      expect(encode(key).length).toBeLessThanOrEqual(maxOccurrenceLength([key]));
    }
    expect(containsKey(`1588888888888,${key.slice(0, -1)}`, [key])).toBe(false);
    expect(redact(`<${key}>, <${key}>`, [key])).toBe('<[redacted]>, <[redacted]>');
  });

  it('is redacted in an error and its causes', () => {
    const subject = { label: 'page 1', keys: new Set(Object.values(keys)) };
    const message = Object.values(keys).join(' and ');
    const error = failure(subject, 'ContractError', `seen: ${presentable(message, subject.keys, 100)}`, {
      cause: new Error(message),
    });
    expect(error).toMatchObject({
      message: 'seen: [redacted] and [redacted]',
      cause: { message: '[redacted] and [redacted]' },
    });
    for (const key of subject.keys) for (const part of partsOf(key)) expectNoKey(error, part);
  });

  it('is redacted wherever a response echoes it', async () => {
    for (const key of Object.values(keys)) {
      const headers = { 'content-type': 'text/plain', 'x-request-id': key };
      const responses = [
        rawResponse({ status: 400, headers: { 'content-type': 'text/plain' }, body: `You sent ${key}, wrongly` }),
        rawResponse({ status: 400, headers, body: Buffer.from(key).toString('base64') }),
        rawResponse({ headers: { 'x-service-cursor': `1588888888888,${key}` } }),
        rawResponse({ headers: { 'content-type': `application/xml;key="${key}"` } }),
        rawResponse({ body: `<r>&${key};</r>` }),
        `HTTP/1.1 200 ${key}\r\n${key}\r\n\r\n`,
      ] as const;
      await using server = await startRawServer(...responses);
      await using client = clientFor(server, { apiKey: fixedApiKey(key) });
      const errors = [];
      for (const _ of responses) {
        const error = await failureOf(readPage(client.fetchPage(pageRequest())));
        for (const part of partsOf(key)) expectNoKey(error, part);
        errors.push(error.name);
      }
      expect(errors).toEqual(['RequestRejectedError', ...errors.slice(1, 2), ...Array(4).fill('ContractError')]);
      expect(server.requests).toHaveLength(responses.length);
      expect(server.requests[0]?.headers['X-SERVICE-API-KEY']).toBe(key);
    }
  });
});

/** Even a part of a key must not be left. */
function partsOf(key: string): readonly string[] {
  const positions = [0, 50, 150, 1_000, Math.floor(key.length / 2), key.length - 40];
  return positions.map((position) => key.slice(position, position + 40));
}

describe('a text that cannot be searched', () => {
  it('is replaced as a whole, because the error of a regular expression quotes it', () => {
    const key = token(40);
    const spy = vi.spyOn(RegExp.prototype, 'exec').mockImplementation(function fail(this: RegExp) {
      throw new SyntaxError(`Invalid regular expression: /${this.source}/: Stack overflow`);
    });
    let left = '';
    try {
      left = redact(`<${key}>`, [key]);
    } finally {
      spy.mockRestore();
    }
    expect(left).toBe('[redacted]');
  });
});

describe('a wrapped key', () => {
  const key = 'S3cr3t/key+with="odd"&<chars>  \\%42';
  const wrapped = (text: string, width: number, by: string) =>
    (text.match(new RegExp(`[^]{1,${width}}`, 'g')) ?? []).join(by);
  const forms = {
    plain: key,
    'in a URL': encodeURIComponent(key),
    'in hexadecimal': Buffer.from(key).toString('hex'),
    'in Base64': Buffer.from(`user:${key}:x`).toString('base64'),
    'in Base64 for URLs': Buffer.from(`me:${key}:x`).toString('base64url'),
  };

  it.each(Object.entries(forms))('is redacted %s', (name, form) => {
    for (const by of [' ', '\n', '\r\n', '\t', '\n        ']) {
      for (const width of name === 'in a URL' ? [form.length] : [1, 2, 7, 19]) {
        const shown = presentable(`<${wrapped(form, width, by)}>`, [key], 1_000);
        expect(shown).toContain('[redacted]');
        expect(shown.length).toBeLessThan(50);
      }
    }
    expect(containsKey(wrapped(form, name === 'in a URL' ? form.length : 5, ' '), [key])).toBe(true);
  });
});
