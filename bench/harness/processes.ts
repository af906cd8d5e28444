/**
 * The processes of a benchmark. Each contender has its own, so it has its own heap and its own peak memory; its start
 * is not measured. Each server has its own, too: it must not share a thread with the contender that is measured.
 */

import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { maxResidentBytes } from '../../test/large/resident-memory.ts';
import type { PageServiceOptions } from '../servers/page-service.ts';

/** The figures that a contender reports about itself. */
export interface ProcessFigures {
  readonly pages: number;
  readonly wallMs: number;
  readonly cpuMs: number;
  readonly peakRssBytes: number;
}

/** Runs a file of bench/contenders. @throws Error with its stderr if it fails, or has not exported `pages` pages */
export async function measureContender(
  [file, ...args]: readonly [string, ...string[]],
  pages: number,
  env: Readonly<Record<string, string>> = {},
): Promise<ProcessFigures> {
  const script = fileURLToPath(new URL(`../contenders/${file}`, import.meta.url));
  const child = spawn(process.execPath, [script, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  if (code !== 0) throw new Error(`${file} ${args.join(' ')} ended with ${String(code)}: ${stderr.slice(-2_000)}`);
  const figures = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as ProcessFigures;
  if (figures.pages !== pages) throw new Error(`${file} exported ${figures.pages} of ${pages} pages`);
  return figures;
}

/** Called by a contender when all is loaded: starts its clocks. `finish` writes the figures as the last line. */
export function startMeasurement(): { readonly finish: (pages: number) => void } {
  const startedAt = performance.now();
  const startCpu = process.cpuUsage();
  return {
    finish(pages) {
      const wallMs = performance.now() - startedAt;
      const { user, system } = process.cpuUsage(startCpu);
      const figures = { pages, wallMs, cpuMs: (user + system) / 1_000, peakRssBytes: maxResidentBytes() };
      process.stdout.write(`${JSON.stringify(figures satisfies ProcessFigures)}\n`);
    },
  };
}

export interface Server extends AsyncDisposable {
  readonly baseUrl: string;
}

/** Starts a file of bench/servers, which sends its URL when it is ready. Disposing of it ends its process. */
export async function startServer(file: string, options: object): Promise<Server> {
  const child = fork(fileURLToPath(new URL(`../servers/${file}`, import.meta.url)), [JSON.stringify(options)]);
  const exited = once(child, 'exit');
  const baseUrl = await Promise.race([
    once(child, 'message').then(([message]) => message as string),
    exited.then(([code]) => {
      throw new Error(`${file} ended with ${String(code)} before it was ready`);
    }),
  ]);
  return {
    baseUrl,
    async [Symbol.asyncDispose]() {
      child.kill();
      await exited;
    },
  };
}

export const startPageService = (options: PageServiceOptions): Promise<Server> =>
  startServer('page-service.ts', options);
