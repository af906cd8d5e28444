/**
 * The package: what its tarball contains, and how it works where it is installed. In one file, because packing replaces
 * `dist`.
 */

import { execFileSync } from 'node:child_process';
import { globSync, readFileSync, statSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stepNames } from '../../lib/core/state-machine/definition.ts';
import { install, type Outcome, pack, packageJson, root, runNode } from '../support/package/installation.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../support/temporary-directory.ts';

/** The oldest versions that package.json allows. */
const oldest = (name: string) => `${name}@${packageJson.peerDependencies[name]?.replace('^', '')}`;
const current = (name: string) => `${name}@${packageJson.devDependencies[name]}`;
const oldestNode = packageJson.engines.node.replace('>=', '');
/** An executable of Node.js, as a package that needs no install script. */
const oldestNodePackage = `node-${process.platform}-${process.arch}`;

let directory: TemporaryDirectory;
let tarball: string;
/** The unpacked tarball. */
let content: string;
let files: readonly string[];
/** A project with the package alone, one with the current CDK, and one with the oldest. */
let commandLine: string;
let currentApp: string;
let oldestApp: string;
let oldestNodePath: string;
beforeAll(async () => {
  directory = await temporaryDirectory();
  const folder = (name: string) => join(directory.path, name);
  tarball = await pack(directory.path);
  execFileSync('tar', ['-xzf', tarball, '-C', directory.path]);
  content = folder('package');
  files = globSync('**/*', { cwd: content }).filter((file) => statSync(join(content, file)).isFile());
  commandLine = folder('command-line');
  currentApp = folder('current');
  oldestApp = folder('oldest');
  oldestNodePath = join(folder('oldest-node'), 'node_modules', oldestNodePackage, 'bin/node');
  await Promise.all([
    install(commandLine, 'commonjs', [tarball]),
    install(currentApp, 'module', [
      tarball,
      ...['aws-cdk-lib', 'constructs', '@types/node', '@types/aws-lambda', '@aws-sdk/client-sqs', 'ajv'].map(current),
    ]),
    install(oldestApp, 'commonjs', [tarball, oldest('aws-cdk-lib'), oldest('constructs')]),
    install(folder('oldest-node'), 'commonjs', [`${oldestNodePackage}@${oldestNode}.0`]),
  ]);
});
afterAll(async () => await directory.remove());

const textOf = (file: string) => readFileSync(join(content, file), 'utf8');

