/** A server of the benchmarks' own in a process of its own, which must not share a thread with whoever is measured. */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

/**
 * Starts `script`; resolves to what it tells by its first message, and ends it when that is disposed of. `onMessage` hears
 * what it tells later.
 */
export async function startServer<Told extends object>(
  script: URL,
  words: readonly string[],
  onMessage?: (message: unknown) => void,
): Promise<Told & AsyncDisposable> {
  const child = fork(fileURLToPath(script), words);
  const ended = once(child, 'exit');
  const told = await Promise.race([
    once(child, 'message').then(([message]) => message as Told),
    ended.then(([code]) => {
      throw new Error(`${fileURLToPath(script)} ended with ${String(code)} before it served anything`);
    }),
  ]);
  if (onMessage !== undefined) child.on('message', onMessage);
  return {
    ...told,
    async [Symbol.asyncDispose]() {
      child.kill();
      await ended;
    },
  };
}
