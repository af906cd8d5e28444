/**
 * Reads exchanges with an API from a file. Each begins with its title, and has a description, one or more responses,
 * each after the request that is expected, and what the client makes of them:
 *
 *     ### a flag that says that there is more
 *     # {"last": {"at": "/more", "is": false}}
 *     GET /logs?cursor=2
 *     accept: application/json
 *
 *     HTTP/1.1 200
 *
 *     {"data": [1], "more": true, "next": "3"}
 *
 *     > next 3, 1 report
 *
 * - `# {…}` has parts of the description that differ from the usual one, `# contract {…}` the settings of the Report
 *   Export Service in its place, `# next {…}` and `# auth {…}` parts of these, `# given {…}` what is requested, and
 *   `# client {…}` settings of the client. Such lines before the first exchange hold for the whole file.
 * - A request may be left out. A header without a value must not be sent. `HOST` is that of the server.
 * - `* a | b` repeats the exchange for each such line, with `a` in the place of `@1`, and `b` in that of `@2`.
 * - `‹…›` stands for what a file cannot have: `‹key›`, `‹key hex›`, `‹host›`, `‹x*1000›`, `‹0x01*9›`, or bytes:
 *   `‹0d0a›`.
 * - `~ …` in the head of a response is what happens on the wire: `chunked`, `close` (no length), `length 5`, `gzip`,
 *   `trailer name: value`, `cut 5` (so many bytes of the body are sent, or less than all), `end` and `reset` (of the
 *   connection, after the response). A response that begins with `RAW` is sent as it is.
 * - The results are `next CURSOR`, `last`, `N report(s)`, another fact of the page with its value, the name of an error
 *   with a part of its message, and `refused` with a part of the problem, for a description that is not valid. Further
 *   lines are parts of the message, expressions (`/…/`), or the number of requests.
 */

import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { parseAll } from '../../../lib/core/schema/parse.ts';
import { apiSchema, findContradictions } from '../../../lib/service/api/description.ts';
import { chunk } from './raw-server.ts';

type Fields = Readonly<Record<string, unknown>>;

export interface WrittenExchange {
  readonly title: string;
  readonly parts: Fields;
  /** Instead of the parts: settings of the Report Export Service. */
  readonly contract: Fields | undefined;
  readonly given: Fields;
  readonly client: Fields;
  readonly steps: readonly { readonly request: string; readonly response: string }[];
  readonly expected: readonly string[];
}

