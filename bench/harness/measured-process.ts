/**
 * A contender in its own process, so that it has its own heap and its own peak memory. At its end it writes one line of JSON to
 * stdout; its start-up is not measured.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { maxResidentBytes } from '../../test/large/resident-memory.ts';

/** What a measured process reports about itself. */
export interface ProcessFigures {
  readonly [figure: string]: number;
  readonly wallMs: number;
  readonly cpuMs: number;
  readonly peakRssBytes: number;
}

/** Runs a TypeScript file with Node. @throws Error with its stderr if it fails */
export async function measureScript(
  script: URL,
  args: readonly string[],
  nodeOptions: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<ProcessFigures> {
  const nodeArgs = [...nodeOptions, fileURLToPath(script), ...args];
  return await measureProcess(process.execPath, nodeArgs, { ...process.env, ...env });
}

/** Runs a command and returns the last line of its stdout. @throws Error with its stderr if it fails */
export async function measureProcess(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<ProcessFigures> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  const last = stdout.trim().split('\n').at(-1) ?? '';
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${String(code)}: ${stderr.slice(-2_000)}`);
  return JSON.parse(last) as ProcessFigures;
}

/** Called by the measured process: starts its clocks; `finish` writes the figures to stdout. */
export function startMeasurement(): { readonly finish: (more?: Readonly<Record<string, number>>) => void } {
  const startedAt = performance.now();
  const startCpu = process.cpuUsage();
  return {
    finish(more = {}) {
      const wallMs = performance.now() - startedAt;
      const { user, system } = process.cpuUsage(startCpu);
      const peakRssBytes = maxResidentBytes();
      process.stdout.write(`${JSON.stringify({ ...more, wallMs, cpuMs: (user + system) / 1_000, peakRssBytes })}\n`);
    },
  };
}
