/**
 * The footprint: what it takes to install, test, synthesize and pack the project, and what users and Lambda get of it. There is no
 * goal; the figures show what a change adds.
 */

import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { cp, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { packageJson, root, userVariables } from '../../test/support/package/installation.ts';
import { bundleFunction, type FunctionName, functionNames } from '../../test/support/aws/bundled-functions.ts';
import type { Benchmark, BenchmarkOptions, Table } from '../harness/benchmark.ts';
import { type Contender, figureOf, measureRounds, type Rounds } from '../harness/rounds.ts';
import { formatNumber, formatSpread } from '../harness/tables.ts';
import { createTemporaryFolder } from '../harness/temporary-folder.ts';
import { measureTree, type TreeFigures } from './process-tree.ts';

interface CommandFigures extends TreeFigures {
  /** Of what the command writes. */
  readonly bytes: number;
  readonly packages: number;
}

export const footprint: Benchmark = {
  name: 'footprint',
  title: 'What it takes to install, test, synthesize and pack, and what the result weighs',
  async run(options) {
    const folder = await createTemporaryFolder(join(tmpdir(), 'report-exporter-bench-'));
    try {
      const copy = options.quick ? root : await copyProject(join(folder, 'copy'));
      const commands = createCommands(folder, copy, options);
      // The commands take minutes, and the warm-up fills the caches.
      const repetitions = Math.ceil(options.repetitions / 3);
      const rounds = await measureRounds(commands, { ...options, repetitions }, 'footprint');
      const content = await measurePackage(folder);
      const functions = await measureFunctionSizes(folder);
      return {
        tables: [commandTable(commands, rounds), sizeTable(content, functions)],
        measured: { ...Object.fromEntries(rounds), package: content, functions: Object.fromEntries(functions) },
        notes: [
          'What npm installs comes from its cache, which the warm-up has filled.',
          ...(options.quick ? ['--quick leaves out npm ci, npm test and the package with CDK.'] : []),
        ],
      };
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
};

/** The files of the checkout, without what is installed or generated: npm ci would replace what others use at this moment. */
async function copyProject(copy: string): Promise<string> {
  const left = /^(node_modules|dist|cdk\.out|exports|coverage|\.git|\.cache|\.bench-.*)$/;
  await mkdir(copy);
  for (const name of await readdir(root)) {
    if (!left.test(name)) await cp(join(root, name), join(copy, name), { recursive: true, filter: isSource });
  }
  return copy;
}

const isSource = (path: string): boolean => !path.includes('/node_modules');

/** In this order: the others need what npm ci installs. */
function createCommands(
  folder: string,
  copy: string,
  { quick }: BenchmarkOptions,
): readonly Contender<CommandFigures>[] {
  const env = { ...userVariables, CI: 'true' };
  const command = (
    name: string,
    args: readonly string[],
    { cwd = copy, before = async () => {}, written }: CommandDetails,
  ): Contender<CommandFigures> => ({
    name,
    async measure() {
      await before();
      const figures = await measureTree(args, { cwd, env });
      return { ...figures, ...(written === undefined ? nothing : contentOf(written)) };
    },
  });
  const emptied = (path: string) => async () => {
    await rm(path, { recursive: true, force: true });
    await mkdir(path, { recursive: true });
  };
  const assembly = join(folder, 'assembly');
  const synth = ['npx', 'cdk', 'synth', '--quiet', '--output', assembly];
  const packed = join(folder, 'packed');
  const install = (name: string, packages: readonly string[]) => {
    const project = join(folder, name);
    const prepare = async () => {
      await emptied(project)();
      await writeFile(join(project, 'package.json'), JSON.stringify({ name: 'project', private: true }));
    };
    return {
      args: ['npm', 'install', '--no-audit', '--no-fund', '--prefer-offline', tarballIn(folder), ...packages],
      details: { cwd: project, before: prepare, written: join(project, 'node_modules') },
    };
  };
  const alone = install('alone', []);
  const withCdk = install(
    'with-cdk',
    Object.keys(packageJson.peerDependencies).map((name) => `${name}@${packageJson.devDependencies[name]}`),
  );
  const bundleCache = join(copy, 'node_modules/.cache');
  return [
    ...(quick
      ? []
      : [
          command('npm ci', ['npm', 'ci', '--no-audit', '--no-fund', '--prefer-offline'], {
            written: join(copy, 'node_modules'),
          }),
          command('npm test', ['npm', 'test'], {}),
          command('cdk synth, without cached bundles', synth, { before: emptied(bundleCache), written: assembly }),
        ]),
    command('cdk synth', synth, { written: assembly }),
    command('npm pack', ['npm', 'pack', '--silent', '--pack-destination', packed], {
      before: emptied(packed),
      written: packed,
    }),
    command('npm install of the package', alone.args, alone.details),
    ...(quick ? [] : [command('the same, with CDK', withCdk.args, withCdk.details)]),
  ];
}

interface CommandDetails {
  readonly cwd?: string;
  readonly before?: () => Promise<void>;
  /** The folder whose content the command has written. */
  readonly written?: string;
}

const nothing = { bytes: 0, packages: 0 };

const tarballIn = (folder: string): string => join(folder, 'packed', `report-exporter-${packageJson.version}.tgz`);

/** The files in the folder; for a folder of npm also the number of packages. */
function contentOf(folder: string) {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const sizes = files.map(({ parentPath, name }) => statSync(join(parentPath, name)).size);
  return { bytes: sizes.reduce((sum, size) => sum + size, 0), files: sizes.length, packages: countPackages(folder) };
}

function countPackages(modules: string): number {
  const lockFile = join(modules, '.package-lock.json');
  if (!existsSync(lockFile)) return 0;
  return Object.keys((JSON.parse(readFileSync(lockFile, 'utf8')) as { readonly packages: object }).packages).length;
}

async function measureFunctionSizes(folder: string): Promise<ReadonlyMap<FunctionName, number>> {
  const sizes = new Map<FunctionName, number>();
  for (const name of functionNames) sizes.set(name, (await bundleFunction(name, join(folder, 'functions'))).bytes);
  return sizes;
}

function commandTable(commands: readonly Contender<CommandFigures>[], rounds: Rounds<CommandFigures>): Table {
  const megabytes = (bytes: number) => (bytes === 0 ? '' : formatNumber(bytes / 1e6));
  return {
    title: 'Commands',
    columns: ['command', 'wall, s', 'CPU, s', 'peak RSS of all its processes, MB', 'writes, MB', 'packages'],
    rows: commands.map(({ name }) => {
      const median = (figure: (figures: CommandFigures) => number) => figureOf(rounds, name, figure).median;
      return [
        name,
        formatSpread(figureOf(rounds, name, ({ wallMs }) => wallMs / 1_000)),
        formatSpread(figureOf(rounds, name, ({ cpuMs }) => cpuMs / 1_000)),
        formatNumber(median(({ peakRssBytes }) => peakRssBytes / 1e6)),
        megabytes(median(({ bytes }) => bytes)),
        `${median(({ packages }) => packages) || ''}`,
      ];
    }),
  };
}

interface PackageContent {
  readonly packedBytes: number;
  readonly unpackedBytes: number;
  readonly files: number;
}

async function measurePackage(folder: string): Promise<PackageContent> {
  const tarball = tarballIn(folder);
  const unpacked = join(folder, 'unpacked');
  await mkdir(unpacked);
  await promisify(execFile)('tar', ['-xzf', tarball, '-C', unpacked]);
  const { bytes, files } = contentOf(unpacked);
  return { packedBytes: statSync(tarball).size, unpackedBytes: bytes, files };
}

function sizeTable(content: PackageContent, functions: ReadonlyMap<FunctionName, number>): Table {
  return {
    title: 'Sizes',
    columns: ['', 'KB', 'files'],
    rows: [
      ['package, packed', formatNumber(content.packedBytes / 1e3), '1'],
      ['package, unpacked', formatNumber(content.unpackedBytes / 1e3), `${content.files}`],
      ...[...functions].map(([name, bytes]) => [`function ${name}`, formatNumber(bytes / 1e3), '1']),
    ],
  };
}