export function readExchanges(file: string): readonly WrittenExchange[] {
  const [head = '', ...blocks] = readFileSync(file, 'utf8').split(/^### /m);
  return blocks.flatMap((block) => repetitionsOf(block).map((each) => readExchange(head, each)));
}

/** The block once for each of its rows, or as it is. */
export function repetitionsOf(block: string): readonly string[] {
  const rows = [...block.matchAll(/^\* (.*)\n/gm)].map(([, row = '']) => row.split(/ ?\|(?: |$)/));
  const template = block.replaceAll(/^\* .*\n/gm, '');
  if (rows.length === 0) return [template];
  return rows.map((row) => {
    const filled = template.replaceAll(/@(\d)/g, (_, column: string) => row[Number(column) - 1] ?? '');
    return filled.replace(/^.*/, (title) => (filled === template ? title : `${title}: ${row.join(' | ')}`));
  });
}

const notes = /^# (?:(contract|given|client|next|auth) )?(\{.*)$/;

function readExchange(head: string, block: string): WrittenExchange {
  const [title = '', ...lines] = block.split('\n');
  const noted = (name?: string): Fields | undefined => {
    const found = [head.split('\n'), lines].map((each) =>
      each.flatMap((line) => {
        const [, of, json = ''] = notes.exec(line) ?? [];
        return of === name && json !== '' ? [JSON.parse(json) as Fields] : [];
      }),
    );
    return found.flat().length === 0 ? undefined : Object.assign({}, ...found.flat());
  };
  const content = lines.filter((line) => !line.startsWith('# ') && !line.startsWith('> '));
  const changed = (['next', 'auth'] as const).map((name) => [name, noted(name)] as const);
  const parts: Record<string, unknown> = { ...noted() };
  for (const [name, changes] of changed) if (changes) parts[name] = { ...(parts[name] as object), ...changes };
  return {
    title,
    parts,
    contract: noted('contract'),
    given: noted('given') ?? {},
    client: noted('client') ?? {},
    steps: stepsIn(content.join('\n')),
    expected: lines.filter((line) => line.startsWith('> ')).map((line) => line.slice(2)),
  };
}

function stepsIn(content: string): WrittenExchange['steps'] {
  const [, ...parts] = `\n${content}`.split(/^(?=HTTP\/1\.1 |RAW |(?:GET|POST) \/)/m);
  const isRequest = (part = '') => /^(GET|POST) /.test(part);
  return parts.flatMap((part, index) => {
    if (isRequest(part)) return [];
    const before = parts[index - 1];
    return [{ request: isRequest(before) ? (before ?? '').trim() : '', response: part }];
  });
}

/** What `‹…›` stands for. */
export interface Insertions {
  readonly key: string;
  readonly host: string;
}

const keyAs = {
  key: (key: string) => key,
  hex: (key: string) => Buffer.from(key).toString('hex'),
  base64: (key: string) => Buffer.from(`user:${key}`).toString('base64url'),
  url: encodeURIComponent,
  json: (key: string) => JSON.stringify(key).slice(1, -1),
};

function bytesOf(text: string, { key, host }: Insertions): Buffer {
  const parts = text.split(/‹(.*?)›/s).map((part, index) => {
    if (index % 2 === 0) return Buffer.from(part);
    const [, form = 'key'] = /^key ?(\w+)?$/.exec(part) ?? [];
    if (part.startsWith('key')) return Buffer.from(keyAs[form as keyof typeof keyAs](key));
    if (part === 'host') return Buffer.from(host);
    const [, repeated, times] = /^(.+)\*(\d+)$/s.exec(part) ?? [];
    if (repeated?.startsWith('0x')) return Buffer.from(repeated.slice(2).repeat(Number(times)), 'hex');
    return repeated === undefined ? Buffer.from(part, 'hex') : Buffer.from(repeated.repeat(Number(times)));
  });
  return Buffer.concat(parts);
}

/** A document with its repetitions and bytes. */
export const filledBytes = (text: string): Buffer => bytesOf(text, { key: '', host: '' });

/** An expectation with its repetitions. */
export const filled = (text: string): string => filledBytes(text).toString();

/** The bytes of a response as it is written, and what happens to the connection after them. */
export function wireOf(response: string, insertions: Insertions, contentType: string) {
  if (response.startsWith('RAW '))
    return { bytes: bytesOf(response.slice(4).trim(), insertions), ending: 'end' as const };
  const [head = '', ...rest] = response.trim().split('\n\n');
  const [status = '', ...lines] = head.replace(/^HTTP\/1\.1 /, '').split('\n');
  const directives = lines.filter((line) => line.startsWith('~ ')).map((line) => line.slice(2));
  const valueOf = (name: string) => directives.find((each) => each.startsWith(name))?.slice(name.length + 1);
  const headers = lines.filter((line) => !line.startsWith('~ '));
  const has = (name: string) => headers.some((line) => line.toLowerCase().startsWith(`${name}:`));
  const plain = bytesOf(rest.join('\n\n'), insertions);
  const body = valueOf('gzip') === undefined ? plain : gzipSync(plain);
  const trailer = valueOf('trailer');
  const isChunked = valueOf('chunked') !== undefined || trailer !== undefined;
  const isLengthless = status.startsWith('204') || isChunked || valueOf('close') !== undefined;
  const top = bytesOf(
    [
      `HTTP/1.1 ${status} Reason`,
      ...headers,
      ...(has('content-type') || status.startsWith('204') ? [] : [`content-type: ${contentType}`]),
      ...(isChunked ? ['transfer-encoding: chunked'] : []),
      ...(isLengthless || has('content-length') ? [] : [`content-length: ${valueOf('length') ?? body.length}`]),
      '',
      '',
    ].join('\r\n'),
    insertions,
  );
  const pieces = [
    ...(body.length === 0 ? [] : [chunk(body)]),
    bytesOf(`0\r\n${trailer ?? ''}${trailer === undefined ? '' : '\r\n'}\r\n`, insertions),
  ];
  const framed = isChunked ? Buffer.concat(pieces) : body;
  const cut = valueOf('cut');
  const ending = valueOf('reset') !== undefined ? 'reset' : 'end';
  const isOpen = cut === undefined && ['close', 'end', 'reset', 'length'].every((name) => valueOf(name) === undefined);
  return {
    bytes: Buffer.concat([top, framed.subarray(0, cut === undefined ? framed.length : Number(cut))]),
    ending: isOpen ? ('open' as const) : (ending as 'reset' | 'end'),
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
