/** Foreign text with a part of a key is redacted, however it is encoded, and any other text is shown. */

import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { fixedApiKey } from '../../../lib/service/client/api-key.ts';
import { failure } from '../../../lib/service/client/errors.ts';
import { containsKey, containsPart, presentable, redacted } from '../../../lib/service/redaction/redact.ts';
import { cases, fc } from '../../support/property.ts';
import { rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import {
  anErrorContext,
  clientFor,
  expectNoKey,
  failureOf,
  pageRequest,
  readPage,
  trickyApiKey,
} from '../../support/service/service-client.ts';
import { fetchPage } from '../../support/builders.ts';

const hex = (character: string) => character.charCodeAt(0).toString(16).padStart(2, '0');
const escapeEach = (text: string, escape: (character: string) => string) => Array.from(text, escape).join('');
const html: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

/** `step` selects one of the variants, in turn: what precedes Base64, how long lines are. */
const encodings: Readonly<Record<string, (text: string, step: number) => string>> = {
  JSON: (text) => JSON.stringify(text),
  'JSON in a document': (text) => JSON.stringify({ message: text, status: 400 }),
  'JSON with \\/': (text) => JSON.stringify(text).replaceAll('/', '\\/'),
  HTML: (text) => text.replace(/[&<>"']/g, (character) => html[character] ?? ''),
  'HTML, each character': (text) => escapeEach(text, (character) => `&#${character.charCodeAt(0)};`),
  'HTML, each in hexadecimal': (text) => escapeEach(text, (character) => `&#x00${hex(character).toUpperCase()};`),
  URL: encodeURIComponent,
  'URL, each character': (text) => escapeEach(text, (character) => `%${hex(character)}`),
  'a form': (text) => new URLSearchParams({ key: text }).toString(),
  Base64: (text, step) => Buffer.from(`${':'.repeat(step % 3)}${text}::`).toString('base64'),
  'Base64 for URLs': (text, step) => Buffer.from(`${':'.repeat(step % 3)}${text}::`).toString('base64url'),
  'upper case': (text) => text.toUpperCase(),
  'lower case': (text) => text.toLowerCase(),
  hexadecimal: (text) => Buffer.from(text).toString('hex'),
  '\\u escapes': (text) => escapeEach(text, (character) => `\\u00${hex(character)}`),
  '\\u escapes of punctuation': (text) => text.replace(/["&'/<>\\]/g, (character) => `\\u00${hex(character)}`),
  'line breaks': (text, step) =>
    (text.match(new RegExp(`[^]{1,${1 + (step % 20)}}`, 'g')) ?? []).join(step % 2 === 0 ? '\n' : '\r\n'),
};
const names = Object.keys(encodings);

const encode = (key: string, path: readonly string[], step: number) =>
  path.reduce((text, name, index) => encodings[name]?.(text, step + index) ?? text, key);

/** The compositions that show the key. */
function shown(key: string, compositions: readonly (readonly string[])[]): readonly string[] {
  return compositions
    .filter((path, step) => !containsPart(`Unknown key ${encode(key, path, step)}, try another`, [key]))
    .map((path) => path.join(', then '));
}

const singles = names.map((name) => [name]);
const pairs = singles.flatMap((path) => names.map((name) => [...path, name]));
const triples = pairs.flatMap((path) => names.map((name) => [...path, name]));

const keys = {
  'a JSON document': JSON.stringify({ user: 'rpt', key: 'a1"b2\\c3', x: { 'k"': 1 } }),
  'forty letters and digits': 'Zk3V9qLx7TnB2mWc8RfJ5hYp1sDg6KuA4eXo0iNt',
  'a UUID': '550e8400-e29b-41d4-a716-446655440000',
  'full of punctuation': trickyApiKey,
  'full of escapes': 'a\\nb"\\tc\\u0041"d\\\\e&amp;f&quot;g%22h',
  'nothing but escapes': '%41"%42"%43"%44"%45"%46"',
  'eight characters': 'S3cr3tK8',
};

describe.each(Object.entries(keys))('a key that is %s', (_, key) => {
  it('is recognized in every encoding, and in every composition of two', () => {
    expect(shown(key, [[], ...singles, ...pairs])).toEqual([]);
  });

  it('is recognized in compositions of three', () => {
    expect(shown(key, fc.sample(fc.constantFrom(...triples), cases(5_000)))).toEqual([]);
  });

  it('is recognized wherever a line break divides an escape', () => {
    const missed = [];
    for (const inner of ['JSON', 'URL', 'HTML', '\\u escapes', '\\u escapes of punctuation']) {
      for (const outer of ['JSON', 'HTML', 'URL', 'JSON with \\/']) {
        for (let step = 0; step < 20; step += 1) {
          const text = encode(encode(encode(key, [inner], 0), ['line breaks'], step), [outer], 0);
          if (!containsPart(text, [key])) missed.push({ inner, outer, step });
        }
      }
    }
    expect(missed).toEqual([]);
  });

  it('is recognized within wrapped and interleaved text', () => {
    for (const between of ['\0', ' ', '\u200b', '-', '\n\t']) {
      expect(containsPart(Array.from(key).join(between), [key])).toBe(true);
    }
    expect(containsPart(Buffer.from(key, 'utf16le').toString('base64'), [key])).toBe(true);
  });
});

describe('any key', () => {
  const printable = Array.from({ length: 95 }, (_, index) => String.fromCharCode(32 + index));
  const anyKey = fc
    .string({ unit: fc.constantFrom(...printable), minLength: 1, maxLength: 60 })
    .filter((key) => /([A-Za-z0-9][^A-Za-z0-9]*){8}/.test(key));

  it('is recognized in compositions of up to three encodings', () => {
    fc.assert(
      fc.property(anyKey, fc.constantFrom(...singles, ...pairs, ...triples), fc.nat(60), (key, path, step) => {
        expect(presentable(`<p>${encode(key, path, step)}</p>`, [key], 100)).toBe(redacted);
      }),
      { numRuns: cases(5_000) },
    );
  });

  it('is recognized by any eight of its letters and digits in a row', () => {
    const key = keys['forty letters and digits'];
    for (let start = 0; start <= key.length - 8; start += 1) {
      const part = key.slice(start, start + 8);
      expect(presentable(`"${part}"`, [key], 100)).toBe(redacted);
      expect(presentable(`"${part.slice(1)}"`, [key], 100)).toBe(`"${part.slice(1)}"`);
      for (const path of [['Base64'], ['hexadecimal'], ['URL', 'Base64', 'upper case']]) {
        expect(containsPart(encode(part, path, start), [key])).toBe(true);
      }
    }
  });
});

describe('a short key', () => {
  it('is recognized by all of its letters and digits, plain or encoded once', () => {
    for (const key of ['s3cr3t', 'k-7', 'b']) expect(shown(key, [[], ...singles])).toEqual([]);
    expect(presentable('Unknown key s3cr3', ['s3cr3t'], 100)).toBe('Unknown key s3cr3');
  });

  it('without letters and digits withholds every text', () => {
    expect(presentable('Invalid size: 11', ['!?!'], 100)).toBe(redacted);
    expect(presentable('', ['!?!'], 100)).toBe('');
  });
});

describe('a long key', () => {
  const token = randomBytes(12_288).toString('base64url');
  const document = JSON.stringify(
    Array.from({ length: 400 }, (_, id) => ({ id, 'a"b': '\\', part: token.slice(id, id + 9) })),
  );

  it.each([token, document])('is recognized in every encoding, and by any part of it', (key) => {
    expect(shown(key.slice(0, 3_000), singles)).toEqual([]);
    for (const start of [0, 1_001, 7_000, key.length - 40]) {
      const part = key.slice(start, start + 40);
      for (const path of [[], ['JSON'], ['HTML'], ['URL'], ['hexadecimal'], ['Base64'], ['Base64', 'upper case']]) {
        expect(containsPart(encode(part, path, start), [key])).toBe(true);
      }
    }
  });

  it('is nowhere in an error, wherever a response repeats it', async () => {
    for (const key of [token, document]) {
      const headers = { 'content-type': 'text/plain', 'x-request-id': key.slice(0, 12_000) };
      const responses = [
        rawResponse({ status: 400, headers: { 'content-type': 'text/plain' }, body: `You sent ${key}, wrongly` }),
        rawResponse({ status: 400, headers, body: Buffer.from(key).toString('base64') }),
        rawResponse({ body: `<r>&${key};</r>` }),
        `HTTP/1.1 200 ${key}\r\n${key}\r\n\r\n`,
      ] as const;
      await using server = await startRawServer(...responses);
      await using client = clientFor(server, { apiKey: fixedApiKey(key) });
      for (const _ of responses) {
        const error = await failureOf(readPage(fetchPage(client, pageRequest())));
        for (const start of [0, 50, 150, 1_000, 8_000]) expectNoKey(error, key.slice(start, start + 40));
      }
      expect(server.requests).toHaveLength(responses.length);
    }
  });
});

describe('a text without the key', () => {
  const page = `<html><head><title>400</title></head><body>${'<p class="x">Invalid&nbsp;filter: 100%25 of it&#39;s wrong</p>'.repeat(70)}</body></html>`;
  const texts = {
    'a sentence': 'Invalid size: 11',
    'about the key': 'The API key was not accepted',
    JSON: '{"error":"bad_request","requestId":"4b1f0c9e-1111-4222-8333-1234567890ab","at":"2026-11-20T02:00:07Z"}',
    'a path': 'C:\\temp\\new\\reports\\u0041.xml',
    Base64: randomBytes(3_000).toString('base64'),
    hexadecimal: randomBytes(3_000).toString('hex'),
    'a page of HTML': page,
  };

  it.each(Object.entries(texts))('is shown: %s', (_, text) => {
    const others = Object.values(keys).filter((key) => key !== keys['nothing but escapes']);
    expect(presentable(text, others, 100)).toBe(text.slice(0, 100));
    expect(presentable(text, [], 100)).toBe(text.slice(0, 100));
  });

  it('is printable, on one line', () => {
    expect(presentable('a\r\n\u001b[2Jb', [trickyApiKey], 100)).toBe('a [2Jb');
  });
});

it('withholds a text for a key that begins after the part that is shown', () => {
  expect(presentable(`${'.'.repeat(95)}${trickyApiKey}`, [trickyApiKey], 100)).toBe(redacted);
  expect(presentable(`${'.'.repeat(1_000)}${trickyApiKey}`, [trickyApiKey], 100)).toBe(redacted);
});

it('withholds a text that decodes to too much to search', () => {
  const key = [keys['forty letters and digits']];
  // Escaped four times in each of three ways, which can be undone in any order.
  const deep = '\\\\\\\\\\\\\\\\%2525252541&amp;amp;amp;amp;'.repeat(400);
  expect(presentable(deep, key, 100)).toBe(redacted);
  expect(presentable(deep.slice(0, 1_000), key, 100)).toBe(deep.slice(0, 100));
  const hard = ['\\', '%5c', '%25', '&amp;', '&#0', 'a', '\\u00', '\\\\n', 'f', '3031', 'QUFB', 'VVVV'];
  for (const text of hard) expect(presentable(text.repeat(4_096), key, 100)).toBe(text.repeat(100).slice(0, 100));
});

describe('a cursor', () => {
  it('contains a key only if it contains all its letters and digits', () => {
    for (const key of [trickyApiKey, keys['a JSON document'], keys['a UUID']]) {
      for (const path of [[], ...singles]) {
        expect({ path, found: containsKey(`1588888888888,${encode(key, path, 0)}`, [key]) }).toEqual({
          path,
          found: true,
        });
      }
      expect(containsKey(`1588888888888,${key.slice(0, -4)}`, [key])).toBe(false);
    }
  });

  it('may be long, with each character escaped in another way', () => {
    const key = keys['forty letters and digits'];
    const url = 'URL, each character';
    const escapes = [[], [url], ['\\u escapes'], ['HTML, each character'], [url, 'URL']];
    const escaped = (text: string) =>
      Array.from(text, (character, index) => encode(character, escapes[index % escapes.length] ?? [], 0)).join('');
    const cursor = escaped(randomBytes(7_500).toString('base64'));
    expect(cursor.length).toBeGreaterThan(40_000);
    expect(containsKey(cursor, [key])).toBe(false);
    expect(containsKey(`${cursor}${escaped(key)}${cursor}`.slice(-64 * 1024), [key])).toBe(true);
  });

  it('is not searched for a key of fewer than twelve letters and digits', () => {
    expect(containsKey('1588888888888,550e8400-e29', ['550e8400-e29'])).toBe(false);
    expect(containsKey('1588888888888,550e8400-e29b', ['550e8400-e29b'])).toBe(true);
  });
});

describe('an error', () => {
  const context = anErrorContext(trickyApiKey);

  it('keeps the messages of its causes, but no other properties, and no key', () => {
    const innermost = Object.assign(new AggregateError([new Error('second')], trickyApiKey), { code: trickyApiKey });
    const inner = Object.assign(new Error('first', { cause: innermost }), { data: trickyApiKey });
    const error = failure(context, 'ContractError', 'seen', { cause: inner });
    expectNoKey(error);
    expect(error).toMatchObject({
      message: 'seen',
      cause: {
        name: 'Error',
        message: 'first',
        cause: { name: 'AggregateError', message: redacted, code: redacted, cause: { message: 'second' } },
      },
    });
  });

  it('keeps the stacks of its causes, unless the message of one passes for frames', () => {
    const cause = new Error('outer', { cause: new Error(`inner\n    at ${trickyApiKey}`) });
    const error = failure(context, 'ContractError', 'seen', { cause });
    expect((error.cause as Error).stack).toMatch(/^Error: outer\n {4}at /);
    expect(((error.cause as Error).cause as Error).stack).toBe(`Error: ${redacted}`);
  });

  it('cuts off an endless chain of causes', () => {
    const circle = new Error('round');
    circle.cause = new Error('and round', { cause: circle });
    expect(failure(context, 'ContractError', 'x', { cause: circle }).cause).toBeInstanceOf(Error);
  });

  it('is redacted as a whole if it contains a long key, although nothing foreign in it should', () => {
    expect(failure(context, 'ContractError', `Unexpected: ${trickyApiKey}`).message).toBe(redacted);
  });
});

describe("a key that occurs in the exporter's own words", () => {
  const tooLarge = [{ body: `<r>${' '.repeat(100)}</r>` }, { maxPageBytes: 64 }] as const;
  const wronglyClosed = [{ body: '<reports><report></records>' }] as const;
  const wrongType = [{ headers: { 'content-type': 'text/html' } }] as const;
  const notFound = [{ status: 404, body: '' }] as const;

  it.each([
    ...['b', '64', 'request fewer', 'reports per', 'maxPageBytes'].map((key) => [key, tooLarge] as const),
    ...['27', 'close tag', 'well-formed', 'XML document'].map((key) => [key, wronglyClosed] as const),
    ...['in UTF-8', 'content type', 'application/xml'].map((key) => [key, wrongType] as const),
    ...['404', 'responded', 'v1/report/export', 'base URL'].map((key) => [key, notFound] as const),
  ])('leaves them alone: %j', async (key, [response, settings = {}]) => {
    await using server = await startRawServer(rawResponse(response));
    const messageFor = async (apiKey: string) => {
      await using client = clientFor(server, { apiKey: fixedApiKey(apiKey), ...settings });
      return (await failureOf(readPage(fetchPage(client, pageRequest())))).message;
    };
    const other = await messageFor('xW7-a-much-longer-key');
    expect(other).toMatch(/^Report service (sent|responded)/);
    // Foreign words may be redacted.
    expect(
      (await messageFor(key))
        .replaceAll(redacted, '…')
        .split('…')
        .every((part) => other.includes(part)),
    ).toBe(true);
  });
});
