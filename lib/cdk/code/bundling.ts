/** Bundles each function into one file, with esbuild. Not part of the package, which contains the bundles. */

import { join } from 'node:path';
import { type BuildOptions, buildSync } from 'esbuild';
import { byStep, type StepName, stepNames } from '../../core/state-machine/definition.ts';

const root = join(import.meta.dirname, '../../..');

/** The options of the deployment. A test checks that the result runs and contains no unexpected packages. */
export const bundling = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  // An ES module loads all of `node:http` when it starts: a fifth of a small function's cold start.
  format: 'cjs',
  /** The folder of the bundle, where the settings file is. CommonJS has no `import.meta`. */
  define: { 'import.meta.dirname': '__dirname' },
  target: 'node24',
  minify: true,
  /** Stack traces in the logs name functions and classes as the sources do. It makes a bundle a twentieth larger. */
  keepNames: true,
  /** Prefers ES modules, which esbuild can tree-shake. */
  mainFields: ['module', 'main'],
  /**
   * Replaces parts of the SDK that it imports dynamically, so that esbuild cannot remove what they contain: Lambda
   * provides credentials in the environment, and no operation used here streams events.
   */
  alias: {
    '@aws-sdk/credential-provider-node': './lib/aws/lambda/shims/environment-credentials.ts',
    '@smithy/core/event-streams': './lib/aws/lambda/shims/no-event-streams.ts',
  },
} satisfies BuildOptions;

const functionModules: Readonly<Record<StepName, string>> = {
  BeginRun: 'begin-run',
  ExportPage: 'export-page',
  FinishRun: 'finish-run',
  FailRun: 'fail-run',
};

export function bundleFunctions(): Readonly<Record<StepName, string>> {
  const bundles = bundleWithSourceMaps();
  return byStep((step) => bundles[step].code);
}

interface Bundle {
  readonly code: string;
  /** Translates positions in the code. Not deployed: Lambda would read a megabyte more at each cold start. */
  readonly sourceMap: string;
}

export function bundleWithSourceMaps(): Readonly<Record<StepName, Bundle>> {
  const { outputFiles } = buildSync({
    ...bundling,
    sourcemap: 'external',
    sourcesContent: false,
    entryPoints: Object.fromEntries(stepNames.map((step) => [step, `functions/${functionModules[step]}.ts`])),
    outdir: join(root, 'bundles'),
    write: false,
    logLevel: 'warning',
  });
  return byStep((step) => {
    const textOf = (extension: string) => outputFiles.find(({ path }) => path.endsWith(`${step}${extension}`))?.text;
    const [code, sourceMap] = [textOf('.js'), textOf('.js.map')];
    if (code === undefined || sourceMap === undefined) throw new Error(`esbuild returned no bundle of ${step}`);
    return { code, sourceMap };
  });
}
