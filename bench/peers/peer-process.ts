/** A peer as a process group, which is killed as a whole, as in a crash of the machine. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { ProcessFigures } from '../harness/measured-process.ts';
import type { OutputFolders } from '../harness/output-folders.ts';
import { createPageDocument } from '../harness/page-document.ts';
import { type PageServiceOptions, startPageService } from '../harness/page-service.ts';
import { measureRounds, type Rounds } from '../harness/rounds.ts';
import { createTemporaryFolder } from '../harness/temporary-folder.ts';
import type { BenchmarkOptions } from '../harness/benchmark.ts';
import type { Peer } from './contenders.ts';

export interface PeerProcess {
  /** Its output and its exit code; null if it was killed. */
  readonly ended: Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }>;
  readonly kill: () => void;
}

export function startPeer(peer: Peer, baseUrl: string, out: string, env: NodeJS.ProcessEnv = process.env): PeerProcess {
  const [command, ...args] = peer.command(baseUrl, out);
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], detached: true, env });
  const ended = Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return {
    ended: ended.then(([stdout, stderr, [code]]) => ({ code: code as number | null, stdout, stderr })),
    kill() {
      if (child.pid === undefined) return;
      try {
        process.kill(-child.pid, 'SIGKILL');
      } catch {
        // It has just ended by itself.
      }
    },
  };
}

export interface PeerFigures extends ProcessFigures {
  /** From the start of its processes to their end. */
  readonly totalMs: number;
}

/**
 * Measures the peers side by side with a service of their own.
 * @throws Error if one leaves pages out or repeats some: its figures would mean nothing
 */
export async function measurePeers(
  peers: readonly Peer[],
  serviceOptions: Omit<PageServiceOptions, 'numbered'>,
  outputs: OutputFolders,
  options: BenchmarkOptions,
  label: string,
): Promise<Rounds<PeerFigures>> {
  const { pages, pageBytes } = serviceOptions;
  const document = createPageDocument(pageBytes, true);
  await using service = await startPageService({ ...serviceOptions, numbered: true });
  const contenders = peers.map((peer) => ({
    name: peer.name,
    async measure() {
      const out = await outputs.next();
      const figures = await measurePeer(peer, service.baseUrl, out);
      const { listed, published = listed } = await peer.readOutput(out, document);
      const distinct = new Set(published).size;
      if (published.length !== pages || distinct !== pages || published.includes('torn')) {
        throw new Error(`${peer.name} published ${distinct} of ${pages} pages, ${published.length} with duplicates`);
      }
      return { ...figures, pages };
    },
  }));
  return await measureRounds(contenders, options, label);
}

/** Runs a peer to its end. @throws Error with its stderr if it fails */
async function measurePeer(peer: Peer, baseUrl: string, out: string): Promise<PeerFigures> {
  const folder = await createTemporaryFolder(join(tmpdir(), 'bench-figures-'));
  try {
    const startedAt = performance.now();
    const { code, stdout, stderr } = await startPeer(peer, baseUrl, out, { ...process.env, BENCH_FIGURES: folder })
      .ended;
    const totalMs = performance.now() - startedAt;
    if (code !== 0) throw new Error(`${peer.name} ended with ${code}: ${stderr.slice(-2_000)}`);
    const figures = await Promise.all((await readdir(folder)).map((file) => readPythonFigures(join(folder, file))));
    if (figures.length > 0) return { ...combine(figures), totalMs };
    return { ...(JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as ProcessFigures), totalMs };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** As python/measurement.py writes them. */
interface PythonFigures {
  readonly startedAt: number | null;
  readonly endedAt: number;
  readonly cpuMs: number;
  readonly peakRssBytes: number;
}

async function readPythonFigures(file: string): Promise<PythonFigures> {
  return JSON.parse(await readFile(file, 'utf8')) as PythonFigures;
}

/** Of processes joined by a pipe: time runs from the start of the first export, and both need their memory at once. */
function combine(figures: readonly PythonFigures[]): ProcessFigures {
  const sum = (figure: (one: PythonFigures) => number) => figures.reduce((total, one) => total + figure(one), 0);
  return {
    wallMs:
      Math.max(...figures.map(({ endedAt }) => endedAt)) - Math.max(...figures.map(({ startedAt }) => startedAt ?? 0)),
    cpuMs: sum(({ cpuMs }) => cpuMs),
    peakRssBytes: sum(({ peakRssBytes }) => peakRssBytes),
  };
}
