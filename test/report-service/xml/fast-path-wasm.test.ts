/** What runs is what is written: the module in lib is the one that its source compiles to. */

import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { main as compile } from 'assemblyscript/asc';
import { expect, it } from 'vitest';

const room = join(import.meta.dirname, '../../../lib/report-service/xml');
const anew =
  'is not what assembly/fast-path.ts compiles to; write it anew: ' +
  "npm exec -c 'vitest run test/report-service/xml/fast-path-wasm.test.ts -u'";

it('fast-path-wasm.ts is what its source compiles to', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'wasm-'));
  try {
    const compiled = join(directory, 'fast-path.wasm');
    const options = '-O3 --noAssert --runtime stub';
    // Tables, names and text; it never needs more.
    const memory = '--initialMemory 4 --maximumMemory 4';
    const words = `${options} ${memory}`.split(' ');
    const { error } = await compile([join(room, 'assembly/fast-path.ts'), '--outFile', compiled, ...words]);
    expect(error).toBeNull();
    const base64 = await readFile(compiled, 'base64');
    const lines = base64.match(/.{1,110}/g) ?? [];
    const text = `/** Compiled from assembly/fast-path.ts, which says what it is; a test holds the two together. */

export const plainContentWasm =
${lines.map((line, index) => `  '${line}'${index === lines.length - 1 ? ';' : ' +'}`).join('\n')}
`;
    const file = join(room, 'fast-path-wasm.ts');
    await expect(text, `${file} ${anew}`).toMatchFileSnapshot(file);
  } finally {
    await rm(directory, { recursive: true });
  }
});
