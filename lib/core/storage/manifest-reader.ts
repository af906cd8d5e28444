/**
 * Reads a manifest as it streams by, one page at a time: that of a million pages is larger than a reader's memory should
 * be. It is taken only as this exporter writes it, a page a line; JSON that somebody has laid out anew is refused.
 */

import type { z } from 'zod';
import { ExportError } from '../errors.ts';
import { describeProblems } from '../settings/validation-errors.ts';
import {
  type ManifestHeader,
  type ManifestPage,
  manifestHeaderSchema,
  manifestPageSchema,
} from './published-schemas.ts';

export interface OpenManifest {
  readonly head: ManifestHeader;
  /** In the order of the manifest, to be read once. @throws PageConflictError where it is not as it was written */
  readonly pages: AsyncIterable<ManifestPage>;
}

/** The largest cursor there can be, escaped at its worst, and all the rest of a line. */
const maxLineLength = 1_048_576;

/** `where` names the manifest in errors. @throws PageConflictError where its head is not as it was written */
export async function openManifest(where: string, chunks: AsyncIterable<Uint8Array>): Promise<OpenManifest> {
  const lines = linesOf(where, chunks)[Symbol.asyncIterator]();
  let head = '';
  for (;;) {
    const { value: line, done } = await lines.next();
    if (done === true) throw unreadable(where, 'it ends before its pages begin');
    if (line === '  "pages": [') break;
    head += line;
    if (head.length > maxLineLength) throw unreadable(where, 'its pages do not begin');
  }
  return {
    head: parsed(where, manifestHeaderSchema, `${head.replace(/,$/, '')}}`),
    pages: pagesIn(where, lines),
  };
}

async function* pagesIn(where: string, lines: AsyncIterator<string>): AsyncGenerator<ManifestPage> {
  try {
    for (let expected = true; ; ) {
      const { value: line, done } = await lines.next();
      if (done === true) throw unreadable(where, 'it breaks off among its pages');
      if (line === '  ]') {
        const [end, rest] = [await lines.next(), await lines.next()];
        if (end.value !== '}' || rest.done !== true) throw unreadable(where, 'it does not end where its pages do');
        return;
      }
      if (!expected) throw unreadable(where, 'its pages go on without a comma');
      expected = line.endsWith(',');
      yield parsed(where, manifestPageSchema, line.replace(/,$/, ''));
    }
  } finally {
    await lines.return?.();
  }
}

async function* linesOf(where: string, chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const decode = (chunk?: Uint8Array) => {
    try {
      return decoder.decode(chunk, { stream: chunk !== undefined });
    } catch {
      throw unreadable(where, 'it is not UTF-8');
    }
  };
  let rest = '';
  for await (const chunk of chunks) {
    const lines = (rest + decode(chunk)).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
    if (rest.length > maxLineLength) throw unreadable(where, 'it holds a line longer than any page takes');
  }
  rest += decode();
  if (rest !== '') yield rest;
}

function parsed<Schema extends z.ZodType>(where: string, schema: Schema, text: string): z.infer<Schema> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw unreadable(where, 'it is not JSON as it was written', cause);
  }
  const looked = schema.safeParse(value);
  if (!looked.success) throw unreadable(where, describeProblems('', looked.error));
  return looked.data;
}

function unreadable(where: string, why: string, cause?: unknown): ExportError {
  return new ExportError(
    'PageConflictError',
    `The manifest ${where} is not as this exporter wrote it: ${why}. Put it back as it was, or do not rely on its run`,
    cause === undefined ? {} : { cause },
  );
}
