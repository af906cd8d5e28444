/** Runs commands as a user does, and returns their output and exit status. */

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { systemRuntime } from '../../../lib/core/clock.ts';
import { runProgram } from '../../../bin/program.ts';
import type { RunJson } from '../../../lib/operator/start-end.ts';
import type { Manifest } from '../export/export-bench.ts';

const program = join(import.meta.dirname, '../../../bin/report-exporter.ts');

export interface CommandResult {
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunningCommand {
  readonly process: ChildProcess;
  readonly ended: Promise<CommandResult>;
  /** The output so far. */
  stdout(): string;
  stderr(): string;
}

/** Starts a process. Its environment has only PATH and the variables of `env`. */
export function start(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  cwd?: string,
): RunningCommand {
  const child = spawn(process.execPath, [program, ...args], {
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(cwd !== undefined && { cwd }),
  });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const ended = new Promise<CommandResult>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (status, signal) => resolve({ status, signal, stdout, stderr }));
  });
  return { process: child, ended, stdout: () => stdout, stderr: () => stderr };
}

export const run = (...args: Parameters<typeof start>): Promise<CommandResult> => start(...args).ended;

/** Runs the command in this process, which is much faster. There is no terminal and no interruption. */
export async function runInProcess(
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<CommandResult> {
  const [stdout, stderr] = [captureOutput(), captureOutput()];
  const status = await runProgram(words, {
    env,
    stdout,
    stderr,
    signal: new AbortController().signal,
    runtime: systemRuntime,
    program: 'npx --no -- report-exporter',
  });
  return { status, signal: null, stdout: stdout.text(), stderr: stderr.text() };
}

function captureOutput() {
  const chunks: Buffer[] = [];
  return {
    write: (chunk: string | Uint8Array) => chunks.push(Buffer.from(chunk as string)) > 0,
    text: () => Buffer.concat(chunks).toString(),
  };
}

/** The object on the last line of stdout. */
export function jsonOf({ stdout }: CommandResult): RunJson {
  return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '');
}

/** A new directory, which is removed at the end of the test. */
export async function aDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'report-exporter-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

export async function readManifest(path: string): Promise<Manifest> {
  return JSON.parse(await readFile(path, 'utf8'));
}
