/** Runs the command line as a user does: a process of its own, seen through its output and exit status. */

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { onTestFinished } from 'vitest';
import { runProgram } from '../../../bin/program.ts';
import type { JsonReport } from '../../../lib/operator/run-summary.ts';
import type { Manifest } from '../export/export-bench.ts';

const program = join(import.meta.dirname, '../../../bin/report-exporter.ts');

export interface Ended {
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Running {
  readonly process: ChildProcess;
  readonly ended: Promise<Ended>;
  /** What has been written to stdout so far. */
  stdout(): string;
  stderr(): string;
}

/** Only what is given is in its environment, and what a process needs to live. */
export function start(args: readonly string[], env: Readonly<Record<string, string>> = {}): Running {
  const child = spawn(process.execPath, [program, ...args], {
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
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
  const ended = new Promise<Ended>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (status, signal) => resolve({ status, signal, stdout, stderr }));
  });
  return { process: child, ended, stdout: () => stdout, stderr: () => stderr };
}

export const run = (args: readonly string[], env?: Readonly<Record<string, string>>): Promise<Ended> =>
  start(args, env).ended;

/**
 * The same without a process of its own, for what is not about processes: many times as fast. Nothing is a terminal, and
 * nobody interrupts.
 */
export async function runHere(words: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  const [stdout, stderr] = [listening(), listening()];
  const status = await runProgram(words, {
    env,
    stdin: Readable.from([]),
    stdout,
    stderr,
    signal: new AbortController().signal,
  });
  return { status, signal: null, stdout: stdout.heard(), stderr: stderr.heard() };
}

function listening() {
  const chunks: Buffer[] = [];
  return {
    write: (chunk: string | Uint8Array) => chunks.push(Buffer.from(chunk as string)) > 0,
    heard: () => Buffer.concat(chunks).toString(),
  };
}

/** The object on the last line of stdout. */
export function jsonOf({ stdout }: Ended): JsonReport {
  return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '');
}

/** A directory of the test's own. */
export async function aDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'report-exporter-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

export async function readManifest(path: string): Promise<Manifest> {
  return JSON.parse(await readFile(path, 'utf8'));
}
