/** Packs the project and installs the tarball into empty folders, as a user does. */

import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);

export const root = join(import.meta.dirname, '../../..');

interface PackageJson {
  readonly version: string;
  readonly engines: { readonly node: string };
  readonly exports: Readonly<Record<string, unknown>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
}

export const packageJson = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as PackageJson;

/** The variables of this process, without those of AWS and those that npm sets for the scripts of this project. */
export const userVariables: Readonly<Record<string, string | undefined>> = Object.fromEntries(
  Object.entries(process.env).filter(
    ([name]) => !/^(npm_(package|lifecycle)_|npm_config_local_prefix$|AWS_)/.test(name),
  ),
);

/** Builds the package. Returns the path of the tarball. */
export async function pack(folder: string): Promise<string> {
  await execute('npm', ['pack', '--silent', '--pack-destination', folder], { cwd: root, env: userVariables });
  const [name = ''] = (await readdir(folder)).filter((file) => file.endsWith('.tgz'));
  return join(folder, name);
}

/** Makes a project in `folder` with these packages. Their install scripts are not run. */
export async function install(folder: string, type: 'module' | 'commonjs', packages: readonly string[]): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'consumer', private: true, type }));
  const options = ['--silent', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline'];
  await execute('npm', ['install', ...options, ...packages], { cwd: folder, env: userVariables });
}

export interface Outcome {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `node` with these arguments in `folder`. */
export function runNode(
  folder: string,
  args: readonly string[],
  { node = process.execPath, variables = {} }: RunOptions = {},
): Promise<Outcome> {
  return new Promise((resolve) => {
    const options = { cwd: folder, env: { PATH: process.env.PATH, ...variables }, maxBuffer: 64 * 1024 * 1024 };
    execFile(node, [...args], options, (error, stdout, stderr) => {
      resolve({ status: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

interface RunOptions {
  /** The executable. Default: that of this process. */
  readonly node?: string;
  readonly variables?: Readonly<Record<string, string>>;
}
