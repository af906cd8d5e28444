/** The deployed bundles: each is one file that runs by itself, with the modules that the function needs only. */

import { execFile } from 'node:child_process';
import { cp, readFile, symlink, writeFile } from 'node:fs/promises';
import { isBuiltin, SourceMap, type SourceMapPayload, type SourceOrigin } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bundleFunctions, bundleWithSourceMaps } from '../../lib/cdk/code/bundling.ts';
import { environmentVariable, settingsVersion } from '../../lib/settings/deployed-settings.ts';
import {
  type BundledFunction,
  bundleFunction,
  type FunctionName,
  functionNames,
} from '../support/aws/bundled-functions.ts';
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

/**
 * Invokes a bundle in a new process, with an environment of this version, and without its settings file: it is loaded
 * completely, and its invocation fails. Returns the last line of its output.
 */
async function invokeWithoutSettings(file: string) {
  const script = fileURLToPath(new URL('children/invoke.ts', import.meta.url));
  const environment = JSON.stringify({ version: settingsVersion });
  const { stdout, stderr } = await promisify(execFile)(
    process.execPath,
    [script, file, JSON.stringify({ input: {}, execution: 'e' })],
    { env: { [environmentVariable]: environment, AWS_REGION: 'us-east-1' } },
  );
  return { stdout, stderr, result: JSON.parse(stdout.trim().split('\n').at(-1) ?? '').result as object };
}

describe('a bundle', () => {
  it.each(functionNames)('is loaded by itself, without a warning in the log of each cold start: %s', async (name) => {
    const { result, stderr } = await invokeWithoutSettings(bundles[name].file);
    expect(result).toMatchObject({
      error: 'ConfigurationError',
      message: expect.stringContaining('read the settings at'),
    });
    // What the function logs; a warning of Node.js is not JSON.
    for (const line of stderr.split('\n').filter(Boolean)) expect(() => JSON.parse(line)).not.toThrow();
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

it('has a source map, which translates a stack trace into files and lines of the project', async () => {
  const { code, sourceMap } = bundleWithSourceMaps().ExportPage;
  await using folder = await temporaryDirectory();
  const file = join(folder.path, 'index.cjs');
  await writeFile(file, code);
  const { stdout, stderr } = await invokeWithoutSettings(file);
  const logged = `${stdout}\n${stderr}`.split('\n').find((line) => line.includes('attempt-failed')) ?? '';
  expect(logged).toContain('openServiceContext');
  const map = new SourceMap(JSON.parse(sourceMap) as SourceMapPayload);
  const [, line, column] = /at .*?index\.cjs:(\d+):(\d+)/.exec(logged) ?? [];
  const origin = map.findOrigin(Number(line), Number(column)) as SourceOrigin;
  expect(origin.fileName).toMatch(/lib\/aws\/lambda\/service-context\.ts$/);
  const source = await readFile(new URL('../../lib/aws/lambda/service-context.ts', import.meta.url), 'utf8');
  expect(source.split('\n')[origin.lineNumber - 1]).toContain("new ExportError('ConfigurationError', `Cannot read");
});

describe('a bundle contains', () => {
  it.each(functionNames)('neither CDK nor what only operators and tests need: %s', (name) => {
    const inputs = bundles[name].inputs.join('\n');
    expect(inputs).toContain('lib/core/errors.ts');
    // Lambda needs the credential provider of the environment only. Zod and undici are imported by file.
    expect(inputs).not.toMatch(
      /node_modules\/(aws-cdk-lib|constructs|commander|esbuild|@aws-sdk\/(client-(cloudformation|lambda|scheduler)|credential-provider-node|nested-clients)|zod\/v4\/classic|undici\/index\.js)\b/,
    );
    expect(inputs).not.toMatch(/^lib\/(aws\/(stack|scheduler)|operator|local)/m);
    // ExportPage alone reads manifests: those of the export of the parents.
    expect(inputs.includes('lib/core/storage/published-schemas')).toBe(name === 'export-page');
    expect(bundles[name].imports.filter((each) => !isBuiltin(each))).toEqual([]);
  });

  // Each cold start downloads, unpacks and reads it.
  it.each(functionNames)('few enough bytes for a quick cold start: %s', (name) => {
    const maxBytes = name === 'export-page' ? 1.3 * 1024 * 1024 : 600 * 1024;
    expect(bundles[name].bytes).toBeLessThan(maxBytes);
  });
});
