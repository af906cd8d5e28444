/** A key of a few characters also occurs by chance. Redacting it must not garble what is not the key. */

import { describe, expect, it } from 'vitest';
import { fixedApiKey } from '../../../lib/report-service/client/api-key.ts';
import { failure } from '../../../lib/report-service/client/errors.ts';
import { presentable, redact } from '../../../lib/report-service/redaction/redact.ts';
import { rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import { clientFor, failureOf, pageRequest, readPage } from '../../support/service/service-client.ts';

describe('a key of one to five characters', () => {
  it.each([
    ['b', '26843545 bytes in the body, about 2 b/s'],
    ['e', 'Deferred: see the reference'],
    ['4', 'listening on 127.0.0.1:8443, HTTP 404, version 2.4.1'],
    ['/', 'see https://reports.example.com/v1/report'],
    ['id', 'Invalid identifier: did not find user-id or id_token'],
    ['page', 'paged, homepage, page2, page_size, page-size, page.size'],
    ['ab', 'a b, ab5, 6162, YWI=, YW'],
  ])('does not garble other text: %j', (key, text) => {
    expect(redact(text, [key])).toBe(text);
    expect(presentable(text, [key], 1_000)).toBe(text);
  });

  it.each([
    ['alone', 'k7', '[redacted]'],
    ['as a word', 'the key k7 is wrong', 'the key [redacted] is wrong'],
    ['at the end of a sentence', 'Unknown key: k7.', 'Unknown key: [redacted].'],
    ['in another letter case', 'Unknown key K7', 'Unknown key [redacted]'],
    ['in quotes', `"k7", 'k7' and \`k7\``, `"[redacted]", '[redacted]' and \`[redacted]\``],
    ['in JSON', '{"key":"k7"}', '{"key":"[redacted]"}'],
    ['in escaped JSON', String.raw`"{\"key\":\"k7\"}"`, String.raw`"{\"key\":\"[redacted]\"}"`],
    ['in a URL', '?api_key=k7&page=2', '?api_key=[redacted]&page=2'],
    ['in an encoded URL', 'key%3D%22k7%22', 'key%3D%22[redacted]%22'],
    ['in HTML', '<b>k7</b> &quot;k7&quot; (k7)', '<b>[redacted]</b> &quot;[redacted]&quot; ([redacted])'],
    ['between control characters', 'key\u0000k7\u0000', 'key\u0000[redacted]\u0000'],
    ['escaped', String.raw`\u006b7 %6B%37 &#107;&#x37;`, '[redacted] [redacted] [redacted]'],
    ['twice', 'k7 k7 k77', '[redacted] [redacted] k77'],
  ])('is redacted as a whole value: %s', (_, text, redacted) => {
    expect(redact(text, ['k7'])).toBe(redacted);
  });

  it('is redacted in an error response and in causes', async () => {
    const response = { status: 400, headers: { 'content-type': 'text/plain' }, body: 'Bad key b: about 3 bytes' };
    expect(await messageFor('b', response)).toContain('Bad key [redacted]: about 3 bytes');
    const subject = { label: 'page 1', keys: new Set(['b']) };
    const error = failure(subject, 'ContractError', 'Broken', { cause: new Error('sent "b" in bytes') });
    expect(error.cause).toMatchObject({ message: 'sent "[redacted]" in bytes' });
  });

  it('is redacted in the names that an XML problem quotes', async () => {
    const message = (key: string, body: string) => messageFor(key, { body });
    expect(await message('k7', '<r><k7>')).toContain('(byte 7: unclosed tag: [redacted])');
    expect(await message('k7', '<r></r></k7>')).toContain('(byte 12: unmatched closing tag: [redacted])');
    expect(await message('k7', '<r k7="1" k7="2"/>')).toContain('duplicate attribute: [redacted])');
    expect(await message('k7', '<?xml version="1.0" encoding="k7"?><r/>')).toContain('the encoding [redacted])');
  });
});

describe("a key that occurs in the exporter's own words", () => {
  const tooLarge = [{ body: `<r>${' '.repeat(100)}</r>` }, { maxPageBytes: 64 }] as const;
  const wronglyClosed = [{ body: '<reports><report></records>' }] as const;
  const empty = [{ body: '' }] as const;
  const wrongType = [{ headers: { 'content-type': 'text/html' } }] as const;

  it.each([
    ...['b', '1', 'R', 'run', 'of', '64', 'page', 'request fewer', 'reports per', 'maxPageBytes'].map(
      (key) => [key, tooLarge] as const,
    ),
    ...['27', 'byte', 'tag', 'unexpected', 'close tag', 'well-formed', 'XML document', 'reports'].map(
      (key) => [key, wronglyClosed] as const,
    ),
    ...['is', 'empty', 'the body', 'bodyis', 'Report service', 'invalid', 'response'].map(
      (key) => [key, empty] as const,
    ),
    ...['reports', 'UTF-8', 'in UTF-8', 'instead', 'content type', 'application/xml'].map(
      (key) => [key, wrongType] as const,
    ),
  ])('leaves them alone: %j', async (key, [response, limits = {}]) => {
    const other = await messageFor('xW7-a-much-longer-key', response, limits);
    expect(other).toMatch(/^Report service sent (an invalid response|107 bytes) for page 1 of run R/);
    expect(await messageFor(key, response, limits)).toBe(other);
  });

  it('leaves the status and the URL alone', async () => {
    for (const key of ['reports', '404', 'responded', 'v1/report/export', 'base URL']) {
      const message = await messageFor(key, { status: 404, body: '' });
      expect(message).toMatch(
        /^Report service responded with 404 for page 1 of run R: .*\/v1\/report\/export does not exist\. Check the base URL$/,
      );
    }
  });
});

it('removes a long key even from a part of the message that was not redacted', () => {
  const key = 'sk-live-9f8e7d6c5b4a39281706';
  const { message } = failure(
    { label: 'page 1 of run R', keys: new Set([key]) },
    'ContractError',
    `Unexpected: ${key}`,
  );
  expect(message).toBe('Unexpected: [redacted]');
});

it('redacts a key of six characters or more wherever it occurs in a quotation', async () => {
  expect(redact('xxs3cr3txx', ['s3cr3t'])).toBe('xx[redacted]xx');
  expect(await messageFor('s3cr3t', { body: '<r><xs3cr3tx>' })).toContain('unclosed tag: x[redacted]x)');
  const response = {
    status: 400,
    headers: { 'content-type': 'text/plain', 'x-request-id': 'xs3cr3tx' },
    body: 'xS3CR3Tx',
  };
  const message = await messageFor('s3cr3t', response);
  expect(message).toContain('(request ID x[redacted]x)');
  expect(message).toContain('Response: x[redacted]x');
});

async function messageFor(key: string, response: Parameters<typeof rawResponse>[0], limits = {}): Promise<string> {
  await using server = await startRawServer(rawResponse(response));
  await using client = clientFor(server, { apiKey: fixedApiKey(key), limits });
  return (await failureOf(readPage(client.fetchPage(pageRequest())))).message;
}
