import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Two cores are what a small CI machine has; more workers only queue.
    maxWorkers: 2,
    testTimeout: 20_000,
  },
});
