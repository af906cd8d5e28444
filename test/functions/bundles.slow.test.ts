/** The deployed bundles: each is one file that runs by itself, with the modules that the function needs only. */

import { execFile } from 'node:child_process';
import { cp, readFile, symlink, writeFile } from 'node:fs/promises';
import { isBuiltin } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bundleFunctions, bundleWithSourceMaps } from '../../lib/cdk/code/bundling.ts';
import { environmentVariable, settingsFileName, settingsVersion } from '../../lib/settings/deployed-settings.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import { startSimulator } from '../support/service/simulator.ts';
import {
  type BundledFunction,
  bundleFunction,
  type FunctionName,
  functionNames,
} from '../support/aws/bundled-functions.ts';
import { functionEnvironment, settingsOf } from '../support/aws/deployed-functions.ts';
import { startLocalAws } from '../support/aws/local-aws.ts';
import { textOf } from '../support/docs/doc-pages.ts';
import { executionArn } from '../support/export/function-machine.ts';
import { simulatorApiKey, someReports } from '../support/service/simulator-client.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../support/temporary-directory.ts';

let directory: TemporaryDirectory;
let bundles: Readonly<Record<FunctionName, BundledFunction>>;
beforeAll(async () => {
  directory = await temporaryDirectory();
  const built = await Promise.all(
    functionNames.map(async (name) => [name, await bundleFunction(name, directory.path)]),
  );
  bundles = Object.fromEntries(built) as typeof bundles;
});
afterAll(async () => await directory.remove());

/** Runs a bundle in a new process, with exactly this environment. */
async function invoke(name: FunctionName, event: unknown, env: Readonly<Record<string, string>>) {
  const script = fileURLToPath(new URL('children/invoke.ts', import.meta.url));
  const { stdout, stderr } = await promisify(execFile)(
    process.execPath,
    [script, bundles[name].file, JSON.stringify(event)],
    { env },
  );
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  const { result } = lines.at(-1) as {
    result: { outcome?: Record<string, unknown>; error?: string; message?: string };
  };
  return { ...result, lines, stderr };
}

describe('a bundle', () => {
  it('runs: together the four make an export, each in a new process', async () => {
    await using aws = await startLocalAws();
    await using service = await startSimulator({
      vendor: 'SERVICE',
      apiKey: simulatorApiKey,
      reports: inMemoryReports(someReports(3)),
    });
    aws.secrets.set('reports/api-key', simulatorApiKey);
    const env = { ...functionEnvironment(aws), AWS_SESSION_TOKEN: 'session-token' };
    const exports = [{ name: 'other' }, { name: 'reports', size: 2 }];
    const settings = JSON.stringify(settingsOf({ service: { baseUrl: service.baseUrl }, exports }));
    for (const { file } of Object.values(bundles)) await writeFile(join(dirname(file), settingsFileName), settings);
    const execution = executionArn('first');
    const startInput = { export: 'reports' };

    const begun = await invoke('begin-run', { input: startInput, execution }, env);
    expect(begun.outcome).toMatchObject({ next: 'export', page: 1 });
    const first = await invoke('export-page', { input: begun.outcome, execution }, env);
    expect(first.outcome).toMatchObject({ next: 'page', page: 2 });
    const failure = { Error: 'States.Timeout', Cause: '' };
    const failed = await invoke('fail-run', { input: failure, execution, startInput }, env);
    expect(failed.outcome).toMatchObject({ pages: 1, resumable: true });
    const second = await invoke('export-page', { input: first.outcome, execution }, env);
    expect(second.outcome).toMatchObject({ next: 'finish' });
    const finished = await invoke('finish-run', { input: second.outcome, execution }, env);
    expect(finished.outcome).toMatchObject({ pages: 2, reports: 3 });

    const { manifest } = finished.outcome as { manifest: string };
    expect(JSON.parse(String(aws.objects.get(`bucket/${manifest}`)?.body))).toMatchObject({
      totals: { pages: 2, reports: 3 },
    });
    expect(first.lines[0]).toMatchObject({ message: 'page-exported', export: 'reports', page: 1 });
    // Requests to AWS are signed with the credentials in the environment.
    expect(new Set(aws.sessionTokens)).toEqual(new Set(['session-token']));
    // A warning of Node.js would be in the log of every cold start.
    for (const { stderr } of [begun, first, second, finished]) expect(stderr).toBe('');
  });

  it('is the same in every folder of every machine, so that its asset has the same hash', async () => {
    await using copy = await temporaryDirectory();
    const root = fileURLToPath(new URL('../..', import.meta.url));
    for (const folder of ['functions', 'lib', 'package.json', 'tsconfig.json']) {
      await cp(join(root, folder), join(copy.path, folder), { recursive: true });
    }
    await symlink(join(root, 'node_modules'), join(copy.path, 'node_modules'));
    const script = fileURLToPath(new URL('children/print-bundles.ts', import.meta.url));
    const { stdout } = await promisify(execFile)(process.execPath, [script, copy.path], {
      cwd: copy.path,
      maxBuffer: 16 * 1024 * 1024,
    });
    expect(JSON.parse(stdout)).toEqual(bundleFunctions());
    expect(stdout).not.toContain(root);
  });
});

