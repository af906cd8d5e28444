import { globSync, readFileSync } from 'node:fs';
import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { programName } from '../../lib/operator/program-name.ts';
import { aDirectory } from '../support/process/command-line.ts';

const entryFile = 'bin/report-exporter.mjs';

/** Writes a package with the command to `folder`. */
async function createPackage(folder: string): Promise<string> {
  await mkdir(join(folder, 'bin'), { recursive: true });
  await writeFile(join(folder, 'package.json'), '{ "name": "report-exporter" }');
  await writeFile(join(folder, entryFile), '');
  await chmod(join(folder, entryFile), 0o755);
  return folder;
}

/** Installs the command as npm does: a link to its file. */
async function link(command: string, target: string): Promise<void> {
  await mkdir(dirname(command), { recursive: true });
  await symlink(target, command);
}

async function installIn(project: string): Promise<string> {
  await mkdir(project, { recursive: true });
  await writeFile(join(project, 'package.json'), '{}');
  const packageFolder = await createPackage(join(project, 'node_modules/report-exporter'));
  await link(join(project, 'node_modules/.bin/report-exporter'), join('../report-exporter', entryFile));
  return packageFolder;
}

const path = '/usr/local/bin:/usr/bin';

describe('the program in the commands of messages', () => {
  it('is run by npx in a project that has the package, and in its folders', async () => {
    const project = await aDirectory();
    const packageFolder = await installIn(project);
    const inner = join(project, 'infrastructure/reports');
    await mkdir(inner, { recursive: true });
    for (const workingDirectory of [project, inner]) {
      expect(programName({ packageFolder, workingDirectory, path })).toBe('npx report-exporter');
    }
    // npx finds it from the packages of a workspace, too.
    await writeFile(join(inner, 'package.json'), '{}');
    expect(programName({ packageFolder, workingDirectory: inner, path })).toBe('npx report-exporter');
  });

  it('is run by npx in a checkout, but not where npx takes a folder in it for another project', async () => {
    const checkout = await createPackage(join(await aDirectory(), 'checkout'));
    const docs = join(checkout, 'docs');
    await mkdir(docs);
    for (const workingDirectory of [checkout, docs]) {
      expect(programName({ packageFolder: checkout, workingDirectory, path })).toBe('npx report-exporter');
    }
    await writeFile(join(docs, 'package.json'), '{}');
    const name = programName({ packageFolder: checkout, workingDirectory: docs, path });
    expect(name).toBe(`node ${join(checkout, entryFile)}`);
  });

  it('is the command itself where it is installed globally', async () => {
    const root = await aDirectory();
    const packageFolder = await createPackage(join(root, 'lib/node_modules/report-exporter'));
    await link(join(root, 'bin/report-exporter'), join('../lib/node_modules/report-exporter', entryFile));
    const workingDirectory = await aDirectory();
    const name = programName({ packageFolder, workingDirectory, path: `${path}:${join(root, 'bin')}` });
    expect(name).toBe('report-exporter');
  });

  it('is the file where neither npx nor the shell would find this package', async () => {
    const elsewhere = await aDirectory();
    const packageFolder = await installIn(await aDirectory());
    const file = `node ${join(packageFolder, entryFile)}`;
    expect(programName({ packageFolder, workingDirectory: elsewhere, path })).toBe(file);
    expect(programName({ packageFolder, workingDirectory: elsewhere, path: undefined })).toBe(file);
    // npx puts this folder on the path of what it runs from its cache. The shell of the user does not have it.
    const ofNpx = join(packageFolder, '../.bin');
    expect(programName({ packageFolder, workingDirectory: elsewhere, path: `${ofNpx}:${path}` })).toBe(file);
  });

  it('is the file where npx or the shell would run another installation', async () => {
    const project = await aDirectory();
    await installIn(project);
    const root = await aDirectory();
    const other = await createPackage(join(root, 'lib/node_modules/report-exporter'));
    await link(join(root, 'bin/report-exporter'), join('../lib/node_modules/report-exporter', entryFile));
    const packageFolder = await createPackage(join(await aDirectory(), 'a folder'));
    const file = `node '${join(packageFolder, entryFile)}'`;
    expect(programName({ packageFolder, workingDirectory: project, path })).toBe(file);
    const shellPath = `${join(root, 'bin')}:${path}`;
    expect(programName({ packageFolder, workingDirectory: await aDirectory(), path: shellPath })).toBe(file);
    expect(programName({ packageFolder: other, workingDirectory: project, path: shellPath })).toBe('report-exporter');
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
  expect(code.filter((line) => /\bnpx (report-exporter|cdk)|\bnpm start\b/.test(line))).toEqual([]);
});
