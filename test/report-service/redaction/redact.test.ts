/** Redaction finds a key in any encoding, and leaves everything else unchanged. */

import { describe, expect, it } from 'vitest';
import { failure } from '../../../lib/report-service/client/errors.ts';
import { maxOccurrenceLength, presentable, redact } from '../../../lib/report-service/redaction/redact.ts';
import { fc } from '../../support/property.ts';
import { expectNoKey, trickyApiKey } from '../../support/service/service-client.ts';

const printable = Array.from({ length: 95 }, (_, index) => String.fromCharCode(32 + index));
const keys = fc.string({ unit: fc.constantFrom(...printable), minLength: 6, maxLength: 40 });
const hex = (character: string) => character.charCodeAt(0).toString(16).padStart(2, '0');

/** Ways to encode one character. */
const encodings: readonly ((character: string) => string)[] = [
  (character) => character,
  (character) => `\\${character}`,
  (character) => `%${hex(character)}`,
  (character) => `%${hex(character).toUpperCase()}`,
  (character) => `\\u00${hex(character)}`,
  (character) => `\\x${hex(character)}`,
  (character) => `&#${character.charCodeAt(0)};`,
  (character) => `&#x00${hex(character).toUpperCase()};`,
  // Escaped repeatedly, as in nested quotations.
  (character) => `\\\\\\${character}`,
  (character) => `\\\\u00${hex(character)}`,
  (character) => `%25${hex(character)}`,
  (character) => `%5C%${hex(character)}`,
  (character) => `&amp;#${character.charCodeAt(0)};`,
];

describe('redact', () => {
  it('finds a key whose characters are each escaped in any way', () => {
    fc.assert(
      fc.property(keys, fc.infiniteStream(fc.constantFrom(...encodings)), (key, ways) => {
        const encoded = Array.from(key, (character) =>
          (ways.next().value as (typeof encodings)[number])(character),
        ).join('');
        // After a backslash, an x or u of the key may also be part of an escape. Then its hexadecimal code is left, and no more.
        expect(redact(`<${encoded}>`, [key])).toMatch(/^<\[redacted\](?:[0-9a-f]{2,4})?>$/);
        expect(encoded.length).toBeLessThanOrEqual(maxOccurrenceLength([key]));
      }),
    );
  });

  it('finds a key in Base64, at any position of the encoded text', () => {
    fc.assert(
      fc.property(
        keys,
        fc.string(),
        fc.string(),
        fc.constantFrom('base64', 'base64url'),
        (key, before, after, form) => {
          const encoded = Buffer.from(`${before}${key}${after}`).toString(form as BufferEncoding);
          // Nothing that is left may decode to the key, at any offset.
          const decoded = redact(encoded, [key])
            .split('[redacted]')
            .flatMap((part) =>
              [0, 1, 2, 3].map((skip) => Buffer.from(part.slice(skip), form as BufferEncoding).toString()),
            );
          expect(decoded.filter((text) => text.includes(key))).toEqual([]);
          expect(redact(encoded, [key])).toContain('[redacted]');
        },
      ),
    );
  });

  it('finds a key in hexadecimal, in upper and lower case', () => {
    const key = 'S3cr3t/Key';
    const encoded = Buffer.from(`x${key}y`).toString('hex');
    expect(redact(`<${encoded}>`, [key])).toBe('<78[redacted]79>');
    expect(redact(`<${encoded.toUpperCase()}>`, [key])).toBe('<78[redacted]79>');
  });

  it('does not slow down for text that is made to be hard to search', () => {
    const key = `${'\\'.repeat(8)}%5c%5c&&;;aaaaaaaa`;
    const hard = ['\\', '%5c', '%25', '&amp;', '&#0', 'a', '\\u00'].map((part) => part.repeat(8_000));
    for (const text of [...hard, hard.join('')]) expect(redact(text, [key])).toBe(text);
  });

  it('does not change a text without the key', () => {
    expect(redact('Invalid size: 11', ['S3cr3tKey'])).toBe('Invalid size: 11');
    expect(redact('Invalid size: 11', [])).toBe('Invalid size: 11');
  });
});

describe('an error', () => {
  it('keeps the messages of its causes, but no other properties, and no key', () => {
    const innermost = Object.assign(new AggregateError([new Error(`second ${trickyApiKey}`)], trickyApiKey), {
      code: trickyApiKey,
    });
    const inner = Object.assign(new Error(`first ${trickyApiKey}`, { cause: innermost }), { data: trickyApiKey });
    const error = failure(
      { label: 'page 1', keys: new Set([trickyApiKey]) },
      'ContractError',
      `seen: ${presentable(trickyApiKey, [trickyApiKey], 100)}`,
      {
        cause: inner,
      },
    );
    expectNoKey(error);
    expect(error).toMatchObject({
      message: 'seen: [redacted]',
      cause: {
        name: 'Error',
        message: 'first [redacted]',
        cause: { name: 'AggregateError', code: '[redacted]', cause: { message: 'second [redacted]' } },
      },
    });
  });

  it('cuts off an endless chain of causes', () => {
    const circle = new Error('round');
    circle.cause = new Error('and round', { cause: circle });
    expect(failure({ label: 'page 1', keys: new Set() }, 'ContractError', 'x', { cause: circle }).cause).toBeInstanceOf(
      Error,
    );
  });
});
