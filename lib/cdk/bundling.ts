/**
 * How a function's code is made into one file, as plain esbuild options: the deployment hands them to CDK, and a test
 * bundles with the very same ones to see that the result runs and holds no strangers.
 */
export const bundling = {
  format: 'esm',
  /** Lambda's own version, so nothing is rewritten for an older one. */
  target: 'node24',
  minify: true,
  /** ES modules first: they are what tree shaking can work on. */
  mainFields: ['module', 'main'],
  /** undici still calls `require` for node: built-ins, which an ES module does not have. */
  banner: "import { createRequire as toRequire } from 'node:module'; const require = toRequire(import.meta.url);",
} as const;
