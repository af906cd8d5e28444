import { globSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';
import { shellQuote } from '../../lib/core/sanitize.ts';
import { programName } from '../../lib/operator/program-name.ts';
import { aDirectory } from '../support/process/command-line.ts';

/** Writes a package to `folder`. */
async function createPackage(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'package.json'), '{}');
  return folder;
}

const installIn = async (project: string) => {
  await createPackage(project);
  return await createPackage(join(project, 'node_modules/report-exporter'));
};
/** The shorter one of both paths. */
function fileIn(packageFolder: string, from: string): string {
  const file = join(packageFolder, 'bin/report-exporter.mjs');
  const paths = [relative(from, file), file].toSorted((one, other) => one.length - other.length);
  return `node ${shellQuote(paths[0] ?? '')}`;
}

describe('the program in the commands of messages', () => {
  it('is run by npx in a project that has the package, and in its folders', async () => {
    const project = await aDirectory();
    const packageFolder = await installIn(project);
    expect(programName(packageFolder, project)).toBe('npx --no -- report-exporter');
    // npx finds it from the packages of a workspace, too.
    const workspace = await createPackage(join(project, 'infrastructure/reports'));
    expect(programName(packageFolder, workspace)).toBe('npx --no -- report-exporter');
  });

  it('is run by npx in a checkout, but not where npx takes a folder in it for another project', async () => {
    const checkout = await createPackage(join(await aDirectory(), 'checkout'));
    const docs = join(checkout, 'docs');
    await mkdir(docs);
    for (const folder of [checkout, docs]) expect(programName(checkout, folder)).toBe('npx --no -- report-exporter');
    await createPackage(docs);
    expect(programName(checkout, docs)).toBe('node ../bin/report-exporter.mjs');
  });

  it('is the file where npx would not find this package, or run another installation', async () => {
    const project = await aDirectory();
    const packageFolder = await installIn(project);
    const elsewhere = await aDirectory();
    expect(programName(packageFolder, elsewhere)).toBe(fileIn(packageFolder, elsewhere));
    const other = await createPackage(join(await aDirectory(), 'a folder'));
    expect(programName(other, project)).toBe(fileIn(other, project));
  });
});

it('is in no message as a fixed text', () => {
  const root = join(import.meta.dirname, '../..');
  // Not in the files of a new project, which has the package.
  const sources = globSync('{bin,lib,functions}/**/*.ts', {
    cwd: root,
    exclude: ['**/node_modules', 'lib/operator/project/**', 'lib/operator/commands/init.ts'],
  });
  expect(sources.length).toBeGreaterThan(100);
  const lines = sources.flatMap((file) => readFileSync(join(root, file), 'utf8').split('\n'));
  const code = lines.filter((line) => !/^\s*(\/\*\*|\*|\/\/)/.test(line));
  expect(code.filter((line) => /\bnpx (?:--no -- )?(report-exporter|cdk)|\bnpm start\b/.test(line))).toEqual([]);
});

it('is never run by an npx that may install a package of that name, nor is another program', () => {
  const root = join(import.meta.dirname, '../..');
  const files = globSync('{*.md,.ci/*,bin/**/*,docs/**/*,lib/**/*}', {
    cwd: root,
    exclude: ['**/node_modules', '**/*.{png,svg}'],
    withFileTypes: true,
  });
  const texts = files
    .filter((file) => file.isFile())
    .map((file) => [file.name, readFileSync(join(file.parentPath, file.name), 'utf8')] as const);
  expect(texts.length).toBeGreaterThan(200);
  // A command: npx and a program or an option. In prose, npx is followed by other words.
  const command = /\bnpx +(?!--no -- )(-\S+|report-exporter|cdk|vitest|\$\{)/;
  expect(texts.filter(([, text]) => command.test(text)).map(([name]) => name)).toEqual([]);
});