describe('a stack trace', () => {
  it('is translated into files and lines of the project by the command in the runbook', async () => {
    const [, script = ''] = /node -e '([^']+)' node_modules\//.exec(textOf('docs/runbook.md')) ?? [];
    const { code, sourceMap } = bundleWithSourceMaps().ExportPage;
    await using folder = await temporaryDirectory();
    const [file, map, stackFile] = ['index.cjs', 'index.js.map', 'stack.txt'].map((name) =>
      join(folder.path, name),
    ) as [string, string, string];
    await writeFile(file, code);
    await writeFile(map, sourceMap);
    // The settings file is missing.
    const env = { [environmentVariable]: JSON.stringify({ version: settingsVersion }) };
    const { stdout, stderr } = await promisify(execFile)(
      process.execPath,
      [
        fileURLToPath(new URL('children/invoke.ts', import.meta.url)),
        file,
        JSON.stringify({ input: {}, execution: 'e' }),
      ],
      { env: { ...env, AWS_REGION: 'us-east-1' } },
    );
    const logged = `${stdout}\n${stderr}`.split('\n').find((line) => line.includes('attempt-failed')) ?? '';
    expect(logged).toContain('openServiceContext');
    // Lambda has the bundle as index.js.
    await writeFile(stackFile, logged.replaceAll(file, '/var/task/index.js'));
    const translated = await promisify(execFile)('/bin/sh', [
      '-c',
      '"$0" -e "$1" "$2" < "$3"',
      process.execPath,
      script,
      map,
      stackFile,
    ]);
    const [, line] = /at .*\.\.\/lib\/aws\/lambda\/service-context\.ts:(\d+)/.exec(translated.stdout) ?? [];
    const source = (
      await readFile(fileURLToPath(new URL('../../lib/aws/lambda/service-context.ts', import.meta.url)), 'utf8')
    ).split('\n');
    expect(source[Number(line) - 1]).toContain("new ExportError('ConfigurationError', `Cannot read the settings");
    expect(translated.stdout).not.toMatch(/index\.js:\d+:\d+/);
  });
});

describe('a bundle contains', () => {
  it.each(functionNames)('neither CDK nor what only operators and tests need: %s', (name) => {
    const inputs = bundles[name].inputs.join('\n');
    expect(inputs).toContain('lib/core/errors.ts');
    // Lambda needs the credential provider of the environment only. Zod and undici are imported by file.
    expect(inputs).not.toMatch(
      /node_modules\/(aws-cdk-lib|constructs|commander|esbuild|@aws-sdk\/(client-(cloudformation|lambda|scheduler)|credential-provider-node|nested-clients)|zod\/v4\/classic|undici\/index\.js)\b/,
    );
    expect(inputs).not.toMatch(/^lib\/(core\/storage\/published-schemas|aws\/(stack|scheduler)|operator|local)/m);
    expect(bundles[name].imports.filter((each) => !isBuiltin(each))).toEqual([]);
  });

  // Each cold start downloads, unpacks and reads it.
  it.each(functionNames)('few enough bytes for a quick cold start: %s', (name) => {
    const maxBytes = name === 'export-page' ? 1.2 * 1024 * 1024 : 600 * 1024;
    expect(bundles[name].bytes).toBeLessThan(maxBytes);
  });
});
