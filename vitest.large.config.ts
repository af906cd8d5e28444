import { defineConfig } from 'vitest/config';

/** What is long or large, in minutes and gigabytes: `npm run test:large`. */
export default defineConfig({
  test: {
    include: ['test/large/**/*.test.ts'],
    // One after the other: they measure memory, and there may be two cores.
    fileParallelism: false,
    // Generous, for busy machines: nothing is judged by how long it takes.
    testTimeout: 1_800_000,
    hookTimeout: 60_000,
    // Their figures are what a person wants to see.
    disableConsoleIntercept: true,
  },
});
