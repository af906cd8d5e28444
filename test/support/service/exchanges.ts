/**
 * Reads exchanges with an API from a file. Each begins with its title, and has a description, the request that is
 * expected, one or more responses, and what the client makes of them:
 *
 *     ### a flag that says that there is more
 *     # {"last": {"at": "/more", "is": false}}
 *     GET /logs?cursor=2
 *
 *     HTTP/1.1 200
 *
 *     {"data": [1], "more": true, "next": "3"}
 *
 *     > next 3, 1 report
 *
 * A line `# {…}` has parts of the description that differ from the usual one. A line `# given {…}` has the cursor,
 * the size and other parts of what is requested. The request may be left out. The results are `next CURSOR`, `last`, `N
 * report(s)`, the name of an error with a part of its message, and `refused` with a part of the problem, for a
 * description that is not valid.
 */

import { readFileSync } from 'node:fs';
import { findContradictions } from '../../../lib/service/api/description.ts';
import { apiSchema } from '../../../lib/service/api/description.ts';
import { parseAll } from '../../../lib/core/schema/parse.ts';

export interface WrittenExchange {
  readonly title: string;
  readonly parts: Readonly<Record<string, unknown>>;
  readonly given: Readonly<Record<string, unknown>>;
  /** The expected request; empty if none is expected. */
  readonly request: string;
  readonly responses: readonly WrittenResponse[];
  readonly expected: string;
}

export interface WrittenResponse {
  readonly status: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string;
}

export function readExchanges(file: string): readonly WrittenExchange[] {
  const [, ...blocks] = readFileSync(file, 'utf8').split(/^### /m);
  return blocks.map(readExchange);
}

function readExchange(block: string): WrittenExchange {
  const [title = '', ...lines] = block.split('\n');
  const notes = lines.filter((line) => line.startsWith('# ')).map((line) => line.slice(2));
  const given = notes.filter((line) => line.startsWith('given ')).map((line) => line.slice('given '.length));
  const parts = notes.filter((line) => !line.startsWith('given '));
  const [request = '', ...responses] = lines
    .filter((line) => !line.startsWith('# ') && !line.startsWith('> '))
    .join('\n')
    .split(/^HTTP\/1\.1 /m);
  const expected = lines.filter((line) => line.startsWith('> ')).map((line) => line.slice(2));
  return {
    title,
    parts: parseObject(parts.join(' ')),
    given: parseObject(given.join(' ')),
    request: request.trim(),
    responses: responses.map(readResponse),
    expected: expected.join(', '),
  };
}

const parseObject = (text: string) => JSON.parse(text === '' ? '{}' : text) as Readonly<Record<string, unknown>>;

function readResponse(text: string): WrittenResponse {
  const [head = '', ...body] = text.trim().split('\n\n');
  const [status = '', ...headers] = head.split('\n');
  return {
    status: Number(status),
    headers: headers.map((line) => [line.replace(/:.*/, ''), line.replace(/^[^:]*: ?/, '')] as const),
    body: body.join('\n\n'),
  };
}

const usual = {
  request: { path: '/logs' },
  auth: { kind: 'none' },
  next: { from: 'body', at: '/next', to: { query: 'cursor' } },
  page: { format: 'json', reports: '/data/*' },
};

/** The description with these parts, and what is wrong with it. */
export function describedWith(parts: object) {
  const { data: api, issues } = parseAll(apiSchema, { ...usual, ...parts });
  const problems = api === undefined ? issues : findContradictions(api);
  return { api, problems: problems.map(({ path, message }) => `${path.map(String).join('.')}: ${message}`) };
}
