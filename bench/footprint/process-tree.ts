/** Runs a command and measures it with all processes that it starts. Needs bash; without /proc, the memory is unknown. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import type { Figures } from '../harness/benchmark.ts';

export interface TreeFigures extends Figures {
  readonly wallMs: number;
  /** Of all its processes. */
  readonly cpuMs: number;
  /** The greatest sum of the peaks of the processes that ran at the same time: a little more than the peak of their sum. */
  readonly peakRssBytes: number;
}

interface CommandOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

const sampleMs = 100;

/** @throws Error with its output if it fails */
export async function measureTree(command: readonly string[], options: CommandOptions): Promise<TreeFigures> {
  // bash knows the CPU time of all processes that the command has waited for.
  const script = 'TIMEFORMAT="%R %U %S"; time "$@"';
  const child = spawn('bash', ['-c', script, 'bash', ...command], { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  const closed = once(child, 'close');
  let peakRssBytes = Number.NaN;
  const timer = setInterval(() => {
    const bytes = peakBytesOfTree(child.pid);
    if (bytes !== undefined) peakRssBytes = Math.max(bytes, Number.isNaN(peakRssBytes) ? 0 : peakRssBytes);
  }, sampleMs);
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), closed]);
  clearInterval(timer);
  if (code !== 0) {
    throw new Error(`${command.join(' ')} ended with ${String(code)}: ${`${stdout}\n${stderr}`.slice(-3_000)}`);
  }
  const [real = 0, user = 0, system = 0] = (stderr.trim().split('\n').at(-1) ?? '').split(' ').map(Number);
  return { wallMs: real * 1_000, cpuMs: (user + system) * 1_000, peakRssBytes };
}

interface Process {
  readonly parent: number;
  readonly peakBytes: number;
}

/** The sum over the process and its descendants; undefined if there is no /proc. */
function peakBytesOfTree(root: number | undefined): number | undefined {
  const processes = readProcesses();
  if (root === undefined || processes.size === 0) return undefined;
  const isInTree = (id: number): boolean => {
    const process = processes.get(id);
    return process !== undefined && (id === root || isInTree(process.parent));
  };
  const members = [...processes].filter(([id]) => isInTree(id));
  return members.reduce((sum, [, { peakBytes }]) => sum + peakBytes, 0);
}

function readProcesses(): ReadonlyMap<number, Process> {
  const processes = new Map<number, Process>();
  for (const name of readFolder('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const status = readFileSync(`/proc/${name}/status`, 'utf8');
      const numberOf = (field: string) => Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0);
      processes.set(Number(name), { parent: numberOf('PPid'), peakBytes: numberOf('VmHWM') * 1_024 });
    } catch {
      // The process has ended.
    }
  }
  return processes;
}

function readFolder(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
