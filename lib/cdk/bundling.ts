/**
 * How a function's code is made into one file, as plain esbuild options: the deployment hands them to CDK, and a test
 * bundles with the very same ones to see that the result runs and holds no strangers.
 */
export const bundling = {
  /**
   * Not an ES module: imported into one, `node:http` and `node:process` are loaded with all that they would only load when
   * asked for, `fetch` and WebSockets among it. That was a fifth of a small function's cold start.
   */
  format: 'cjs',
  /** Lambda's own version, so nothing is rewritten for an older one. */
  target: 'node24',
  minify: true,
  /** ES modules first: they are what tree shaking can work on. */
  mainFields: ['module', 'main'],
  /**
   * What takes the place of a part of the SDK, as a path in the project. The SDK looks for credentials in many places, by
   * clients of three more services, while Lambda puts them in the environment; and none of our operations streams events.
   * Both it loads only when needed, which in one file keeps esbuild from leaving out all that they might use.
   */
  alias: {
    '@aws-sdk/credential-provider-node': './lib/aws/lambda/shims/environment-credentials.ts',
    '@smithy/core/event-streams': './lib/aws/lambda/shims/no-event-streams.ts',
  },
} as const;
