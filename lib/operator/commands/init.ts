/** `report-exporter init`: writes a project that deploys exports, from the template folders. */

import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { ExportError } from '../../core/errors.ts';
import { shellQuote, toPrintable } from '../../core/sanitize.ts';
import { whyUnreadable } from '../../settings/text-file.ts';
import { createDirectory, describeFileSystemError } from '../../local/durable-fs.ts';
import { simulatedDirectory } from '../../local/settings.ts';
import { type Call, exitStatuses, runCommand } from '../context.ts';
import { plural } from '../output/format.ts';
import { textStyleFor } from '../output/terminal.ts';
import { collectProblems } from '../run-options.ts';

/** Writes the files of the project to `directory`. If one of them exists, none is written. */
export async function initCommand(call: Call): Promise<number> {
  const { options, problems, stdout, env, packageFolder } = call;
  const [directory = ''] = call.names;
  const { api = false } = options;
  if (directory === '') problems.push('directory: must be given, such as init my-exports; for this directory: init .');
  const source = collectProblems(() => findPackage(options.package, packageFolder), problems);
  return await runCommand(call, async () => {
    const folder = resolve(directory);
    const { version, tarball } = source as PackageSource;
    const files = { ...readTemplates('project'), ...readTemplates(api ? 'api' : 'export-service') };
    const { 'README.md': readme = '', gitignore = '', 'service.md': ofService = '', ...others } = files;
    const values = templateValues(call, version);
    // With the feature flags of CDK that the package is developed with.
    const { context } = readJson<{ readonly context: object }>(join(packageFolder, 'cdk.json'));
    const written = writeNewFiles(folder, {
      ...fill({ ...others, 'README.md': readme.replace('{{service.md}}', ofService) }, values),
      '.gitignore': gitignore,
      // Otherwise npm installs with a warning what does not work on an older Node.js.
      '.npmrc': 'engine-strict=true\n',
      '.nvmrc': `${newestNode(packageFolder)}\n`,
      'cdk.json': `${JSON.stringify({ app: 'node app.js', context }, null, 2)}\n`,
      // A path outside the project would exist on this machine only.
      ...(tarball && tarball.path !== join(folder, tarball.name) && { [tarball.name]: tarball.content }),
    });
    const created = `${toPrintable(directory)} (${plural(written.length, 'file')})`;
    const lines = [
      `${textStyleFor(stdout, env)('green', 'Created:')} ${created}`,
      `  cd ${shellQuote(directory)}`,
      '  npm install',
      ...(api
        ? []
        : [`  npm start            runs an export here, against a simulated service, to ${simulatedDirectory}`]),
      `  Its README.md says how to ${api ? 'describe your API' : 'export from your service'}, and how to deploy.`,
      ...(tarball ? [`  Commit ${tarball.name}, too: the project installs report-exporter from it.`] : []),
    ];
    const json = { status: 'created', directory: folder, files: written };
    stdout.write(options.json === true ? `${JSON.stringify(json)}\n` : `${lines.join('\n')}\n`);
    return exitStatuses.ok;
  });
}

interface PackageSource {
  /** The version, as a package.json has it. */
  readonly version: string;
  /** A file that is copied into the project, unless it is there. */
  readonly tarball?: { readonly path: string; readonly name: string; readonly content: Buffer };
}

const isPath = (specifier: string): boolean => /^\.{0,2}[/\\]|\.tgz$/.test(specifier) && !/^\w+:/.test(specifier);

/** What `--package` names, or else the version that runs. @throws ConfigurationError if that cannot be installed */
function findPackage(chosen: string | undefined, packageFolder: string): PackageSource {
  const invalid = (problem: string) => new ExportError('ConfigurationError', `--package: ${problem}`);
  if (chosen === undefined) {
    const isCheckout = existsSync(join(packageFolder, 'bin/report-exporter.ts'));
    if (!isCheckout) return { version: `^${readJson<PackageJson>(join(packageFolder, 'package.json')).version}` };
    throw invalid('is needed in a checkout. Pack the checkout with npm pack, and give the path of the tarball');
  }
  if (!isPath(chosen)) return { version: chosen };
  try {
    const name = basename(chosen);
    return { version: `file:${name}`, tarball: { path: resolve(chosen), name, content: readFileSync(chosen) } };
  } catch (error) {
    throw invalid(`${chosen} ${whyUnreadable(error)}. Pack a checkout with npm pack`);
  }
}

interface PackageJson {
  readonly version: string;
  readonly engines: { readonly node: string };
  readonly devEngines: { readonly runtime: { readonly version: string } };
  readonly devDependencies: Readonly<Record<string, string>>;
}

const readJson = <Value>(file: string): Value => JSON.parse(readFileSync(file, 'utf8')) as Value;

/** The version that the package is developed with. */
const newestNode = (packageFolder: string): string =>
  readJson<PackageJson>(join(packageFolder, 'package.json')).devEngines.runtime.version.replace('>=', '');

/** The text of each file, by its name. */
type Files = Readonly<Record<string, string>>;

function readTemplates(name: 'project' | 'export-service' | 'api'): Files {
  const folder = join(import.meta.dirname, '../templates', name);
  return Object.fromEntries(readdirSync(folder).map((file) => [file, readFileSync(join(folder, file), 'utf8')]));
}

function templateValues({ options, packageFolder }: Call, version: string): Files {
  const { api = false } = options;
  const { engines, devDependencies } = readJson<PackageJson>(join(packageFolder, 'package.json'));
  return {
    ...devDependencies,
    node: engines.node,
    oldestNode: engines.node.replace('>=', ''),
    package: version,
    which: api ? ' --all' : ' --simulate',
    export: api ? 'contacts' : 'nightly',
  };
}

/** Replaces each `{{name}}` by its value, as JSON escapes it. */
const fill = (templates: Files, values: Files): Files =>
  Object.fromEntries(
    Object.entries(templates).map(([name, template]) => [
      name,
      template.replaceAll(/\{\{([\w-]+)\}\}/g, (_, key: string) => JSON.stringify(values[key]).slice(1, -1)),
    ]),
  );

/** Returns the names of the files. */
function writeNewFiles(folder: string, files: Readonly<Record<string, string | Buffer>>): readonly string[] {
  const names = Object.keys(files);
  const existing = names.filter((name) => existsSync(join(folder, name)));
  if (existing.length > 0) {
    const lines = existing.map((name) => `${join(folder, name)} exists already`);
    const advice = 'Nothing was written. Delete what is no longer needed, or choose another directory';
    throw new ExportError('ConfigurationError', [...lines, `  ${advice}`].join('\n'));
  }
  try {
    createDirectory(folder);
    for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content, { flag: 'wx' });
  } catch (cause) {
    const message = `${folder} cannot be written: ${describeFileSystemError(cause)}`;
    throw new ExportError('ConfigurationError', message, { cause });
  }
  return names;
}
