/** Colours and tables for a person at a terminal; plain text for everybody else. */

import { styleText } from 'node:util';
import type { Terminal } from './progress.ts';

type Style = Parameters<typeof styleText>[0];
export type Paint = (style: Style, text: string) => string;

/** Paints on a terminal, unless NO_COLOR asks not to (no-color.org). */
export function paintFor({ isTTY }: Terminal, env: Readonly<Record<string, string | undefined>>): Paint {
  const isPlain = isTTY !== true || (env.NO_COLOR ?? '') !== '' || env.TERM === 'dumb';
  return isPlain ? (_, text) => text : (style, text) => styleText(style, text, { validateStream: false });
}

export interface Cell {
  readonly text: string;
  readonly style?: Style | undefined;
  readonly right?: boolean | undefined;
}

/** Rows in columns as wide as their widest cell, two blanks apart; a line each. The first row is the heading. */
export function table(rows: readonly (readonly Cell[])[], paint: Paint): string[] {
  const widths = rows.reduce<number[]>(
    (widest, row) => row.map(({ text }, column) => Math.max(widest[column] ?? 0, text.length)),
    [],
  );
  return rows.map((row) =>
    row
      .map(({ text, style, right }, column) => {
        const gap = ' '.repeat((widths[column] ?? 0) - text.length);
        const painted = style === undefined ? text : paint(style, text);
        return right === true ? gap + painted : painted + gap;
      })
      .join('  ')
      .trimEnd(),
  );
}
