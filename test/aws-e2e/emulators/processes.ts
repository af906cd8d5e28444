/** Starts programs under a warden: tools that run to their end, and emulators that run until they are stopped. */

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
  /** Its own, and gone with it. */
  readonly directory: string;
  /** Resolves once it is gone, with all it has started. */
  stop(): Promise<void>;
}

interface EmulatorCommand {
  /** For messages, and for its log in the cache. */
  readonly name: string;
  readonly command: string;
  readonly parameters: (place: Place) => readonly string[] | Promise<readonly string[]>;
  readonly env?: (place: Place) => Readonly<Record<string, string>>;
  /** A path that is answered, with whatever status, once all is ready. */
  readonly readyAt: string;
}

interface Place {
  readonly directory: string;
  readonly port: number;
}

const patienceMs = 90_000;

/** @throws if it ends before it answers, or does not answer for a minute and a half */
export async function startEmulator({ name, command, parameters, env, readyAt }: EmulatorCommand): Promise<Emulator> {
  const directory = await realpath(await mkdtemp(join(tmpdir(), 'report-exporter-aws-')));
  const place = { directory, port: await freePort() };
  const endpoint = `http://127.0.0.1:${place.port}`;
  const log = await logFile(name);
  const warden = startWarden(log, directory, command, await parameters(place), {
    env: { TMPDIR: directory, ...env?.(place) },
    cwd: directory,
  });
  const gone = once(warden, 'close');
  const stop = async () => {
    warden.stdin?.end();
    await gone;
  };
  try {
    await answering(`${endpoint}${readyAt}`, warden);
  } catch (cause) {
    await stop();
    throw new Error(`${name} does not start: ${await lastLine(log)} (${log})`, { cause });
  }
  return { endpoint, directory, stop };
}

/** Runs a program to its end. @throws with the last line of what it has said, the rest as cause, if it fails or is not there */
export async function runTool(
  name: string,
  command: string,
  parameters: readonly string[],
  { env = {}, cwd }: { readonly env?: Readonly<Record<string, string>>; readonly cwd?: string } = {},
): Promise<void> {
  const log = await logFile(name);
  const warden = startWarden(log, '', command, parameters, { env, cwd });
  const [status] = await once(warden, 'close');
  if (status === 0) return;
  const said = await readFile(log, 'utf8').catch(() => '');
  throw new Error(`${name} failed: ${await lastLine(log)} (${log})`, { cause: new Error(said.slice(-3_000)) });
}

function startWarden(
  log: string,
  directory: string,
  command: string,
  parameters: readonly string[],
  { env, cwd }: { readonly env: Readonly<Record<string, string>>; readonly cwd?: string | undefined },
): ChildProcess {
  return spawn(
    process.execPath,
    [join(import.meta.dirname, 'process-guard.ts'), log, directory, command, ...parameters],
    {
      // Detached, or Ctrl-C would reach the warden before it has tidied up.
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
      env: { ...inheritedEnvironment(), ...env },
      ...(cwd === undefined ? {} : { cwd }),
    },
  );
}

/** Nothing of a person's own AWS account gets near an emulator; `node` is the Node of the tests; no proxy between loopbacks. */
function inheritedEnvironment(): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !/^((AWS|CDK)_.*|no_proxy)$/i.test(name));
  return {
    ...Object.fromEntries(inherited),
    PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
    NO_PROXY: ['127.0.0.1', 'localhost', process.env.NO_PROXY ?? process.env.no_proxy ?? ''].join(','),
  };
}

/**
 * A port nobody listens on, of those that the system does not give to outgoing connections: one of them would take it
 * sooner or later, while nobody happens to listen.
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

async function answering(url: string, warden: ChildProcess): Promise<void> {
  for (const until = Date.now() + patienceMs; ; ) {
    if (warden.exitCode !== null || warden.signalCode !== null) throw new Error('it ended');
    try {
      await (await fetch(url, { signal: AbortSignal.timeout(5_000) })).arrayBuffer();
      return;
    } catch (error) {
      if (Date.now() > until) throw error;
      await sleep(100);
    }
  }
}

async function lastLine(log: string): Promise<string> {
  const text = await readFile(log, 'utf8').catch(() => '');
  return text.trim().split('\n').at(-1) || 'it said nothing';
}
