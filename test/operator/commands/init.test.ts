import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { deploymentSettings } from '../../../lib/cdk/settings/deployment-settings.ts';
import { initCommand } from '../../../lib/operator/commands/init.ts';
import { packageJson, root } from '../../support/package/installation.ts';
import { aDirectory, runInProcess } from '../../support/process/command-line.ts';

const files = ['.gitignore', 'README.md', 'app.js', 'cdk.json', 'package.json', 'report-exporter.json'];

async function init(...words: readonly string[]) {
  return await runInProcess(['init', ...words, '--package', '^1.0.0']);
}

const readJson = async (...path: readonly string[]) => JSON.parse(await readFile(join(...path), 'utf8'));

/** A folder that npm has installed the package in, from `resolved`. */
async function installedFrom(resolved: string): Promise<string> {
  const project = await aDirectory();
  const packageFolder = join(project, 'node_modules/report-exporter');
  await mkdir(packageFolder, { recursive: true });
  for (const file of ['package.json', 'cdk.json']) {
    await writeFile(join(packageFolder, file), await readFile(join(root, file)));
  }
  const lock = { packages: { 'node_modules/report-exporter': { resolved } } };
  await writeFile(join(project, 'node_modules/.package-lock.json'), JSON.stringify(lock));
  return packageFolder;
}

async function dependencyOf(packageFolder: string, options: { readonly package?: string } = {}): Promise<unknown> {
  const project = join(await aDirectory(), 'project');
  const output: string[] = [];
  const stream = { write: (text: string) => output.push(text) };
  const { signal } = new AbortController();
  const context = { env: {}, stdin: Readable.from([]), stdout: stream, stderr: stream, signal, program: 'x' };
  const status = await initCommand(project, { ...options, packageFolder }, [], context);
  if (status !== 0) return output.join('');
  return (await readJson(project, 'package.json')).dependencies['report-exporter'];
}

