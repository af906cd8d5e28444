import { defineConfig } from 'vitest/config';

/** What a person sees, in a real browser: `npm run test:browser`. Needs a Chromium. */
export default defineConfig({
  test: {
    include: ['test/browser/**/*.test.ts'],
    setupFiles: ['test/support/fuzz-seed.ts'],
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 60_000,
  },
});
