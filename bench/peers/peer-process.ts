/** A peer as a group of processes, which is killed as one, as when the machine goes down. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { ProcessFigures } from '../harness/measured-process.ts';
import { temporaryFolder } from '../harness/temporary-folder.ts';
import type { Peer } from './contenders.ts';

export interface PeerProcess {
  /** What it wrote, and null for its exit code where it was killed. */
  readonly ended: Promise<{ readonly code: number | null; readonly out: string; readonly err: string }>;
  readonly kill: () => void;
}

export function startPeer(peer: Peer, baseUrl: string, out: string, env: NodeJS.ProcessEnv = process.env): PeerProcess {
  const [command, ...words] = peer.command(baseUrl, out);
  const child = spawn(command, words, { stdio: ['ignore', 'pipe', 'pipe'], detached: true, env });
  const ended = Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return {
    ended: ended.then(([stdout, err, [code]]) => ({ code: code as number | null, out: stdout, err })),
    kill() {
      if (child.pid === undefined) return;
      try {
        process.kill(-child.pid, 'SIGKILL');
      } catch {
        // It ended by itself in this very moment.
      }
    },
  };
}

/** What it tells of itself, and how long its processes lived in all. */
export interface PeerFigures extends ProcessFigures {
  readonly wholeMs: number;
}

/** Runs it to its end. @throws Error with what it wrote to stderr where it fails */
export async function measuredPeer(peer: Peer, baseUrl: string, out: string): Promise<PeerFigures> {
  const folder = await temporaryFolder(join(tmpdir(), 'bench-figures-'));
  try {
    const startedAt = performance.now();
    const { ended } = startPeer(peer, baseUrl, out, { ...process.env, BENCH_FIGURES: folder });
    const { code, out: stdout, err } = await ended;
    const wholeMs = performance.now() - startedAt;
    if (code !== 0) throw new Error(`${peer.name} ended with ${code}: ${err.slice(-2_000)}`);
    const figures = await Promise.all((await readdir(folder)).map((file) => pythonFigures(join(folder, file))));
    if (figures.length > 0) return { ...together(figures), wholeMs };
    return { ...(JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as ProcessFigures), wholeMs };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** As measuring.py leaves them. */
interface PythonFigures {
  readonly startedAt: number | null;
  readonly endedAt: number;
  readonly cpuMs: number;
  readonly peakRssBytes: number;
}

async function pythonFigures(file: string): Promise<PythonFigures> {
  return JSON.parse(await readFile(file, 'utf8')) as PythonFigures;
}

/** Of processes that are joined by a pipe: from where the first begins the walk, and both need their memory at once. */
function together(figures: readonly PythonFigures[]): ProcessFigures {
  const sum = (figure: (one: PythonFigures) => number) => figures.reduce((total, one) => total + figure(one), 0);
  return {
    wallMs:
      Math.max(...figures.map(({ endedAt }) => endedAt)) - Math.max(...figures.map(({ startedAt }) => startedAt ?? 0)),
    cpuMs: sum(({ cpuMs }) => cpuMs),
    peakRssBytes: sum(({ peakRssBytes }) => peakRssBytes),
  };
}
