/** Documents as a format check sees them, whole or in pieces. */

import { SaxesParser } from 'saxes';
import type { PathValue } from '../../../lib/service/api/response-facts.ts';
import type { CheckOptions, CreateCheck } from '../../../lib/service/formats/format-check.ts';

export interface Checked {
  readonly problem: string | undefined;
  readonly reports: number | null;
  readonly rootName: string | null;
  readonly values: readonly PathValue[];
}

/** The result for a document in these pieces. */
export function check(
  createCheck: CreateCheck,
  pieces: readonly (string | Uint8Array)[],
  options: Partial<CheckOptions> = {},
): Checked {
  const { paths = [] } = options;
  const formatCheck = createCheck({ present: (name) => name, ...options, paths });
  for (const piece of pieces) formatCheck.push(Buffer.from(piece));
  const end = formatCheck.end();
  if (typeof end === 'string') return { problem: end, reports: null, rootName: null, values: [] };
  const { reports, rootName, value } = end;
  return { problem: undefined, reports, rootName, values: paths.map(value) };
}

export const bytewise = (document: string | Uint8Array): readonly Uint8Array[] =>
  Array.from(Buffer.from(document), (byte) => Uint8Array.of(byte));

/** `bytes` cut at positions that `seeds` choose. */
export function cut(bytes: Buffer, seeds: readonly number[]): readonly Buffer[] {
  const edges = [0, ...seeds.map((seed) => seed % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length];
  return edges.slice(1).map((end, index) => bytes.subarray(edges[index], end));
}

/** `document` with `replacement` in the place of up to two characters that `seed` chooses. */
export function damage(document: string, seed: number, replacement: string): string {
  const position = seed % (document.length + 1);
  return document.slice(0, position) + replacement + document.slice(position + (seed % 3));
}

/** The verdict of saxes on the whole document, without dropping buffers. */
export function isAcceptedBySaxes(whole: string): boolean {
  const parser = new SaxesParser();
  let isAccepted = true;
  let hasDoctype = false;
  parser.on('doctype', () => {
    hasDoctype = true;
  });
  parser.on('xmldecl', ({ encoding = 'utf-8' }) => {
    isAccepted &&= encoding.toLowerCase() === 'utf-8';
  });
  parser.on('error', ({ message }) => {
    isAccepted &&= hasDoctype && message.endsWith('undefined entity.');
  });
  parser.write(whole).close();
  return isAccepted;
}
