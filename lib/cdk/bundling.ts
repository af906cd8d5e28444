/**
 * The esbuild options that bundle a function into one file. The deployment passes them to CDK, and a test bundles with the same
 * options to check that the result runs and contains no unexpected packages.
 */
export const bundling = {
  /**
   * CommonJS, not an ES module: importing `node:http` or `node:process` into an ES module also loads everything that they
   * normally load on demand, such as `fetch` and WebSockets. That took a fifth of a small function's cold start.
   */
  format: 'cjs',
  /** The Lambda runtime's Node version, so that nothing is rewritten for an older one. */
  target: 'node24',
  minify: true,
  /** Prefers ES modules, which esbuild can tree-shake. */
  mainFields: ['module', 'main'],
  /**
   * Replaces parts of the SDK, by path in the project. The SDK can find credentials in many places and brings the clients of
   * three more services for that, while Lambda provides them in the environment; and no operation used here streams events.
   * The SDK imports both parts dynamically, which keeps esbuild from removing what they contain.
   */
  alias: {
    '@aws-sdk/credential-provider-node': './lib/aws/lambda/shims/environment-credentials.ts',
    '@smithy/core/event-streams': './lib/aws/lambda/shims/no-event-streams.ts',
  },
} as const;