describe('a new project', () => {
  it('has a CDK app, valid settings, and the versions that the package is developed with', async () => {
    const project = join(await aDirectory(), 'My Exports');
    const ended = await init(project);
    expect(ended).toMatchObject({ status: 0, stderr: '' });
    expect(ended.stdout).toContain(`Created: ${project} (6 files)\n  cd '${project}'\n  npm install\n`);
    expect((await readdir(project)).sort()).toEqual(files);

    const { name, engines, dependencies, devDependencies } = await readJson(project, 'package.json');
    expect({ name, engines }).toEqual({ name: 'my-exports', engines: packageJson.engines });
    expect({ ...dependencies, ...devDependencies }).toEqual({
      'aws-cdk': `^${packageJson.devDependencies['aws-cdk']}`,
      'aws-cdk-lib': `^${packageJson.devDependencies['aws-cdk-lib']}`,
      constructs: `^${packageJson.devDependencies['constructs']}`,
      'report-exporter': '^1.0.0',
    });
    const { context, app } = await readJson(project, 'cdk.json');
    expect(app).toBe('node app.js');
    expect(context).toEqual((await readJson(root, 'cdk.json')).context);

    const settings = deploymentSettings(join(project, 'report-exporter.json'));
    expect(settings.services).toMatchObject([
      {
        name: 'acme',
        service: { baseUrl: 'https://reports.example.com', vendor: 'ACME' },
        exports: [{ name: 'nightly', schedule: { enabled: false } }],
      },
    ]);
  });

  it('names the given service', async () => {
    const project = join(await aDirectory(), 'contoso');
    const { stdout } = await init(
      project,
      '--base-url',
      'https://api.contoso.example',
      '--vendor',
      'Contoso-EU',
      '--json',
    );
    expect(JSON.parse(stdout)).toEqual({ status: 'created', directory: project, files: expect.any(Array) });
    expect(deploymentSettings(join(project, 'report-exporter.json')).services).toMatchObject([
      { name: 'contoso-eu', service: { baseUrl: 'https://api.contoso.example', vendor: 'Contoso-EU' } },
    ]);
    const readme = await readFile(join(project, 'README.md'), 'utf8');
    expect(readme).toContain('`ContosoEuApiKeySecretId`');
  });

  it('describes another API by an example, and leads to probe', async () => {
    const project = join(await aDirectory(), 'logs');
    expect(await init(project, '--api')).toMatchObject({ status: 0 });
    const file = join(project, 'report-exporter.json');
    expect(deploymentSettings(file).services[0]?.service).toMatchObject({
      baseUrl: 'https://api.example.com',
      api: { next: { from: 'body' } },
    });
    expect(await readFile(join(project, 'README.md'), 'utf8')).toContain(
      'report-exporter plan --settings report-exporter.json --request',
    );
    const { scripts } = await readJson(project, 'package.json');
    expect(scripts.start).toBe('report-exporter local --settings report-exporter.json');
    expect(await init(join(project, 'other'), '--api', '--vendor', 'ACME')).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('--vendor: has no meaning with --api'),
    });
  });

  it.each([
    // npm would refuse to install a package into one of the same name.
    ['report-exporter', 'report-exports'],
    ['aws-cdk-lib', 'report-exports'],
    ['日本', 'report-exports'],
    ['Ünï côde', 'uni-code'],
    ['new\nline', 'new-line'],
  ])('in %j has a name that npm accepts: %s', async (folder, name) => {
    const project = join(await aDirectory(), folder);
    const { stdout } = await init(project);
    expect(await readJson(project, 'package.json')).toMatchObject({ name });
    expect(stdout.split('\n')[0]).toMatch(/^Created: .* \(6 files\)$/);
  });

  it('leaves no file if one cannot be written', async () => {
    const parent = await aDirectory();
    // A name of 256 bytes.
    const ended = await init(join(parent, 'a'.repeat(256)));
    expect(ended).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('cannot be written: its path is too long. Choose another directory\n'),
    });
    const project = join(parent, 'project');
    await mkdir(project);
    // It does not exist, but cannot be created either.
    await symlink('/nowhere/at/all', join(project, 'cdk.json'));
    expect(await init(project)).toMatchObject({ status: 2 });
    expect(await readdir(project)).toEqual(['cdk.json']);
  });

  it.skipIf(process.platform !== 'linux')('fails at once where no folder can be created', async () => {
    expect(await init('/proc/report-exporter')).toMatchObject({
      status: 2,
      stderr: expect.stringContaining(
        'its directory does not exist, or accepts no new files. Choose another directory',
      ),
    });
  });

  it.each(['', '^9 evil', 'a b', '--x y'])('is not made to install %j', async (version) => {
    const project = join(await aDirectory(), 'project');
    const ended = await runInProcess(['init', project, '--package', version]);
    expect(ended).toMatchObject({ status: 2, stderr: expect.stringContaining('--package: ') });
  });

  it.each(['^1.0.0', '1.x', '>=1.0.0 <2', '~1.2 || 2', 'next', 'github:owner/name#v1'])(
    'can install %s',
    async (version) => {
      const project = join(await aDirectory(), 'project');
      expect(await runInProcess(['init', project, '--package', version])).toMatchObject({ status: 0 });
      expect((await readJson(project, 'package.json')).dependencies['report-exporter']).toBe(version);
    },
  );

  it('cannot install a folder, such as a checkout', async () => {
    const project = join(await aDirectory(), 'project');
    const ended = await runInProcess(['init', project, '--package', await aDirectory()]);
    expect(ended).toMatchObject({ status: 2, stderr: expect.stringContaining('is not a tarball') });
  });

  it.each(files)('does not overwrite %s, and then writes nothing', async (file) => {
    const project = await aDirectory();
    await writeFile(join(project, file), 'mine');
    await writeFile(join(project, 'other'), '');
    const ended = await init(project);
    expect(ended).toMatchObject({ status: 2, stdout: '', stderr: expect.stringContaining(`${file} exists already\n`) });
    expect((await readdir(project)).sort()).toEqual([file, 'other'].sort());
    expect(await readFile(join(project, file), 'utf8')).toBe('mine');
  });

  it('reports every problem at once', async () => {
    const { status, stderr } = await runInProcess(['init', '--base-url', 'nowhere', '--vendor', 'no vendor', '--what']);
    expect(status).toBe(2);
    for (const problem of ['directory: must be given', '--base-url: ', '--vendor: ', '--what: no such option']) {
      expect(stderr).toContain(problem);
    }
    // In a checkout, nothing says what the project should install.
    expect(stderr).toContain('--package: is needed in a checkout');
  });

  it('needs a directory', async () => {
    const file = join(await aDirectory(), 'file');
    await writeFile(file, '');
    expect(await init(file)).toMatchObject({
      status: 2,
      stderr: expect.stringMatching(/cannot be written: .*(is a file, not a directory|is in the way)\. Move /),
    });
  });
});

describe('the package of a new project', () => {
  it('is the version that runs, if it was installed from a registry', async () => {
    const folder = await installedFrom('https://registry.example.com/report-exporter.tgz');
    expect(await dependencyOf(folder)).toBe(`^${packageJson.version}`);
    expect(await dependencyOf(folder, { package: '~1.2' })).toBe('~1.2');
  });

  it('is a copy of the tarball that it was installed from, which works on another machine, too', async () => {
    const folder = await installedFrom('file:report-exporter.tgz');
    const tarball = join(folder, '../../report-exporter.tgz');
    expect(await dependencyOf(folder)).toContain(`${tarball} does not exist`);
    await writeFile(tarball, 'packed');
    expect(await dependencyOf(folder)).toBe('file:report-exporter.tgz');
  });

  it('is copied into the project, unless it is there already', async () => {
    const project = await aDirectory();
    const elsewhere = await aDirectory();
    await writeFile(join(elsewhere, 'packed.tgz'), 'packed');
    const created = await runInProcess(['init', join(project, 'new'), '--package', join(elsewhere, 'packed.tgz')]);
    expect(created.stdout).toContain('(7 files)');
    expect(created.stdout).toContain('  Commit packed.tgz, too: the project installs report-exporter from it.\n');
    expect(await readFile(join(project, 'new/packed.tgz'), 'utf8')).toBe('packed');
    expect(await runInProcess(['init', elsewhere, '--package', join(elsewhere, 'packed.tgz')])).toMatchObject({
      status: 0,
    });
    expect((await readJson(elsewhere, 'package.json')).dependencies['report-exporter']).toBe('file:packed.tgz');
  });
});
