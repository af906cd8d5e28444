/** Arguments that would harm a terminal or a log. What else the program prints is in test/transcripts. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { runInProcess } from '../support/process/command-line.ts';

it.each([[], ['local', 'a'], ['status', 'a'], ['init', 'a']])(
  'prints wrong arguments on a line of their own, and not at any length: %j',
  async (...words) => {
    const wrong = [`\x1b[31mfoo\x07${'x'.repeat(10_000)}`, '--\x1b=3'];
    const { status, stderr } = await runInProcess([...words, ...wrong]);
    expect(status).toBe(2);
    expect(stderr).toMatch(/foox+/);
    expect(stderr).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f]/);
    expect(stderr.length).toBeLessThan(1_000);
  },
);

it('prints the version of package.json', async () => {
  const { version } = JSON.parse(await readFile(join(import.meta.dirname, '../../package.json'), 'utf8'));
  expect(await runInProcess(['--version'])).toMatchObject({ status: 0, stdout: `${version}\n`, stderr: '' });
});
