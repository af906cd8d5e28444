/** Writes for a person at a terminal: colors and tables. A stream that is no terminal gets plain text. */

import { stripVTControlCharacters, styleText } from 'node:util';
import { shorten } from '../../core/sanitize.ts';
import { instantOf } from '../../core/timestamps.ts';

export interface Terminal {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

export type Style = Parameters<typeof styleText>[0];
/** `text` in `style`, or unchanged if there are no colors. */
export type TextStyle = (style: Style, text: string) => string;

/** Colors for a terminal, unless the environment says NO_COLOR (no-color.org). */
export function textStyleFor({ isTTY }: Terminal, env: NodeJS.ProcessEnv): TextStyle {
  const isPlain = isTTY !== true || (env.NO_COLOR ?? '') !== '' || env.TERM === 'dumb';
  return isPlain ? (_, text) => text : (style, text) => styleText(style, text, { validateStream: false });
}

/** `Error: …`; further lines of the message are indented below the first. */
export function errorLines(style: TextStyle, message: string): string {
  const [first = '', ...rest] = message.split('\n');
  return [`${style('red', 'Error:')} ${first}`, ...rest.map((line) => `  ${line}`)].map((line) => `${line}\n`).join('');
}

/** The message of an error about usage or settings. It has a line for each problem; indented lines are details. */
export function withProblemCount(message: string): string {
  const problems = message.split('\n').filter((line) => !line.startsWith(' ')).length;
  return problems === 1 ? message : `${problems} problems:\n${message}`;
}

/**
 * `2026-11-20T11:02:43Z `: begins a line about a run that goes to a file or a pipe, because it is read later. Empty for
 * a terminal.
 */
export function timestampFor({ isTTY }: Terminal, nowMs: number): string {
  return isTTY === true ? '' : `${instantOf(Math.floor(nowMs / 1_000) * 1_000)} `;
}

/**
 * `text` in lines of at most `width` columns, broken between words, each of the further ones after `indent`. A longer
 * word is not broken, so that a path can be copied. Colors take no space.
 */
export function wrapText(text: string, width: number, indent: string): readonly string[] {
  const lines: string[] = [];
  const [, lead = '', rest = ''] = /^( *)(.*)$/s.exec(text) ?? [];
  let line: string | undefined;
  for (const word of rest.split(' ')) {
    const longer = line === undefined ? `${lead}${word}` : `${line} ${word}`;
    const fits = line === undefined || stripVTControlCharacters(longer).length <= width;
    if (!fits) lines.push(line as string);
    line = fits ? longer : `${indent}${word}`;
  }
  return [...lines, line ?? ''];
}

/** `text`, or as many of its words as fit into `width` with an ellipsis. */
export function ellipsize(text: string, width: number): string {
  return width === 0 ? '' : shorten(text, width);
}
