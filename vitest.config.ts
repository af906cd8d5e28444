import { mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/** Tests that start processes, run functions against AWS over HTTP, synthesize many templates, or sweep many cases. */
const slowTests = 'test/**/*.slow.test.ts';

/** Tests that need more than Node: local AWS emulators, a browser, or minutes and gigabytes. */
const ownProjects = ['test/aws-e2e/**', 'test/browser/**', 'test/large/**'];

const sharedModules = {
  // Files share the modules of their worker: importing them for each file again takes longer than most tests.
  isolate: false,
  // Node.js loads the modules itself, as it does outside the tests. Vite would transform each of them first.
  experimental: { viteModuleRunner: false },
};

/** Where quick tests write: in memory, if Linux has a gigabyte for it. Most of what they do there is to wait until a disk has it. */
function temporaryFolder(): string {
  try {
    const memory = '/dev/shm';
    const { bavail, bsize } = statfsSync(memory);
    if (bavail * bsize < 2 ** 30) return tmpdir();
    const folder = mkdtempSync(`${memory}/report-exporter-tests-`);
    process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
    return folder;
  } catch {
    return tmpdir();
  }
}

export default defineConfig({
  test: {
    // A small CI machine has two cores. Tests also wait for the disk and for timers, so three workers keep both busy.
    maxWorkers: 3,
    // These limits only end a test that would never end: no test depends on the speed of the machine.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    teardownTimeout: 120_000,
    expect: { poll: { timeout: 300_000 } },
    // Programs that a test starts reuse compiled modules. The command line has a cache of its own.
    env: { NODE_COMPILE_CACHE: fileURLToPath(new URL('node_modules/.cache/tests', import.meta.url)) },
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['test/**/*.test.ts'],
          exclude: [slowTests, ...ownProjects],
          ...sharedModules,
          env: { FUZZ_FACTOR: process.env.FUZZ_FACTOR ?? '0.05', TMPDIR: temporaryFolder() },
        },
      },
      { extends: true, test: { name: 'slow', include: [slowTests], ...sharedModules } },
      {
        extends: true,
        test: {
          name: 'aws',
          include: ['test/aws-e2e/**/*.test.ts'],
          globalSetup: ['test/aws-e2e/global-setup.ts'],
          // The tests share the emulators.
          fileParallelism: false,
        },
      },
      { extends: true, test: { name: 'browser', include: ['test/browser/**/*.test.ts'], fileParallelism: false } },
      {
        extends: true,
        test: {
          name: 'large',
          include: ['test/large/**/*.test.ts'],
          // The tests measure memory.
          fileParallelism: false,
          testTimeout: 3_600_000,
          hookTimeout: 3_600_000,
        },
      },
    ],
  },
});
