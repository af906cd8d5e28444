/** Colors, tables and error messages on a terminal and elsewhere. */

import { describe, expect, it } from 'vitest';
import { errorLines, textStyleFor, withProblemCount } from '../../../lib/operator/output/terminal.ts';

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
