/** What runs is what is written: the module in lib is the one that its source compiles to. */

import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { main as compile } from 'assemblyscript/asc';
import { expect, it } from 'vitest';

const room = join(import.meta.dirname, '../../lib/report-service');
const anew =
  'is not what assembly/plain-content.ts compiles to; write it anew: ' +
  "npm exec -c 'vitest run test/report-service/plain-content-wasm.test.ts -u'";

it('plain-content-wasm.ts is what its source compiles to', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'wasm-'));
  try {
    const compiled = join(directory, 'plain-content.wasm');
    const options = '-O3 --noAssert --runtime stub';
    // Tables, names and text; it never needs more.
    const memory = '--initialMemory 4 --maximumMemory 4';
    const words = `${options} ${memory}`.split(' ');
    const { error } = await compile([join(room, 'assembly/plain-content.ts'), '--outFile', compiled, ...words]);
    expect(error).toBeNull();
    const base64 = await readFile(compiled, 'base64');
    const lines = base64.match(/.{1,110}/g) ?? [];
    const text = `/** Compiled from assembly/plain-content.ts, which says what it is; a test holds the two together. */

export const plainContentWasm =
${lines.map((line, index) => `  '${line}'${index === lines.length - 1 ? ';' : ' +'}`).join('\n')}
`;
    const file = join(room, 'plain-content-wasm.ts');
    await expect(text, `${file} ${anew}`).toMatchFileSnapshot(file);
  } finally {
    await rm(directory, { recursive: true });
  }
});