describe('the tarball', () => {
  it('has at most 3.1 MB', () => {
    expect(statSync(tarball).size).toBeLessThan(3_100_000);
  });

  it('has no unexpected files: no TypeScript but recipes, no tests or benchmarks', () => {
    const expected = [
      /^(package|cdk)\.json$/,
      /^(README\.md|LICENSE|(CHANGELOG|SECURITY|bench\/README)\.md)$/,
      /^bin\/(report-exporter|require-node)\.mjs$/,
      /^docs\/[a-z-]+\.md$/,
      /^docs\/apis\/[a-z0-9-]+\.json$/,
      /^docs\/recipes\/[a-z]+\/[a-z0-9_-]+\.(sh|py|sql|ts|asl\.json)$/,
      /^docs\/cloudformation\/[a-z]+\.(sh|tf)$/,
      /^docs\/schemas\/[a-z0-9.]+\.schema\.json$/,
      /^docs\/images\/[a-z-]+\.(png|svg)$/,
      /^dist\/(bin|lib)\/[a-z0-9/-]+\.(js|d\.ts)$/,
      /^dist\/lib\/operator\/run-report\/page\.(css|html)$/,
      /^dist\/lib\/operator\/templates\/(project|api|export-service)\/[a-z-]+(\.[a-z]+)?$/i,
      new RegExp(`^dist/functions/(${stepNames.join('|')})/index\\.js(\\.map)?$`),
      /^dist\/functions\/THIRD-PARTY-LICENSES\.txt$/,
    ];
    expect(files.length).toBeGreaterThan(300);
    expect(files.filter((file) => !expected.some((pattern) => pattern.test(file)))).toEqual([]);
  });

  it('has the licenses of the packages that the functions contain', () => {
    const licenses = textOf('dist/functions/THIRD-PARTY-LICENSES.txt');
    const inFunctions = ['@aws-sdk/client-s3', '@aws-lambda-powertools/logger', 'saxes', 'undici', 'zod'];
    for (const name of inFunctions) {
      expect(licenses).toMatch(new RegExp(`^${RegExp.escape(name)} [0-9.]+ \\([\\w.-]+\\)$`, 'm'));
    }
    expect(licenses).toContain('Permission is hereby granted, free of charge');
  });

  it('has source maps of the functions, which name files of the project', () => {
    for (const step of stepNames) {
      const { sources } = JSON.parse(textOf(`dist/functions/${step}/index.js.map`)) as {
        readonly sources: readonly string[];
      };
      expect(sources).toContain('../lib/core/errors.ts');
    }
  });

  it('names no folder of the machine that built it', () => {
    expect(files.filter((file) => textOf(file).includes(root))).toEqual([]);
  });

  it('declares exactly the packages that it imports, and those of the functions that users must be able to audit', () => {
    const scripts = files.filter((file) => /^(bin|dist\/(bin|lib))\/.*\.m?js$/.test(file));
    const specifiers = scripts.flatMap((file) => [
      ...textOf(file).matchAll(
        /(?:\bfrom\s+|\bimport\s+|\bimport\(|(?:\bmeta|\brequire|\))\.resolve\()(['"])([^.'"][^'"\n]*)\1/g,
      ),
    ]);
    const packages = specifiers.map(([, , name = '']) => /^(@[^/]+\/)?[^/]+/.exec(name)?.[0] ?? '');
    const imported = new Set(packages.filter((name) => !name.startsWith('node:') && name !== 'report-exporter'));
    const { dependencies, peerDependencies } = packageJson;
    const ofFunctions = ['@aws-lambda-powertools/logger', '@aws-lambda-powertools/metrics'];
    expect([...imported, ...ofFunctions].sort()).toEqual(Object.keys({ ...dependencies, ...peerDependencies }).sort());
  });
});

const installed = (project: string) => join(project, 'node_modules/report-exporter');

describe('the installed command line', () => {
  const run = (args: readonly string[], node = process.execPath): Promise<Outcome> =>
    runNode(commandLine, ['node_modules/.bin/report-exporter', ...args], { node });

  it('brings neither CDK nor what only development needs', async () => {
    const packages = await readdir(join(commandLine, 'node_modules'));
    expect(packages).toContain('commander');
    const development = ['aws-cdk-lib', 'constructs', 'cdk-nag', 'esbuild', 'typescript', 'vitest', 'node'];
    const unwanted = [...development, 'asl-validator', 'ajv', 'jsonata'];
    expect(unwanted.filter((name) => packages.includes(name))).toEqual([]);
  });

  it('brings the packages in the software bill of materials', () => {
    const sbom = execFileSync('npm', ['run', '--silent', 'sbom'], { cwd: root, encoding: 'utf8' });
    const { components, dependencies } = JSON.parse(sbom) as {
      readonly components: readonly { readonly name: string; readonly 'bom-ref': string }[];
      readonly dependencies: readonly { readonly ref: string }[];
    };
    expect(dependencies.slice(1).map(({ ref }) => ref)).toEqual(components.map((each) => each['bom-ref']));
    const lockFile = readFileSync(join(commandLine, 'package-lock.json'), 'utf8');
    const { packages } = JSON.parse(lockFile) as { readonly packages: Readonly<Record<string, object>> };
    const installedNames = Object.keys(packages).map((folder) => folder.replace(/^.*node_modules\//, ''));
    const expected = installedNames.filter((name) => name !== '' && name !== 'report-exporter');
    expect(new Set(components.map(({ name }) => name))).toEqual(new Set(expected));
  });

  it('exports, shows, verifies and reports a run on the oldest Node.js', async () => {
    const out = join(commandLine, 'exports');
    const ok = { status: 0, stderr: '' };
    expect(await run(['--version'], oldestNodePath)).toEqual({ ...ok, stdout: `${packageJson.version}\n` });
    // The second run starts where the first one ended.
    let since = '1970-01-01T00:00:00Z';
    for (const _ of ['first', 'second']) {
      const local = await run(['local', '--out', out, '--json'], oldestNodePath);
      expect(local).toMatchObject({ status: 0, stderr: expect.not.stringContaining('Warning') });
      const result = JSON.parse(local.stdout) as { readonly watermark: string };
      expect(result).toMatchObject({ status: 'completed', since });
      since = result.watermark;
    }
    const status = await run(['status', '--out', out, '--json'], oldestNodePath);
    expect(status).toMatchObject(ok);
    expect(JSON.parse(status.stdout)).toMatchObject({
      exports: [{ export: 'reports', runs: [{ state: 'completed' }, { state: 'completed' }] }],
    });
    const verify = await run(['verify', '--out', out], oldestNodePath);
    expect(verify).toMatchObject({ ...ok, stdout: expect.stringMatching(/^Verified: /) });
    expect(await run(['doctor', '--out', out], oldestNodePath)).toMatchObject({ status: 0 });

    const file = join(out, 'report.html');
    expect(await run(['report', '--out', out, '--to', file], oldestNodePath)).toMatchObject(ok);
    const html = await readFile(file, 'utf8');
    expect(html).toContain('var uPlot');
    for (const asset of ['page.css', 'page.js']) {
      expect(html).toContain(await readFile(join(root, 'lib/operator/run-report', asset), 'utf8'));
    }
  });

  it('keeps compiled modules in its own folder, and works where it cannot', async () => {
    const cache = join(installed(commandLine), 'node_modules/.cache/report-exporter');
    expect((await readdir(cache)).length).toBeGreaterThan(0);
    // Node.js finds the packages that it needs in the folder above.
    const copy = join(commandLine, 'read-only');
    const withoutCache = (path: string) => !path.startsWith(join(installed(commandLine), 'node_modules'));
    await cp(installed(commandLine), copy, { recursive: true, filter: withoutCache });
    // A file where the folder would be: it cannot be created, not even by root.
    await writeFile(join(copy, 'node_modules'), '');
    expect(await runNode(copy, ['bin/report-exporter.mjs', '--version'])).toEqual({
      status: 0,
      stdout: `${packageJson.version}\n`,
      stderr: '',
    });
  });
});

const settings = {
  services: { acme: { baseUrl: 'https://reports.example.com', vendor: 'ACME' } },
  exports: [{ name: 'nightly', schedule: { expression: 'cron(0 2 * * ? *)', freshness: 'PT26H' } }],
};

const typeScriptApp = `
import { App, Stack, type StackProps } from 'aws-cdk-lib';
import { AttributeType, Table } from 'aws-cdk-lib/aws-dynamodb';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { Secret } from 'aws-cdk-lib/aws-secretsmanager';
import { ReportExporter, ReportExporterStack, type ReportExporterProps } from 'report-exporter';
import type { CompletedEventDetail, DeploymentSettings, FailedEventDetail, LatestPointer, Manifest } from 'report-exporter';
import { deploymentSettings } from 'report-exporter/settings';

const app = new App();
const settings: DeploymentSettings = deploymentSettings(${JSON.stringify(settings)});
new ReportExporterStack(app, 'ReportExporter', { settings });

class OwnStack extends Stack {
  readonly exporter: ReportExporter;
  constructor(scope: App, id: string, props?: StackProps) {
    super(scope, id, props);
    const key = { partitionKey: { name: 'pk', type: AttributeType.STRING }, sortKey: { name: 'sk', type: AttributeType.STRING } };
    const given: ReportExporterProps = {
      service: { baseUrl: 'https://reports.example.com' },
      exports: [{ name: 'nightly', size: 10 }],
      bucket: new Bucket(this, 'Bucket'),
      table: new Table(this, 'Table', { ...key, timeToLiveAttribute: 'expiresAt' }),
      secret: new Secret(this, 'Secret'),
    };
    this.exporter = new ReportExporter(this, 'Reports', given);
    this.exporter.onCompleted('Load', { export: 'nightly' });
  }
}
new OwnStack(app, 'Own');
app.synth();

export const keysOf = (manifest: Manifest): string[] => manifest.pages.map(({ key }) => key);
export const manifestOf = ({ result }: CompletedEventDetail): string => result.manifest;
export const errorOf = ({ error }: FailedEventDetail): string => error;
export const runOf = ({ run }: LatestPointer): string => run;
// @ts-expect-error: the types are checked, so the number is found.
export const wrong: ReportExporterProps['exports'] = [{ name: 1 }];
`;

const commonJsApp = `
const { App } = require('aws-cdk-lib');
const { ReportExporterStack } = require('report-exporter');
const { deploymentSettings } = require('report-exporter/settings');
const app = new App();
new ReportExporterStack(app, 'ReportExporter', { settings: deploymentSettings(${JSON.stringify(settings)}) });
app.synth();
`;

const syntheses = new Map<string, ReturnType<typeof synthesizeOnce>>();

/** Synthesizes the app, once. Returns the code of its functions, and the resources of the first template. */
function synthesize(project: string, app: string, node = process.execPath): ReturnType<typeof synthesizeOnce> {
  const key = [project, app, node].join();
  const synthesis = syntheses.get(key) ?? synthesizeOnce(project, app, node);
  syntheses.set(key, synthesis);
  return synthesis;
}

async function synthesizeOnce(project: string, app: string, node: string) {
  const assembly = join(project, `cdk.out-${app}-${node.replaceAll(/\W/g, '-')}`);
  const { status, stderr } = await runNode(project, [app], { node, variables: { CDK_OUTDIR: assembly } });
  // Older versions of CDK print deprecations. Nothing else is printed.
  expect({ status, stderr }).toMatchObject({ status: 0, stderr: expect.not.stringContaining('Error') });
  const assets = globSync('asset.*/index.js', { cwd: assembly }).sort();
  const template = await readFile(join(assembly, 'ReportExporter.template.json'), 'utf8');
  return { assembly, assets, resources: Object.values<{ Type: string }>(JSON.parse(template).Resources) };
}

describe('the installed constructs', () => {
  beforeAll(async () => {
    await writeFile(join(currentApp, 'app.ts'), typeScriptApp);
    await writeFile(join(oldestApp, 'app.js'), commonJsApp);
  });

  it('synthesize in a TypeScript app with ES modules and the current CDK, with the bundles of the package', async () => {
    const { assembly, assets, resources } = await synthesize(currentApp, 'app.ts');
    expect(resources.filter(({ Type }) => Type === 'AWS::Lambda::Function')).toHaveLength(4);
    // Two services with different settings, four functions each.
    expect(assets).toHaveLength(8);
    const bundles = globSync('dist/functions/*/index.js', { cwd: installed(currentApp) });
    const packaged = await Promise.all(bundles.map((file) => readFile(join(installed(currentApp), file), 'utf8')));
    for (const asset of assets) expect(packaged).toContain(await readFile(join(assembly, asset), 'utf8'));
    expect(await readdir(join(assembly, '..', 'node_modules'))).not.toContain('esbuild');
  });

  it('synthesize in a JavaScript app with CommonJS and the oldest CDK, with the same assets', async () => {
    const { assets } = await synthesize(oldestApp, 'app.js');
    expect(assets).toHaveLength(4);
    const { assets: ofCurrent } = await synthesize(currentApp, 'app.ts');
    expect(ofCurrent).toEqual(expect.arrayContaining(assets));
  });

  it.each(['import', 'require'])('and every other export can be loaded with %s', async (how) => {
    const names = Object.keys(packageJson.exports).flatMap((name) =>
      name === './schemas/*' ? globSync('schemas/*', { cwd: join(root, 'docs') }) : name.slice(2),
    );
    expect(names).toEqual(['', 'settings', ...names.filter((name) => name.startsWith('schemas/')), 'package.json']);
    const load = (name: string) => {
      const specifier = JSON.stringify(join('report-exporter', name).replace(/\/$/, ''));
      const options = name.endsWith('.json') ? `, { with: { type: 'json' } }` : '';
      return how === 'import' ? `await import(${specifier}${options})` : `require(${specifier})`;
    };
    const body = `(async () => { for (const loaded of [${names.map(load).join(', ')}]) console.log(typeof loaded); })()`;
    const { status, stdout, stderr } = await runNode(currentApp, ['--input-type=commonjs', '-e', body]);
    expect({ status, stderr, count: stdout.trim().split('\n').length }).toEqual({
      status: 0,
      stderr: '',
      count: names.length,
    });
  });
});

/** The CDK app in the recipes. */
const recipesApp = `
import { App } from 'aws-cdk-lib';
import { ReportExporterStack } from 'report-exporter';
import { copyRuns } from '../aws/copy-runs';
import { queuePages } from '../aws/queue-pages';

const acme = { baseUrl: 'https://reports.example.com', vendor: 'ACME' };
const stack = new ReportExporterStack(new App(), 'Reports', {
  settings: { services: { acme }, exports: [{ name: 'nightly' }] },
});
for (const service of stack.services) {
  copyRuns(stack, service, 'nightly');
  queuePages(stack, service, 'nightly');
}
`;

describe('the types of the installed package', () => {
  const require = createRequire(import.meta.url);
  const compiler = join(dirname(require.resolve('typescript/package.json')), 'bin/tsc');

  it('are complete for ES modules and for CommonJS, which may require an ES module as in Node.js', async () => {
    const project = join(currentApp, 'types');
    await mkdir(project);
    const consumers = ['consumer.mts', 'consumer.cts'];
    for (const file of consumers) await writeFile(join(project, file), typeScriptApp);
    const compilerOptions = {
      noEmit: true,
      strict: true,
      skipLibCheck: false,
      target: 'es2023',
      types: ['node'],
      module: 'nodenext',
    };
    await writeFile(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: consumers }));
    const { status, stdout } = await runNode(project, [compiler, '-p', '.']);
    expect({ status, stdout }).toEqual({ status: 0, stdout: '' });
  });

  it('fit the recipes for AWS in an app of `cdk init --language typescript`', async () => {
    const project = join(currentApp, 'template');
    const template = join(root, 'node_modules/aws-cdk/lib/init-templates/app/typescript/tsconfig.json');
    await mkdir(join(project, 'bin'), { recursive: true });
    await writeFile(join(project, 'package.json'), JSON.stringify({ name: 'template', version: '0.1.0' }));
    await cp(template, join(project, 'template.json'));
    // The types of Jest, for the tests of the template, are not installed.
    const overrides = {
      extends: './template.json',
      compilerOptions: { types: ['node'], typeRoots: ['../node_modules/@types'] },
    };
    await writeFile(join(project, 'tsconfig.json'), JSON.stringify(overrides));
    await cp(join(content, 'docs/recipes/aws'), join(project, 'aws'), { recursive: true });
    await writeFile(join(project, 'bin/app.ts'), recipesApp);
    const { status, stdout } = await runNode(project, [compiler, '-p', '.']);
    expect({ status, stdout }).toEqual({ status: 0, stdout: '' });

    const bundle = join(project, 'app.js');
    const entryPoints = [join(project, 'bin/app.ts')];
    await build({ entryPoints, outfile: bundle, bundle: true, platform: 'node', packages: 'external' });
    const variables = { CDK_OUTDIR: join(project, 'cdk.out'), CDK_CONTEXT_JSON: '{"aws:cdk:bundling-stacks":[]}' };
    expect(await runNode(project, [bundle], { variables })).toMatchObject({ status: 0 });
    expect(await readdir(join(project, 'cdk.out'))).toContain('Reports.template.json');
  });
});
