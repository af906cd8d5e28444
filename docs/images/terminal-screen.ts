/** A minimal terminal emulator: renders program output, with cursor movements and colors, as HTML. */

interface Cell {
  readonly character: string;
  readonly style: Style;
}

interface Style {
  readonly bold?: boolean;
  readonly dim?: boolean;
  readonly italic?: boolean;
  readonly underline?: boolean;
  readonly color?: string;
}

export interface TerminalScreen {
  write(text: string): void;
  /** One item per line, without empty lines at the end. */
  html(): string[];
}

/** The eight standard and the eight bright colors, chosen for a dark background. */
const standard = ['#5c6670', '#ff7b6b', '#5fd0a8', '#e8c26a', '#62b2ea', '#c792ea', '#6fd3dd', '#e4e8eb'];
const bright = ['#9ba6b0', '#ff9c8f', '#86e2c1', '#f3d795', '#8fcaf3', '#d9b3f2', '#9be6ed', '#ffffff'];
const palette = [...standard, ...bright];

/** A control sequence (CSI), a title or link (OSC), another escape sequence, or one character. */
/* oxlint-disable no-control-regex */
const tokens = /\x1b\[[?\d;]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.|[\s\S]/gu;

export function createTerminalScreen(columns: number): TerminalScreen {
  const lines: Cell[][] = [[]];
  let row = 0;
  let column = 0;
  let style: Style = {};

  const lineAt = (index: number): Cell[] => {
    while (lines.length <= index) lines.push([]);
    return lines[index] as Cell[];
  };
  const put = (character: string) => {
    if (column >= columns) {
      row += 1;
      column = 0;
    }
    const line = lineAt(row);
    while (line.length < column) line.push({ character: ' ', style: {} });
    line[column] = { character, style };
    column += 1;
  };
  const applyControlSequence = (parameters: string, final: string) => {
    const [first = 0] = parameters.split(';').map(Number);
    if (final === 'm') style = applyStyle(style, parameters);
    if (final === 'K') lineAt(row).splice(first === 0 ? column : 0);
    if (final === 'J') lines.splice(first === 0 ? row + 1 : 0);
    if (final === 'A') row = Math.max(0, row - (first || 1));
    if (final === 'B') row += first || 1;
    if (final === 'C') column += first || 1;
    if (final === 'D') column = Math.max(0, column - (first || 1));
    if (final === 'G') column = Math.max(0, (first || 1) - 1);
  };
  return {
    write(text) {
      for (const [token] of text.matchAll(tokens)) {
        if (token === '\n') {
          row += 1;
          column = 0;
          lineAt(row);
        } else if (token === '\r') {
          column = 0;
        } else if (token === '\b') {
          column = Math.max(0, column - 1);
        } else if (token === '\t') {
          for (const space of ' '.repeat(8 - (column % 8))) put(space);
        } else if (token.startsWith('\x1b[')) {
          applyControlSequence(token.slice(2, -1), token.slice(-1));
        } else if (!token.startsWith('\x1b') && token >= ' ') {
          put(token);
        }
      }
    },
    html() {
      const last = lines.findLastIndex((line) => line.some(({ character }) => character !== ' '));
      return lines.slice(0, last + 1).map(renderLine);
    },
  };
}

function applyStyle(style: Style, parameters: string): Style {
  const codes = parameters.split(';').map(Number);
  let next = style;
  for (let index = 0; index < codes.length; index += 1) {
    const code = codes[index] ?? 0;
    if (code === 0) next = {};
    else if (code === 1) next = { ...next, bold: true };
    else if (code === 2) next = { ...next, dim: true };
    else if (code === 3) next = { ...next, italic: true };
    else if (code === 4) next = { ...next, underline: true };
    else if (code === 22) next = without(next, 'bold', 'dim');
    else if (code === 23) next = without(next, 'italic');
    else if (code === 24) next = without(next, 'underline');
    else if (code === 39) next = without(next, 'color');
    else if (code >= 30 && code <= 37) next = { ...next, color: palette[code - 30] ?? '' };
    else if (code >= 90 && code <= 97) next = { ...next, color: palette[code - 82] ?? '' };
    else if (code === 38 && codes[index + 1] === 5) {
      next = { ...next, color: indexedColor(codes[index + 2] ?? 0) };
      index += 2;
    } else if (code === 38 && codes[index + 1] === 2) {
      next = { ...next, color: `rgb(${codes.slice(index + 2, index + 5).join(', ')})` };
      index += 4;
    }
  }
  return next;
}

function without(style: Style, ...names: readonly (keyof Style)[]): Style {
  return Object.fromEntries(Object.entries(style).filter(([name]) => !names.includes(name as keyof Style)));
}

/** The 256 colors: 16 of the palette, a 6 × 6 × 6 cube, and shades of gray. */
function indexedColor(index: number): string {
  if (index < 16) return palette[index] ?? '';
  if (index >= 232)
    return `rgb(${Array(3)
      .fill(8 + (index - 232) * 10)
      .join(', ')})`;
  const level = (value: number) => (value === 0 ? 0 : 55 + value * 40);
  const cube = index - 16;
  return `rgb(${level(Math.floor(cube / 36))}, ${level(Math.floor(cube / 6) % 6)}, ${level(cube % 6)})`;
}

function renderLine(line: readonly Cell[]): string {
  let html = '';
  for (let start = 0; start < line.length;) {
    const css = toCss(line[start]?.style ?? {});
    let end = start;
    while (end < line.length && toCss(line[end]?.style ?? {}) === css) end += 1;
    const text = escapeHtml(
      line
        .slice(start, end)
        .map(({ character }) => character)
        .join(''),
    );
    html += css === '' ? text : `<span style="${css}">${text}</span>`;
    start = end;
  }
  return html;
}

function toCss({ bold, dim, italic, underline, color }: Style): string {
  return [
    ...(bold ? ['font-weight: 700'] : []),
    ...(dim ? ['opacity: 0.62'] : []),
    ...(italic ? ['font-style: italic'] : []),
    ...(underline ? ['text-decoration: underline'] : []),
    ...(color ? [`color: ${color}`] : []),
  ].join('; ');
}

const escapeHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
