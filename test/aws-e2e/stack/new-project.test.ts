import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, inject, it } from 'vitest';
import { pack, packageJson, root, userVariables } from '../../support/package/installation.ts';
import { adaptToMiniStack, awsVariables, bootstrap, type Outputs, templateFile } from '../support/cdk.ts';
import { apiKey, putApiKey } from '../support/exporter-stack.ts';
import { openService } from '../support/service.ts';

const execute = promisify(execFile);

/** The path of a project that `init` has written and npm has installed, without this checkout. */
describe('a project from nothing', () => {
  const stackName = 'NewProjectE2E';
  const folder = join(inject('workDirectory'), 'new-project');
  const project = join(folder, 'my-exports');

  /** Runs a command as a user does, who has only Node.js and npm. */
  async function run(workingDirectory: string, command: string, ...words: readonly string[]): Promise<string> {
    const { PATH = '' } = userVariables;
    // Without the commands of this checkout.
    const others = PATH.split(delimiter).filter((entry) => !entry.startsWith(root));
    const path = [dirname(process.execPath), ...others].join(delimiter);
    const env = { ...userVariables, ...awsVariables(), PATH: path };
    const { stdout } = await execute(command, [...words], { cwd: workingDirectory, env });
    return stdout;
  }

  beforeAll(async () => {
    await bootstrap();
    await mkdir(folder, { recursive: true });
    const tarball = await pack(folder);
    const baseUrl = `http://127.0.0.1:${inject('servicePort')}`;
    await run(
      folder,
      'npx',
      '--yes',
      '--package',
      tarball,
      'report-exporter',
      'init',
      'my-exports',
      '--package',
      tarball,
    );
    const settings = join(project, 'report-exporter.json');
    const written = await readFile(settings, 'utf8');
    await writeFile(settings, written.replace('https://reports.example.com', baseUrl));
    await run(project, 'npm', 'install', '--no-audit', '--no-fund', '--prefer-offline');
  });

  it('exports from a simulated service, without an AWS account', async () => {
    expect(await run(project, 'npm', 'start', '--silent')).toContain('Completed: nightly (3 pages');
    expect(await run(project, 'npx', '--no', '--', 'report-exporter', 'verify', '--out', './simulated')).toMatch(
      /^Verified: /,
    );
    expect(await run(project, 'npx', '--no', '--', 'report-exporter', '--version')).toBe(`${packageJson.version}\n`);
  });

  it('deploys, and exports there', async () => {
    const settingsFile = join(project, 'report-exporter.json');
    const settings = JSON.parse(await readFile(settingsFile, 'utf8'));
    await writeFile(settingsFile, JSON.stringify({ ...settings, stackName }));
    await run(project, 'npm', 'run', 'synth');
    await adaptToMiniStack(templateFile('ReportExporter', join(project, 'cdk.out')));
    const deploy = ['deploy', '--app', 'cdk.out', '--require-approval', 'never', '--outputs-file', 'outputs.json'];
    await run(project, 'npx', '--no', '--', 'cdk', ...deploy);
    const outputs = JSON.parse(await readFile(join(project, 'outputs.json'), 'utf8')) as Record<string, Outputs>;
    await putApiKey({ secretId: outputs[stackName]?.['AcmeApiKeySecretId'] ?? '' }, apiKey);

    await using _ = await openService(25);
    const onStack = ['--stack', stackName];
    expect(
      await run(project, 'npx', '--no', '--', 'report-exporter', 'start', 'nightly', ...onStack, '--follow'),
    ).toContain('Completed');
    expect(await run(project, 'npx', '--no', '--', 'report-exporter', 'verify', 'nightly', ...onStack)).toMatch(
      /^Verified: /,
    );
  });
});
