/** `report-exporter init`: writes a project that deploys exports, from nothing. */

import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { ExportError } from '../../core/errors.ts';
import { shellQuote, toPrintable } from '../../core/sanitize.ts';
import { serviceNameSchema } from '../../settings/deployment-settings.ts';
import { createDirectory, describeFileSystemError } from '../../local/durable-fs.ts';
import { type CommandContext, exitStatuses, reportError } from '../context.ts';
import { plural } from '../output/format.ts';
import { textStyleFor } from '../output/terminal.ts';
import { checkService, collectProblems } from '../run-options.ts';

export interface InitOptions {
  readonly baseUrl?: string;
  readonly vendor?: string;
  /** What the project installs as report-exporter, as npm takes it: a version, or the path of a tarball. */
  readonly package?: string;
  /** Describe another API than the Report Export Service, by an example. */
  readonly api?: boolean;
  readonly json?: boolean;
  /** The folder of the package that is running. */
  readonly packageFolder: string;
}

/** Writes the files of the project to `directory`, all of them or none. Files that exist are not changed. */
export async function initCommand(
  directory: string | undefined,
  options: InitOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  try {
    const folder = resolve(directory ?? '.');
    const files = readProject(directory, folder, options, usageErrors);
    writeNewFiles(folder, files);
    const { stdout, env } = context;
    const names = Object.keys(files);
    const tarball = names.find((name) => name.endsWith('.tgz'));
    stdout.write(
      options.json === true
        ? `${JSON.stringify({ status: 'created', directory: folder, files: names })}\n`
        : [
            `${textStyleFor(stdout, env)('green', 'Created:')} ${toPrintable(String(directory))} (${plural(names.length, 'file')})`,
            `  cd ${shellQuote(String(directory))}`,
            '  npm install',
            ...(options.api === true
              ? []
              : ['  npm start            runs an export here, against a simulated service']),
            `  Its README.md says how to ${options.api === true ? 'describe your API' : 'export from your service'}, and how to deploy.`,
            ...(tarball === undefined
              ? []
              : [`  Commit ${tarball}, too: the project installs report-exporter from it.`]),
            '',
          ].join('\n'),
    );
    return exitStatuses.ok;
  } catch (error) {
    return reportError(error, options, context);
  }
}

/** What is written to each file, by its name. */
type Files = Readonly<Record<string, string | Uint8Array>>;

/** The files of the project. @throws ConfigurationError with a line for every problem */
function readProject(
  directory: string | undefined,
  folder: string,
  options: InitOptions,
  usageErrors: readonly string[],
): Files {
  const { api = false, vendor = 'ACME', packageFolder } = options;
  const { baseUrl = api ? 'https://api.example.com' : 'https://reports.example.com' } = options;
  const problems = [...usageErrors];
  if (directory === undefined || directory === '') {
    problems.push('directory: must be given, such as init my-exports; for this directory: init .');
  }
  if (api && options.vendor !== undefined) problems.push('--vendor: has no meaning with --api');
  checkService(options, problems);
  const source = collectProblems(() => findPackage(options), problems);
  if (source === undefined || problems.length > 0) throw new ExportError('ConfigurationError', problems.join('\n'));
  const { engines, devDependencies } = readJson<PackageJson>(join(packageFolder, 'package.json'));
  const { context } = readJson<{ readonly context: object }>(join(packageFolder, 'cdk.json'));
  const service = serviceNameOf(vendor);
  const values = {
    ...devDependencies,
    name: packageName(basename(folder)),
    node: engines.node,
    oldestNode: engines.node.replace('>=', ''),
    package: source.version,
    simulate: api ? '' : ' --simulate',
    service,
    outputPrefix: outputPrefix(service),
    baseUrl,
    vendor,
  };
  const templates = { ...readTemplates('project'), ...readTemplates(api ? 'api' : 'export-service') };
  const { 'README.md': readme = '', gitignore = '', 'service.md': ofService = '', ...others } = templates;
  const files = { ...others, 'README.md': readme.replace('{{service.md}}', ofService), '.gitignore': gitignore };
  const { tarball } = source;
  return {
    ...Object.fromEntries(Object.entries(files).map(([name, template]) => [name, fill(template, values)])),
    // With the feature flags of CDK that the package is developed with.
    'cdk.json': `${JSON.stringify({ app: 'node app.js', context }, null, 2)}\n`,
    // A path outside the project would exist on this machine only.
    ...(tarball !== undefined && dirname(tarball) !== folder && { [basename(tarball)]: readFileSync(tarball) }),
  };
}

interface PackageJson {
  readonly version: string;
  readonly engines: { readonly node: string };
  readonly devDependencies: Readonly<Record<string, string>>;
}

const readJson = <Value>(file: string): Value => JSON.parse(readFileSync(file, 'utf8')) as Value;

function readTemplates(name: 'project' | 'export-service' | 'api'): Readonly<Record<string, string>> {
  const folder = join(import.meta.dirname, '../templates', name);
  return Object.fromEntries(readdirSync(folder).map((file) => [file, readFileSync(join(folder, file), 'utf8')]));
}

