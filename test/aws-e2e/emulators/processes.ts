/** Starts programs under a process guard: tools that run to their end, and emulators. */

import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readFile, realpath } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { logFile } from './cache.ts';

export interface Emulator {
  readonly endpoint: string;
  /** Its temporary directory, removed when it stops. */
  readonly directory: string;
  /** Resolves once all its processes have ended. */
  stop(): Promise<void>;
}

interface EmulatorCommand {
  /** For messages, and for the name of its log. */
  readonly name: string;
  readonly command: string;
  readonly parameters: (instance: Instance) => readonly string[] | Promise<readonly string[]>;
  readonly env?: (instance: Instance) => Readonly<Record<string, string>>;
  /** A path that responds, with any status, once the emulator is ready. */
  readonly readyPath: string;
}

interface Instance {
  readonly directory: string;
  readonly port: number;
}

const startTimeoutMs = 300_000;

/** @throws Error if the emulator ends, or does not respond within five minutes */
export async function startEmulator(emulator: EmulatorCommand): Promise<Emulator> {
  const { name, command, parameters, env, readyPath } = emulator;
  const directory = await realpath(await mkdtemp(join(tmpdir(), 'report-exporter-aws-')));
  const instance = { directory, port: await freePort() };
  const endpoint = `http://127.0.0.1:${instance.port}`;
  const log = await logFile(name);
  const guard = startGuarded(log, directory, command, await parameters(instance), {
    env: { TMPDIR: directory, ...env?.(instance) },
    cwd: directory,
  });
  const closed = once(guard, 'close');
  const stop = async () => {
    guard.stdin?.end();
    await closed;
  };
  try {
    await waitForResponse(`${endpoint}${readyPath}`, guard);
  } catch (cause) {
    await stop();
    throw new Error(`${name} does not start: ${await lastLine(log)} (${log})`, { cause });
  }
  return { endpoint, directory, stop };
}

/** Runs a program to its end. @throws Error with the last line of its output; the cause has more of it */
export async function runTool(
  name: string,
  command: string,
  parameters: readonly string[],
  { env = {}, cwd }: { readonly env?: Readonly<Record<string, string>>; readonly cwd?: string } = {},
): Promise<void> {
  const log = await logFile(name);
  const guard = startGuarded(log, '', command, parameters, { env, cwd });
  const [status] = await once(guard, 'close');
  if (status === 0) return;
  const output = await readFile(log, 'utf8').catch(() => '');
  throw new Error(`${name} failed: ${await lastLine(log)} (${log})`, { cause: new Error(output.slice(-3_000)) });
}

function startGuarded(
  log: string,
  directory: string,
  command: string,
  parameters: readonly string[],
  { env, cwd }: { readonly env: Readonly<Record<string, string>>; readonly cwd?: string | undefined },
): ChildProcess {
  const guard = join(import.meta.dirname, 'process-guard.ts');
  return spawn(process.execPath, [guard, log, directory, command, ...parameters], {
    // Otherwise Ctrl-C would end the guard before it has cleaned up.
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    env: { ...inheritedEnvironment(), ...env },
    ...(cwd === undefined ? {} : { cwd }),
  });
}

/** The tests' Node.js as `node`, without the developer's AWS settings, and no proxy for the loopback interface. */
function inheritedEnvironment(): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !/^((AWS|CDK)_.*|no_proxy)$/i.test(name));
  return {
    ...Object.fromEntries(inherited),
    PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
    NO_PROXY: ['127.0.0.1', 'localhost', process.env.NO_PROXY ?? process.env.no_proxy ?? ''].join(','),
  };
}

/**
 * A free port outside the range that the system uses for outgoing connections, so that none of these takes the port
 * while no server listens on it.
 */
export async function freePort(): Promise<number> {
  const server = createServer();
  for (;;) {
    const port = randomInt(10_000, 30_000);
    try {
      await once(server.listen(port, '127.0.0.1'), 'listening');
    } catch {
      continue;
    }
    await once(server.close(), 'close');
    return port;
  }
}

async function waitForResponse(url: string, guard: ChildProcess): Promise<void> {
  for (const deadline = Date.now() + startTimeoutMs; ;) {
    if (guard.exitCode !== null || guard.signalCode !== null) throw new Error('The program has ended');
    try {
      await (await fetch(url, { signal: AbortSignal.timeout(5_000) })).arrayBuffer();
      return;
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await sleep(100);
    }
  }
}

async function lastLine(log: string): Promise<string> {
  const text = await readFile(log, 'utf8').catch(() => '');
  return text.trim().split('\n').at(-1) || 'no output';
}
