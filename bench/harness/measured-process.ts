/**
 * A contender as a process of its own, so that it has a heap and a peak of memory of its own. It writes one line of JSON
 * to stdout when it is done; start-up is not in its times.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { maxResidentBytes } from '../../test/large/resident-memory.ts';

/** What such a process tells of itself. */
export interface ProcessFigures {
  readonly [figure: string]: number;
  readonly wallMs: number;
  readonly cpuMs: number;
  readonly peakRssBytes: number;
}

/** Runs a script of this folder with Node and these words. @throws Error with what it wrote to stderr where it fails */
export async function measuredScript(
  script: URL,
  words: readonly string[],
  nodeOptions: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<ProcessFigures> {
  const all = [...nodeOptions, fileURLToPath(script), ...words];
  return await measuredProcess(process.execPath, all, { ...process.env, ...env });
}

/** Runs `command` and reads the last line of its output. */
export async function measuredProcess(
  command: string,
  words: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<ProcessFigures> {
  const child = spawn(command, words, { stdio: ['ignore', 'pipe', 'pipe'], env });
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  const last = out.trim().split('\n').at(-1) ?? '';
  if (code !== 0) throw new Error(`${command} ${words.join(' ')} ended with ${String(code)}: ${err.slice(-2_000)}`);
  return JSON.parse(last) as ProcessFigures;
}

/** For the process that is measured: starts its clocks, and tells at its end. */
export function measuring(): { readonly tell: (more?: Readonly<Record<string, number>>) => void } {
  const startedAt = performance.now();
  const cpu = process.cpuUsage();
  return {
    tell(more = {}) {
      const wallMs = performance.now() - startedAt;
      const { user, system } = process.cpuUsage(cpu);
      const peakRssBytes = maxResidentBytes();
      process.stdout.write(`${JSON.stringify({ ...more, wallMs, cpuMs: (user + system) / 1_000, peakRssBytes })}\n`);
    },
  };
}