/** Replaces each `{{name}}` by its value, as JSON escapes it. */
const fill = (template: string, values: Readonly<Record<string, string>>): string =>
  template.replaceAll(/\{\{([\w-]+)\}\}/g, (_, name: string) => JSON.stringify(values[name]).slice(1, -1));

interface PackageSource {
  /** As in a package.json. */
  readonly version: string;
  /** What the project needs a copy of. */
  readonly tarball?: string;
}

/**
 * The dependency of the project on this package: what `--package` names, otherwise the tarball that this package was
 * installed from, or its version, which npm looks up in a registry.
 * @throws ConfigurationError if the tarball does not exist, or if this is a checkout, which a project cannot depend on
 */
function findPackage({ package: chosen, packageFolder }: InitOptions): PackageSource {
  const installedFrom = findTarball(packageFolder);
  const tarball = chosen === undefined ? installedFrom : isPath(chosen) ? resolve(chosen) : undefined;
  if (tarball !== undefined) {
    if (!existsSync(tarball)) throw new ExportError('ConfigurationError', `--package: ${tarball} does not exist`);
    if (!statSync(tarball).isFile()) {
      const message = `--package: ${tarball} is not a tarball. Pack that checkout with npm pack`;
      throw new ExportError('ConfigurationError', message);
    }
    return { version: `file:${basename(tarball)}`, tarball };
  }
  if (chosen !== undefined) {
    if (versionPattern.test(chosen)) return { version: chosen };
    const message = '--package: must be a version or a range, a tag, or the path of a tarball';
    throw new ExportError('ConfigurationError', message);
  }
  if (existsSync(join(packageFolder, 'bin/report-exporter.ts'))) {
    throw new ExportError(
      'ConfigurationError',
      '--package: is needed in a checkout, to say what the project installs. Pack the checkout with npm pack, and give ' +
        'the path of the tarball',
    );
  }
  return { version: `^${readJson<PackageJson>(join(packageFolder, 'package.json')).version}` };
}

/** A range may have several parts; everything else that npm takes has one. */
const versionPattern = /^([\w.:/@+#~^-]+|([\^~<>=|*\d.x -]|\d[\w.+-]*)+)$/;

const isPath = (specifier: string): boolean => /^\.{0,2}[/\\]|\.tgz$/.test(specifier) && !/^\w+:/.test(specifier);

/** npm records where it got each package from. */
function findTarball(packageFolder: string): string | undefined {
  const modules = dirname(packageFolder);
  try {
    const { packages } = readJson<{ packages: Record<string, { resolved?: string }> }>(
      join(modules, '.package-lock.json'),
    );
    const { resolved = '' } = packages[`node_modules/${basename(packageFolder)}`] ?? {};
    return resolved.startsWith('file:') ? resolve(dirname(modules), resolved.slice('file:'.length)) : undefined;
  } catch {
    return undefined;
  }
}

/** A valid name for npm. It must not be that of a dependency, which npm would refuse to install. */
function packageName(folder: string): string {
  const name = folder
    .normalize('NFKD')
    .replaceAll(/\p{Mark}/gu, '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, '-')
    .replaceAll(/^-+|-+$/g, '');
  return name === '' || reservedNames.has(name) ? 'report-exports' : name.slice(0, 100);
}

const reservedNames: ReadonlySet<string> = new Set([
  'report-exporter',
  'aws-cdk',
  'aws-cdk-lib',
  'constructs',
  'node-modules',
]);

/** `ACME` → `acme`. A vendor whose name is no name of a service gets a general one. */
function serviceNameOf(vendor: string): string {
  const name = serviceNameSchema.safeParse(vendor.toLowerCase());
  return name.success ? name.data : 'reports';
}

/** As the outputs of the stack begin: `eu-reports` → `EuReports`. */
const outputPrefix = (serviceName: string): string =>
  serviceName.replaceAll(/(?:^|-+)([a-z0-9]?)/g, (_, first: string) => first.toUpperCase());

function writeNewFiles(folder: string, files: Files): void {
  const existing = Object.keys(files).filter((name) => existsSync(join(folder, name)));
  if (existing.length > 0) {
    const lines = existing.map((name) => `${join(folder, name)} exists already`);
    const advice = 'Nothing was written. Delete what is no longer needed, or choose another directory';
    throw new ExportError('ConfigurationError', [...lines, `  ${advice}`].join('\n'));
  }
  const written: string[] = [];
  try {
    createDirectory(folder);
    for (const [name, content] of Object.entries(files)) {
      const file = join(folder, name);
      writeFileSync(file, content, { flag: 'wx' });
      written.push(file);
    }
  } catch (cause) {
    // The next attempt must not find half a project.
    for (const file of written) {
      try {
        rmSync(file);
      } catch {
        // The error to report is that of the file that could not be written.
      }
    }
    const message = `${folder} cannot be written: ${describeFileSystemError(cause)}`;
    throw new ExportError('ConfigurationError', message, { cause });
  }
}
