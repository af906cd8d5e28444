/** What a command meets of the process it runs in, and how it says what it has to say. */

import { systemRuntime } from '../core/clock.ts';
import { ExportError, isExportError } from '../core/errors.ts';
import type { DeployedExport, Deployment } from '../core/operations/deployment.ts';
import { toPrintable, truncate } from '../core/sanitize.ts';
import { openDirectory } from '../local/deployment.ts';
import type { Terminal } from './output/progress.ts';
import { paintFor } from './output/terminal.ts';

export interface CommandContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdout: Terminal;
  readonly stderr: Terminal;
  readonly signal: AbortSignal;
}

/** Every command of an operator takes these. */
export interface PlaceOptions {
  /** A directory of this machine. */
  readonly out?: string;
  /** A stack that is deployed. */
  readonly stack?: string;
  readonly json?: boolean;
}

const standardDirectory = './exports';

/**
 * Opens the place that `options` name, acts on it, and resolves to the exit status. Whatever goes wrong is told in words:
 * 2 where the usage, the settings or the place is wrong, 130 where it was interrupted, 1 for anything else. What `endsItself` is
 * not left in the middle by an interruption: it knows how to end.
 */
export async function operate(
  options: PlaceOptions,
  problems: readonly string[],
  world: CommandContext,
  act: (installation: Deployment) => Promise<number>,
  { endsItself = false }: { readonly endsItself?: boolean } = {},
): Promise<number> {
  try {
    assertUsable(options, problems);
    await using installation = await openDeployment(options, world);
    const acting = act(installation);
    return await (endsItself ? acting : Promise.race([acting, interruption(world.signal)]));
  } catch (error) {
    if (error instanceof BrokenPipe) return exitStatuses.ok;
    if (error instanceof Interrupted) return exitStatuses.interrupted;
    return tellError(error, options, world);
  }
}

class Interrupted extends Error {}

/** Rejects where the person does not want to wait any longer: what only looks can be left as it stands. */
function interruption(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  signal.addEventListener('abort', () => reject(new Interrupted()), { once: true });
  if (signal.aborted) reject(new Interrupted());
  return promise;
}

function assertUsable({ out, stack }: PlaceOptions, problems: readonly string[]): void {
  const both = out !== undefined && stack !== undefined ? ['--out, --stack: name one of them'] : [];
  const found = [...problems.map((problem) => truncate(toPrintable(problem), 200)), ...both];
  if (found.length > 0) throw new ExportError('ConfigurationError', found.join('\n'));
}

async function openDeployment({ out, stack }: PlaceOptions, { env }: CommandContext): Promise<Deployment> {
  if (stack === undefined) {
    return openDirectory({ out: out ?? standardDirectory, env, runtime: systemRuntime });
  }
  // The SDK takes a while to load, and most of what runs here has no use for it.
  const { openStack } = await import('../aws/stack/deployment.ts');
  return await openStack({ stackName: stack, env, runtime: systemRuntime });
}

function tellError(error: unknown, { json }: PlaceOptions, world: CommandContext): number {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  const isUsage = isExportError(error, 'ConfigurationError');
  const text = message
    .split('\n')
    .map((line) => `  ${line}\n`)
    .join('');
  const paint = paintFor(world.stderr, world.env);
  world.stderr.write(`${paint('red', isUsage ? 'This cannot be done:' : `Failed (${name}):`)}\n${text}`);
  if (json === true) world.stdout.write(`${JSON.stringify({ status: 'failed', error: { name, message } })}\n`);
  return isUsage ? exitStatuses.usage : exitStatuses.failed;
}

/** The export of that name, or the only one there is. @throws ConfigurationError that names those there are */
export async function openExport(installation: Deployment, name: string | undefined): Promise<DeployedExport> {
  if (name !== undefined) return await installation.open(name);
  const names = await installation.exportNames();
  const [only] = names;
  if (only !== undefined && names.length === 1) return await installation.open(only);
  const which = names.length === 0 ? 'It holds no export' : `Say which export: ${names.join(', ')}`;
  throw new ExportError('ConfigurationError', `${which} (${installation.name})`);
}

/** Whoever read has left, as `head` does: there is nobody to write for. */
export class BrokenPipe extends Error {}

interface Stream extends Terminal {
  on?(event: 'drain' | 'error', listener: () => void): unknown;
  off?(event: 'drain' | 'error', listener: () => void): unknown;
}

/** Streams whose reader has left. Node's own stdout forgets its errors, so they are remembered here. */
const left = new WeakSet<Stream>();
const looked = new WeakSet<Stream>();

/** Writes at the reader's pace, so that what is read from afar does not pile up here. Ends the command if the reader leaves. */
export async function print(stream: Stream, text: string | Uint8Array): Promise<void> {
  if (!looked.has(stream)) {
    looked.add(stream);
    stream.on?.('error', () => left.add(stream));
  }
  if (left.has(stream)) throw new BrokenPipe();
  if (stream.write(text as string) !== false || stream.on === undefined) return;
  await new Promise<void>((resolve) => {
    const goOn = () => {
      stream.off?.('drain', goOn);
      stream.off?.('error', goOn);
      resolve();
    };
    stream.on?.('drain', goOn);
    stream.on?.('error', goOn);
  });
}

/** What a shell is told: done, failed, wrong usage or settings, interrupted. */
export const exitStatuses = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;
