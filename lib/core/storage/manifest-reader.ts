/**
 * Reads a manifest as a stream, one page at a time: the manifest of a run of a million pages should not have to fit
 * into memory. It must have the layout that this exporter writes, one page per line; reformatted JSON is rejected.
 */

import type * as z from 'zod/mini';
import { ExportError } from '../errors.ts';
import { describeProblems } from '../validation-errors.ts';
import {
  type ManifestHeader,
  type ManifestPage,
  manifestHeaderSchema,
  manifestPageSchema,
} from './published-schemas.ts';

export interface OpenManifest {
  readonly header: ManifestHeader;
  /** In page order, to be read once. @throws PageConflictError if the rest of the manifest is not as it was written */
  readonly pages: AsyncIterable<ManifestPage>;
}

/** More than the longest possible line: that of a page with the longest cursor, every character of it escaped. */
const maxLineLength = 1_048_576;
/** More than the longest possible header: that with a filter of 64 KiB, one value per line, indented by 32 levels. */
const maxHeaderLength = 4 * 1_048_576;

/** `address` is the manifest's, for errors. @throws PageConflictError if its header is not as it was written */
export async function openManifest(address: string, chunks: AsyncIterable<Uint8Array>): Promise<OpenManifest> {
  const lines = linesOf(address, chunks)[Symbol.asyncIterator]();
  try {
    return { header: await readHeader(address, lines), pages: pagesOf(address, lines) };
  } catch (error) {
    // Its pages are not read, so nothing else closes the file.
    await lines.return();
    throw error;
  }
}

async function readHeader(address: string, lines: AsyncIterator<string>): Promise<ManifestHeader> {
  let header = '';
  for (;;) {
    const { value: line, done } = await lines.next();
    if (done === true) throw invalid(address, 'it ends before its pages');
    if (line === '  "pages": [') break;
    header += line;
    if (header.length > maxHeaderLength) throw invalid(address, 'it has no pages');
  }
  return parse(address, manifestHeaderSchema, `${header.replace(/,$/, '')}}`);
}

async function* pagesOf(address: string, lines: AsyncIterator<string>): AsyncGenerator<ManifestPage> {
  try {
    for (let pageExpected = true; ;) {
      const { value: line, done } = await lines.next();
      if (done === true) throw invalid(address, 'it is truncated within its pages');
      if (line === '  ]') {
        const [end, rest] = [await lines.next(), await lines.next()];
        if (end.value !== '}' || rest.done !== true) throw invalid(address, 'it does not end after its pages');
        return;
      }
      if (!pageExpected) throw invalid(address, 'a comma between its pages is missing');
      pageExpected = line.endsWith(',');
      yield parse(address, manifestPageSchema, line.replace(/,$/, ''));
    }
  } finally {
    await lines.return?.();
  }
}

async function* linesOf(address: string, chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string, void> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const decode = (chunk?: Uint8Array) => {
    try {
      return decoder.decode(chunk, { stream: chunk !== undefined });
    } catch {
      throw invalid(address, 'it is not UTF-8');
    }
  };
  let rest = '';
  for await (const chunk of chunks) {
    const lines = (rest + decode(chunk)).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
    if (rest.length > maxLineLength) throw invalid(address, 'it has a line that is too long for a page');
  }
  rest += decode();
  if (rest !== '') yield rest;
}

function parse<Schema extends z.ZodMiniType>(address: string, schema: Schema, text: string): z.infer<Schema> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw invalid(address, 'it is not JSON in the layout in which it was written', cause);
  }
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw invalid(address, describeProblems('', parsed.error));
  return parsed.data;
}

function invalid(address: string, reason: string, cause?: unknown): ExportError {
  return new ExportError(
    'PageConflictError',
    `The manifest ${address} does not match what this exporter wrote: ${reason}. Restore it, and do not rely on its run until then`,
    { cause },
  );
}
