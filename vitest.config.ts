import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // They need more than Node, `npm run test:aws` and `test:browser`, or minutes and gigabytes, `npm run test:large`.
    exclude: ['test/aws-e2e/**', 'test/browser/**', 'test/large/**'],
    // Modules that they start with Node by themselves need not be compiled anew; the command line sees to its own.
    env: { NODE_COMPILE_CACHE: fileURLToPath(new URL('node_modules/.cache/tests', import.meta.url)) },
    setupFiles: ['test/support/fuzz-seed.ts'],
    // Two cores are what a small CI machine has; more workers only queue.
    maxWorkers: 2,
    // Generous, for busy machines: nothing is judged by how long it takes.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 20_000 } },
  },
});
