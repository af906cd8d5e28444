import { defineConfig } from 'vitest/config';

/** The end-to-end tier, against emulators that are processes of their own: `npm run test:aws`. */
export default defineConfig({
  test: {
    include: ['test/aws-e2e/**/*.test.ts'],
    globalSetup: ['test/aws-e2e/global-setup.ts'],
    // One after the other: they share the emulators, and two cores.
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 300_000,
    teardownTimeout: 30_000,
    expect: { poll: { timeout: 60_000, interval: 100 } },
  },
});
