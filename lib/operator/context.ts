/** What all commands share: the process they run in, the deployment they act on, and their exit statuses. */

import { Writable } from 'node:stream';
import { systemRuntime } from '../core/clock.ts';
import { ExportError, isExportError } from '../core/errors.ts';
import type { ExportTarget, Target, UnreadableExport } from '../target/target.ts';
import { listNames, toPrintable } from '../core/sanitize.ts';
import { selectionProblems } from './arguments.ts';
import type { TerminalInput } from './output/question.ts';
import { errorLines, type Terminal, type TextStyle, textStyleFor, withProblemCount } from './output/terminal.ts';

/** `usage` covers wrong options, settings and names; `interrupted` is 128 + SIGINT, as in a shell. */
export const exitStatuses = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;

/** The process, as a command sees it. */
export interface CommandContext {
  readonly env: NodeJS.ProcessEnv;
  readonly stdin: TerminalInput;
  readonly stdout: Terminal;
  readonly stderr: Terminal;
  /** Aborts on Ctrl-C. */
  readonly signal: AbortSignal;
  /** How this program is run here, for the commands in messages: `npx report-exporter`. */
  readonly program: string;
}

/** The options of every command that acts on a deployment. */
export interface TargetOptions {
  /** A directory on this machine. */
  readonly out?: string;
  /** A deployed stack. */
  readonly stack?: string;
  readonly json?: boolean;
}

export const defaultDirectory = './exports';

/**
 * Opens the deployment that `options` name, runs `action` on it, and resolves to the exit status. It reports every
 * error itself. An interruption ends the command at once, unless `handlesInterruption` says that `action` ends itself.
 */
export async function runOnDeployment(
  options: TargetOptions,
  usageErrors: readonly string[],
  context: CommandContext,
  action: (deployment: Target) => Promise<number>,
  interruption: { readonly handlesInterruption?: boolean } = {},
): Promise<number> {
  const bothTargets =
    options.out !== undefined && options.stack !== undefined ? ['--out, --stack: use only one of them'] : [];
  const open = async () => await openDeployment(options, context);
  return await runOn(open, options, [...usageErrors, ...bothTargets], context, action, interruption);
}

/** Opens what a command acts on, and does what {@link runOnDeployment} does. */
export async function runOn<Opened extends AsyncDisposable>(
  open: () => Promise<Opened>,
  options: Pick<TargetOptions, 'json'>,
  problems: readonly string[],
  context: CommandContext,
  action: (target: Opened) => Promise<number>,
  { handlesInterruption = false }: { readonly handlesInterruption?: boolean } = {},
): Promise<number> {
  try {
    if (problems.length > 0) throw new ExportError('ConfigurationError', problems.join('\n'));
    await using target = await open();
    const running = action(target);
    return await (handlesInterruption ? running : Promise.race([running, interruption(context.signal)]));
  } catch (error) {
    if (error instanceof BrokenPipe) return exitStatuses.ok;
    if (error instanceof Interrupted) return reportInterruption(context);
    return reportError(error, options, context);
  }
}

async function openDeployment({ out, stack }: TargetOptions, context: CommandContext): Promise<Target> {
  const { env } = context;
  // Each of them takes long to load.
  if (stack === undefined) {
    const { openLocalDeployment } = await import('../local/directory.ts');
    return openLocalDeployment({
      out: out ?? defaultDirectory,
      env,
      runtime: systemRuntime,
      // With its schemas it takes long to load, and most directories have no settings file.
      readSettings: async (source, name) => (await import('./local-settings.ts')).readAgain(source, name),
    });
  }
  const { openStack } = await import('../aws/stack/stack.ts');
  return await openStack({
    stackName: stack,
    env,
    runtime: systemRuntime,
    askMfaCode: async (serialNumber) => await askMfaCode(serialNumber, context),
  });
}

