/** Colors, tables and error messages on a terminal and elsewhere. */

import { describe, expect, it } from 'vitest';
import { errorLines, tableLines, textStyleFor, withProblemCount } from '../../../lib/operator/output/terminal.ts';

const terminal = { isTTY: true, write: () => true };
const plain = (_: unknown, text: string) => text;

describe('colors', () => {
  it('are for terminals only, and not with NO_COLOR or outside a terminal', () => {
    expect(textStyleFor(terminal, {})('red', 'x')).toBe('\x1b[31mx\x1b[39m');
    expect(textStyleFor(terminal, { NO_COLOR: '' })('red', 'x')).toBe('\x1b[31mx\x1b[39m');
    expect(textStyleFor(terminal, { NO_COLOR: '1' })('red', 'x')).toBe('x');
    expect(textStyleFor(terminal, { TERM: 'dumb' })('red', 'x')).toBe('x');
    expect(textStyleFor({ write: () => true }, {})('red', 'x')).toBe('x');
  });
});

describe('a table', () => {
  it('aligns text to the left and numbers to the right', () => {
    const rows = [
      [{ text: 'a' }, { text: '1', alignRight: true }],
      [{ text: 'bcd' }, { text: '22', alignRight: true }],
    ];
    expect(tableLines(rows, plain)).toEqual(['a     1', 'bcd  22']);
  });

  it('truncates the cells that do not fit, and styles only what is shown', () => {
    const rows = [
      [{ text: 'first' }, { text: '1,000', alignRight: true }, { text: 'a long note', style: 'red' as const }],
      [{ text: 'x' }, { text: '7', alignRight: true }, { text: '' }],
    ];
    const marked = (_: unknown, text: string) => `<${text}>`;
    expect(tableLines(rows, marked)).toEqual(['first  1,000  <a long note>', 'x          7']);
    expect(tableLines(rows, marked, 20)).toEqual(['first  1,000  <a lon…>', 'x          7']);
    expect(tableLines(rows, marked, 14)).toEqual(['first  1,000', 'x          7']);
    expect(tableLines(rows, marked, 10)).toEqual(['first  1,…', 'x        …']);
    expect(tableLines(rows, marked, 3)).toEqual(['fi…', 'x']);
    expect(tableLines(rows, marked, 0)).toEqual(['', '']);
  });
});

describe('an error', () => {
  it('starts with "Error:", and further lines are indented', () => {
    expect(errorLines(plain, 'The disk is full')).toBe('Error: The disk is full\n');
    expect(errorLines(plain, 'Run X failed:\nThe disk is full')).toBe('Error: Run X failed:\n  The disk is full\n');
  });

  it('is red only up to the colon', () => {
    expect(errorLines(textStyleFor(terminal, {}), 'x')).toBe('\x1b[31mError:\x1b[39m x\n');
  });

  it('counts the problems if there are several', () => {
    expect(withProblemCount('--size: must be 1 to 10')).toBe('--size: must be 1 to 10');
    expect(withProblemCount('--size: a\n--since: b')).toBe('2 problems:\n--size: a\n--since: b');
    const withDetails = '2 of 3 files cannot be served:\n  a.xml: truncated\n  b.xml: truncated';
    expect(withProblemCount(withDetails)).toBe(withDetails);
  });
});
