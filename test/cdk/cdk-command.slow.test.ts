import { execFile } from 'node:child_process';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const root = join(import.meta.dirname, '../..');

interface Outcome {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the CDK command line without AWS credentials. */
function cdk(...args: string[]): Promise<Outcome> {
  const variables = Object.entries(process.env).filter(([name]) => !name.startsWith('AWS_'));
  const env = {
    ...Object.fromEntries(variables),
    AWS_EC2_METADATA_DISABLED: 'true',
    AWS_CONFIG_FILE: '/dev/null',
    AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
    CI: 'true',
  };
  const command = createRequire(import.meta.url).resolve('aws-cdk/bin/cdk');
  return new Promise((resolve) => {
    execFile(process.execPath, [command, ...args, '--no-notices'], { cwd: root, env }, (error, stdout, stderr) => {
      resolve({ status: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

describe('the CDK command line, offline', () => {
  it('synthesizes the settings file that cdk.json names, and shows the difference of a change', async () => {
    await using directory = await temporaryDirectory();
    const before = directory.path;
    const synth = await cdk('synth', '--quiet', '--output', before);
    expect(synth).toMatchObject({ status: 0 });
    const template = join(before, 'ReportExporter.template.json');
    const { Resources, Outputs } = JSON.parse(readFileSync(template, 'utf8'));
    expect(Outputs.AcmeStartCommand.Value['Fn::Join'][1].at(-1)).toContain('{"export":"nightly"}');
    // The bundles are made with the aliases of lib/cdk/code/bundling.ts, so they contain no STS client.
    const functions = globSync(join(before, 'asset.*/index.js'));
    expect(functions).toHaveLength(4);
    for (const file of functions) {
      expect(readFileSync(file, 'utf8')).not.toContain('AssumeRole');
      const settings = JSON.parse(readFileSync(join(dirname(file), 'settings.json'), 'utf8'));
      expect(settings.exports).toEqual([expect.objectContaining({ name: 'nightly' })]);
    }

    const changed = structuredClone(Resources);
    for (const resource of Object.values<{ Type: string; Properties: { State?: string } }>(changed)) {
      if (resource.Type === 'AWS::Scheduler::Schedule') resource.Properties.State = 'ENABLED';
    }
    const deployed = join(before, 'deployed.json');
    writeFileSync(deployed, JSON.stringify({ Resources: changed, Outputs }));
    // Uses the assembly above, so that nothing is bundled twice.
    const same = await cdk('diff', '--app', before, '--template', template);
    expect(same.stdout + same.stderr).toContain('There were no differences');
    const diff = await cdk('diff', '--app', before, '--template', deployed);
    expect(diff.stdout + diff.stderr).toMatch(/Schedule[\s\S]*ENABLED[\s\S]*DISABLED/);
  });

  it('reads another settings file with -c, and prints one line for each of its problems, and nothing else', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'prod.json');
    const settings = {
      services: { acme: { baseUrl: 'https://a.example' } },
      exports: [{ name: 'a b' }, { name: 'c', size: 0 }],
    };
    writeFileSync(file, JSON.stringify(settings, null, 2));
    const { status, stdout, stderr } = await cdk('synth', '--output', directory.path, '-c', `reportExporter=${file}`);
    expect(status).toBe(1);
    expect((stdout + stderr).trim().split('\n')).toEqual([
      expect.stringMatching(/prod\.json:9 exports\[0\]\.name: /),
      `${file}:13 exports[1].size: must be at least 1`,
      expect.stringMatching(/ bin\/app\.ts: Subprocess exited with error 1/),
    ]);
  });
});
