/**
 * Compiles fast-path.ts to WebAssembly and writes it to ../fast-path-wasm.ts, as text: running the exporter needs no
 * compiler, and bundling needs no file loader. With `--check` it writes nothing, and fails if the two differ.
 * `npm run build:wasm` installs the compiler and runs this.
 */

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const source = join(import.meta.dirname, 'fast-path.ts');
const target = join(import.meta.dirname, '../fast-path-wasm.ts');
const compiler = join(import.meta.dirname, 'node_modules/assemblyscript/bin/asc.js');

const lineLength = 110;

const generated = toModule(compile());
if (!process.argv.includes('--check')) {
  writeFileSync(target, generated);
} else if (readFileSync(target, 'utf8') !== generated) {
  process.stderr.write('Error: fast-path-wasm.ts is not what fast-path.ts compiles to. Run: npm run build:wasm\n');
  process.exitCode = 1;
}

function compile(): Buffer {
  const directory = mkdtempSync(join(tmpdir(), 'fast-path-'));
  try {
    const wasm = join(directory, 'fast-path.wasm');
    const options = ['-O3', '--noAssert', '--runtime', 'stub'];
    // Four pages of 64 KiB hold the tables, the names of open elements and the text. The module never needs more.
    const memory = ['--initialMemory', '4', '--maximumMemory', '4'];
    execFileSync(process.execPath, [compiler, source, '--outFile', wasm, ...options, ...memory], { stdio: 'inherit' });
    return readFileSync(wasm);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

function toModule(wasm: Buffer): string {
  const lines = wasm.toString('base64').match(new RegExp(`.{1,${lineLength}}`, 'g')) ?? [];
  return `/** Generated from assembly/fast-path.ts by \`npm run build:wasm\`. Do not edit. */

export const fastPathWasm =
${lines.map((line) => `  '${line}'`).join(' +\n')};
`;
}