/** @throws ConfigurationError if there is no terminal */
async function askMfaCode(serialNumber: string, { stdin, stderr, signal }: CommandContext): Promise<string> {
  const device = toPrintable(serialNumber);
  if (stdin.isTTY !== true || stderr.isTTY !== true) {
    throw new ExportError(
      'ConfigurationError',
      `The AWS profile requires a code of the MFA device ${device}, and there is no terminal to ask for it. ` +
        'Run the command at a terminal, or set temporary credentials (aws configure export-credentials --format env)',
    );
  }
  const { askSecret } = await import('./output/question.ts');
  const code = await askSecret(`MFA code of ${device}: `, { stdin, stderr, signal });
  if (code === undefined) throw new Interrupted();
  return code.trim();
}

class Interrupted extends Error {}

/** Rejects when the signal aborts. */
function interruption(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  signal.addEventListener('abort', () => reject(new Interrupted()), { once: true });
  if (signal.aborted) reject(new Interrupted());
  return promise;
}

/** Ends a line of progress that the terminal still shows. */
function reportInterruption({ stderr }: CommandContext): number {
  stderr.write(`${stderr.isTTY === true ? '\r\x1b[K' : ''}Interrupted\n`);
  return exitStatuses.interrupted;
}

/** Prints the error, and returns the exit status. */
export function reportError(
  error: unknown,
  { json }: Pick<TargetOptions, 'json'>,
  { stdout, stderr, env }: CommandContext,
): number {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  const isUsage = isExportError(error, 'ConfigurationError');
  const text = isUsage ? withProblemCount(message) : name === 'Error' ? message : `${name}: ${message}`;
  stderr.write(errorLines(textStyleFor(stderr, env), text));
  if (json === true) stdout.write(`${JSON.stringify({ status: 'failed', error: { name, message } })}\n`);
  return isUsage ? exitStatuses.usage : exitStatuses.failed;
}

/** The export with this name, or the only one. @throws ConfigurationError that lists the names, if neither exists */
export async function openExport(deployment: Target, name: string | undefined): Promise<ExportTarget> {
  if (name !== undefined) return await deployment.open(name);
  const names = await allExports(deployment);
  const [only, ...others] = names;
  if (only !== undefined && others.length === 0) return await deployment.open(only);
  throw new ExportError('ConfigurationError', `Specify an export of ${deployment.name}: ${listNames(names)}`);
}

/** The names of all exports, of the only one, or those in `names`. @throws ConfigurationError that lists the names, if that is none */
export async function selectExports(
  deployment: Target,
  names: readonly string[],
  all: boolean,
): Promise<readonly string[]> {
  // Opening a single one reports that it does not exist.
  if (names.length === 1) return names;
  const existing = await allExports(deployment);
  if (all || (names.length === 0 && existing.length === 1)) return existing;
  const problems = selectionProblems(deployment.name, names, existing);
  if (problems.length > 0) throw new ExportError('ConfigurationError', problems.join('\n'));
  return [...new Set(names)];
}

/** The names of all exports. @throws ConfigurationError if there is none */
export async function allExports(deployment: Target): Promise<readonly string[]> {
  const names = await deployment.exportNames();
  if (names.length > 0) return names;
  throw new ExportError('ConfigurationError', `No exports in ${deployment.name}`);
}

/** What a person reads of one of several exports that cannot be read. */
export const unreadableLines = ({ export: name, error }: UnreadableExport, style: TextStyle): readonly string[] => [
  `${style('red', 'Unreadable:')} ${name}`,
  `  ${toPrintable(`${error.name}: ${error.message}`)}`,
];

/** The reader of a pipe has closed it, as `head` does: the command ends without an error. */
export class BrokenPipe extends Error {}

/**
 * Writes `text`, and waits until the stream has written it: output does not pile up in memory if its reader is slow.
 * @throws BrokenPipe if the reader has closed the pipe
 */
export async function print(stream: Terminal, text: string | Uint8Array): Promise<void> {
  // Another stream than those of a process takes no callback.
  if (!(stream instanceof Writable)) return void stream.write(text as string);
  await new Promise<void>((resolve, reject) => {
    stream.write(text, (error) => (error ? reject(new BrokenPipe()) : resolve()));
  });
}
