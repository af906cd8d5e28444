/** Writes for a person at a terminal: colors and tables. A stream that is no terminal gets plain text. */

import { styleText } from 'node:util';

export interface Terminal {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

type Style = Parameters<typeof styleText>[0];
/** `text` in `style`, or unchanged if there are no colors. */
export type TextStyle = (style: Style, text: string) => string;

/** Colors for a terminal, unless the environment says NO_COLOR (no-color.org). */
export function textStyleFor({ isTTY }: Terminal, env: Readonly<Record<string, string | undefined>>): TextStyle {
  const isPlain = isTTY !== true || (env.NO_COLOR ?? '') !== '' || env.TERM === 'dumb';
  return isPlain ? (_, text) => text : (style, text) => styleText(style, text, { validateStream: false });
}

/** `Error: …`; further lines of the message are indented below the first. */
export function errorLines(style: TextStyle, message: string): string {
  const [first = '', ...rest] = message.split('\n');
  return [`${style('red', 'Error:')} ${first}`, ...rest.map((line) => `  ${line}`)].map((line) => `${line}\n`).join('');
}

/** The message of an error about usage or settings, which has a line for each problem. Indented lines are its details. */
export function withProblemCount(message: string): string {
  const problems = message.split('\n').filter((line) => !line.startsWith(' ')).length;
  return problems === 1 ? message : `${problems} problems:\n${message}`;
}

export interface Cell {
  readonly text: string;
  readonly style?: Style | undefined;
  readonly alignRight?: boolean | undefined;
}

/** One line per row, in columns as wide as their widest cell and two spaces apart. */
export function tableLines(rows: readonly (readonly Cell[])[], style: TextStyle): string[] {
  const widths = rows.reduce<number[]>(
    (widest, row) => row.map(({ text }, column) => Math.max(widest[column] ?? 0, text.length)),
    [],
  );
  return rows.map((row) =>
    row
      .map((cell, column) => {
        const padding = ' '.repeat((widths[column] ?? 0) - cell.text.length);
        const text = cell.style === undefined ? cell.text : style(cell.style, cell.text);
        return cell.alignRight === true ? padding + text : text + padding;
      })
      .join('  ')
      .trimEnd(),
  );
}
