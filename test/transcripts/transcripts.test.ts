/** Every transcript in this folder: what the commands print. `npm test -- test/transcripts -u` updates them. */

import { globSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { runTranscript } from './session.ts';

it.each(globSync('*.txt', { cwd: import.meta.dirname }).sort())('%s', async (name) => {
  const file = join(import.meta.dirname, name);
  await expect(await runTranscript(await readFile(file, 'utf8'))).toMatchFileSnapshot(file);
});
