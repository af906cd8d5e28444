/** Shared by all commands: their call, the target they act on, and their exit statuses. */

import { Writable } from 'node:stream';
import { ExportError, isExportError } from '../core/errors.ts';
import type { Runtime } from '../core/ports.ts';
import { systemRuntime } from '../core/clock.ts';
import type { ExportTarget, Target, UnreadableExport } from './target.ts';
import { toPrintable } from '../core/sanitize.ts';
import { assertNoProblems, selectionProblems } from './arguments.ts';
import type { Options } from './option-table.ts';
import { errorLines, type Terminal, type TextStyle, textStyleFor, withProblemCount } from './output/terminal.ts';

/** `usage` covers wrong options, settings and names; `interrupted` is 128 + SIGINT, as in a shell. */
export const exitStatuses = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;

/** The clock of the process. A test gives a command another one. */
export const processRuntime: Runtime = systemRuntime;

export interface CommandContext {
  readonly env: NodeJS.ProcessEnv;
  readonly stdout: Terminal;
  readonly stderr: Terminal;
  /** Aborts on Ctrl-C. */
  readonly signal: AbortSignal;
  readonly runtime: Runtime;
  /** How this program is run here, for the commands in messages: `npx --no -- report-exporter`. */
  readonly program: string;
}

export interface Call extends CommandContext {
  readonly names: readonly string[];
  readonly options: Options;
  /** The problems of names and options. The command adds its own, and all are reported at once. */
  readonly problems: string[];
  readonly version: string;
  readonly packageFolder: string;
}

/** Runs `action` unless there are problems, and resolves to the exit status. Reports every error. */
export async function runCommand(call: Call, action: () => Promise<number>): Promise<number> {
  try {
    assertNoProblems(call.problems);
    return await action();
  } catch (error) {
    if (error instanceof BrokenPipe) return exitStatuses.ok;
    if (error instanceof Interrupted) return reportInterruption(call);
    return reportError(error, call);
  }
}

/**
 * Opens the target that the options name, and runs `action` on it as {@link runCommand} does. An interruption ends the
 * command at once, unless `handlesInterruption` says that `action` ends itself.
 */
export async function runOnTarget(
  call: Call,
  action: (target: Target) => Promise<number>,
  { handlesInterruption = false }: { readonly handlesInterruption?: boolean } = {},
): Promise<number> {
  const { options, problems, signal } = call;
  // With a settings file, a directory has the refresh tokens.
  const targets = options.stack === undefined ? [] : (['out', 'stack', 'settings'] as const);
  const given = targets.filter((option) => options[option] !== undefined);
  if (given.length > 1) problems.push(`${given.map((option) => `--${option}`).join(', ')}: use only one of them`);
  return await runCommand(call, async () => {
    await using target = await openTarget(call);
    const running = action(target);
    return await (handlesInterruption ? running : Promise.race([running, interruption(signal)]));
  });
}

async function openTarget(call: Call): Promise<Target> {
  const { env, options, runtime } = call;
  const { stack } = options;
  // Both take long to load.
  if (stack === undefined) {
    const { openDirectory } = await import('./local-settings.ts');
    return openDirectory(options, { env, runtime });
  }
  const { openStack } = await import('../aws/stack/stack.ts');
  return await openStack({ stackName: stack, env, runtime });
}

/**
 * Waits until an exchange of a refresh token is stored. If the process ended before, the consent would be lost.
 * `isFirst`: this is the first interruption, so a message says what the process waits for.
 */
export async function finishExchange(stderr: Pick<Terminal, 'write'>, isFirst: boolean): Promise<void> {
  const { finishedChanges, isExchanging } = await import('../local/renewed-secret.ts');
  if (isFirst && isExchanging()) {
    stderr.write('Waiting up to 30 s for the new refresh token: to end now would lose the consent\n');
  }
  await finishedChanges();
}

class Interrupted extends Error {}

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
function reportError(error: unknown, { options, stdout, stderr, env }: Call): number {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  const isUsage = isExportError(error, 'ConfigurationError');
  const text = isUsage ? withProblemCount(message) : name === 'Error' ? message : `${name}: ${message}`;
  stderr.write(errorLines(textStyleFor(stderr, env), text));
  if (options.json === true) stdout.write(`${JSON.stringify({ status: 'failed', error: { name, message } })}\n`);
  return isUsage ? exitStatuses.usage : exitStatuses.failed;
}

/** The export with this name, or the only one. @throws ConfigurationError that lists the names, if neither exists */
export async function openExport(target: Target, name: string | undefined): Promise<ExportTarget> {
  const [only = ''] = await selectExports(target, name === undefined ? [] : [name]);
  return await target.open(only);
}

/** The names of all exports, of the only one, or those in `names`. @throws ConfigurationError that lists the names */
export async function selectExports(
  target: Target,
  names: readonly string[],
  all?: boolean,
): Promise<readonly string[]> {
  // Opening a single one reports that it does not exist.
  if (names.length === 1) return names;
  const existing = await target.exportNames();
  if (existing.length === 0) throw new ExportError('ConfigurationError', `No exports in ${target.name}`);
  if (all === true || (names.length === 0 && existing.length === 1)) return existing;
  const advice = all === undefined ? `Specify an export of ${target.name}` : undefined;
  assertNoProblems(selectionProblems(target.name, names, existing, advice));
  return [...new Set(names)];
}

/** Every export with settings. Of another one, what is stored can be read, and nothing can start. */
export async function openConfigured(target: Target): ReturnType<Target['openAll']> {
  const names = new Set(await target.exportNames());
  return (await target.openAll()).filter((each) => names.has('error' in each ? each.export : each.name));
}

/** The lines about one of several exports that cannot be read. */
export const unreadableLines = ({ export: name, error }: UnreadableExport, style: TextStyle): readonly string[] => [
  `${style('red', 'Unreadable:')} ${name}`,
  `  ${toPrintable(`${error.name}: ${error.message}`)}`,
];

/** The reader of a pipe has closed it, as `head` does: the command ends without an error. */
class BrokenPipe extends Error {}

/**
 * Writes `text`, and waits until the stream has written it: output does not pile up in memory if its reader is slow.
 * @throws BrokenPipe if the reader has closed the pipe
 */
export async function print(stream: Terminal, text: string): Promise<void> {
  // Another stream than those of a process takes no callback.
  if (!(stream instanceof Writable)) return void stream.write(text);
  await new Promise<void>((resolve, reject) => {
    stream.write(text, (error) => (error ? reject(new BrokenPipe()) : resolve()));
  });
}
