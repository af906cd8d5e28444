/** The code asset of a function: its bundle, and beside it the settings file of its service. */

import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Stack } from 'aws-cdk-lib';
import { Code } from 'aws-cdk-lib/aws-lambda';
import { DISABLE_ASSET_STAGING_CONTEXT } from 'aws-cdk-lib/cx-api';
import type { Construct } from 'constructs';
import { type FunctionSettings, settingsFileName } from '../../settings/deployed-settings.ts';
import { byStep, type StepName } from '../../core/state-machine/definition.ts';

/** Replaces the bundle where CDK asks for none, which keeps the tests of a template quick. */
const placeholder =
  'exports.handler = async () => { throw new Error("The stack was synthesized without bundling"); };\n';

/**
 * Calls `create` with the code of each step. The files exist only during this call: CDK copies an asset when a function
 * is created with it.
 */
export function withFunctionCode<Result>(
  scope: Construct,
  settings: FunctionSettings,
  create: (code: (step: StepName) => Code) => Result,
): Result {
  const isBundled = Stack.of(scope).bundlingRequired;
  const settingsText = `${JSON.stringify(settings)}\n`;
  const directory = mkdtempSync(join(tmpdir(), 'report-exporter-'));
  try {
    return create((step) => {
      const files = { 'index.js': isBundled ? functionBundles()[step] : placeholder, [settingsFileName]: settingsText };
      const folder = join(directory, step);
      mkdirSync(folder);
      for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
      // The same on every machine. CDK would store its own hash under the temporary path for the next time.
      const assetHash = createHash('sha256').update(JSON.stringify(files)).digest('hex');
      return Code.fromAsset(folder, { assetHash });
    });
  } finally {
    // With `--no-staging`, the assembly refers to the files themselves.
    const isUsedInPlace = Boolean(scope.node.tryGetContext(DISABLE_ASSET_STAGING_CONTEXT));
    if (!isUsedInPlace) rmSync(directory, { recursive: true, force: true });
  }
}

type FunctionBundles = Readonly<Record<StepName, string>>;

let bundles: FunctionBundles | undefined;

/** Prebuilt in the package; made from the sources in a checkout, once per process: all services run the same code. */
function functionBundles(): FunctionBundles {
  bundles ??= import.meta.filename.endsWith('.ts') ? newBundles() : packagedBundles();
  return bundles;
}

function packagedBundles(): FunctionBundles {
  const folder = join(import.meta.dirname, '../../../functions');
  return byStep((step) => readFileSync(join(folder, step, 'index.js'), 'utf8'));
}

/** Loaded only here: the package has neither this module nor esbuild. */
function newBundles(): FunctionBundles {
  const require = createRequire(import.meta.url);
  return (require('./bundling.ts') as { readonly bundleFunctions: () => FunctionBundles }).bundleFunctions();
}
