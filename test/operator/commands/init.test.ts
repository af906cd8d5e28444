import { copyFile, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { systemRuntime as runtime } from '../../../lib/core/clock.ts';
import { describe, expect, it } from 'vitest';
import { deploymentSettings } from '../../../lib/cdk/settings/read-settings.ts';
import { initCommand } from '../../../lib/operator/commands/init.ts';
import { packageJson, root } from '../../support/package/installation.ts';
import { aDirectory, runInProcess } from '../../support/process/command-line.ts';

const files = [
  '.gitignore',
  '.npmrc',
  '.nvmrc',
  'README.md',
  'app.js',
  'cdk.json',
  'package.json',
  'report-exporter.json',
];

async function init(...words: readonly string[]) {
  return await runInProcess(['init', ...words, '--package', '^1.0.0']);
}

const readJson = async (...path: readonly string[]) => JSON.parse(await readFile(join(...path), 'utf8'));

describe('a new project', () => {
  it('has a CDK app, valid settings, and the versions that the package is developed with', async () => {
    const project = join(await aDirectory(), 'My Exports');
    const ended = await init(project);
    expect(ended).toMatchObject({ status: 0, stderr: '' });
    expect(ended.stdout).toContain(`Created: ${project} (8 files)\n  cd '${project}'\n  npm install\n`);
    expect((await readdir(project)).sort()).toEqual(files);

    const { engines, dependencies, devDependencies } = await readJson(project, 'package.json');
    expect(engines).toEqual(packageJson.engines);
    expect(await readFile(join(project, '.nvmrc'), 'utf8')).toBe('24\n');
    expect(await readFile(join(project, '.npmrc'), 'utf8')).toBe('engine-strict=true\n');
    expect(await readFile(join(project, 'app.js'), 'utf8')).toContain(
      'env: { account: process.env.CDK_DEFAULT_ACCOUNT,',
    );
    expect(await readFile(join(project, '.gitignore'), 'utf8')).toMatch(/^exports\nsimulated$/m);
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

  it('describes another API by an example, and leads to probe', async () => {
    const project = join(await aDirectory(), 'logs');
    expect(await init(project, '--api')).toMatchObject({ status: 0 });
    const file = join(project, 'report-exporter.json');
    const [deployed] = deploymentSettings(file).services;
    expect(deployed?.service).toMatchObject({ baseUrl: 'https://api.example.com', auth: { kind: 'bearer' } });
    expect(deployed?.exports.map(({ api }) => api.next.from)).toEqual(['body', 'body']);
    expect(deployed?.exports.map(({ api }) => api.request.path)).toEqual(['/v1/contacts', '/v1/companies']);
    expect(deployed?.exports.map(({ api }) => api.when?.empty)).toEqual([
      { at: '/total', is: 0 },
      { at: '/total', is: 0 },
    ]);
    const readme = await readFile(join(project, 'README.md'), 'utf8');
    expect(readme).toContain('report-exporter plan contacts --settings report-exporter.json --request');
    expect(readme).toContain('What does your API send on a night without reports?');
    const { scripts } = await readJson(project, 'package.json');
    expect(scripts.start).toBe('report-exporter local --settings report-exporter.json --all');
  });

  it.each([[[]], [['--api']]])(
    'has no start without the settings, which runs with --settings do not copy: %j',
    async (words) => {
      const project = join(await aDirectory(), 'exports');
      await init(project, ...words);
      const readme = await readFile(join(project, 'README.md'), 'utf8');
      const starts = readme.match(/report-exporter (start|local)\b.*/g) ?? [];
      expect(starts).not.toEqual([]);
      expect(starts.filter((command) => !/ --(stack|settings) /.test(command))).toEqual([]);
    },
  );

  it.each(['.gitignore', 'package.json'])('does not overwrite %s, and then writes nothing', async (file) => {
    const project = await aDirectory();
    await writeFile(join(project, file), 'mine');
    await writeFile(join(project, 'other'), '');
    const ended = await init(project);
    expect(ended).toMatchObject({ status: 2, stdout: '', stderr: expect.stringContaining(`${file} exists already\n`) });
    expect((await readdir(project)).sort()).toEqual([file, 'other'].sort());
    expect(await readFile(join(project, file), 'utf8')).toBe('mine');
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
  it('is the version that runs, unless that is a checkout', async () => {
    const packageFolder = await aDirectory();
    for (const file of ['package.json', 'cdk.json']) await copyFile(join(root, file), join(packageFolder, file));
    const project = join(await aDirectory(), 'project');
    const stream = { write: () => true };
    const { signal } = new AbortController();
    const context = {
      env: {},
      stdin: Readable.from([]),
      stdout: stream,
      stderr: stream,
      signal,
      runtime,
      program: 'x',
    };
    const call = { ...context, names: [project], options: {}, problems: [], version: '1', packageFolder };
    expect(await initCommand(call)).toBe(0);
    const { dependencies } = await readJson(project, 'package.json');
    expect(dependencies['report-exporter']).toBe(`^${packageJson.version}`);
  });

  it('is a tarball, which is copied into the project', async () => {
    const tarball = join(await aDirectory(), 'packed.tgz');
    const project = join(await aDirectory(), 'new');
    for (const path of [tarball, await aDirectory()]) {
      expect(await runInProcess(['init', project, '--package', path])).toMatchObject({
        status: 2,
        stderr: expect.stringMatching(/--package: .*(does not exist|a directory).* Pack a checkout with npm pack/),
      });
    }
    await writeFile(tarball, 'packed');
    const created = await runInProcess(['init', project, '--package', tarball]);
    expect(created.stdout).toContain('(9 files)');
    expect(created.stdout).toContain('  Commit packed.tgz, too: the project installs report-exporter from it.\n');
    expect(await readFile(join(project, 'packed.tgz'), 'utf8')).toBe('packed');

    const there = await aDirectory();
    await writeFile(join(there, 'packed.tgz'), 'packed');
    expect(await runInProcess(['init', there, '--package', join(there, 'packed.tgz')])).toMatchObject({ status: 0 });
  });
});
