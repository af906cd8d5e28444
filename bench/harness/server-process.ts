/** A server in its own process: it must not share a thread with the contender that is measured. */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

/**
 * Starts `script`. Returns its first message, which says that it is ready; disposing of it ends the process. `onMessage` gets
 * all later messages.
 */
export async function startServerProcess<Ready extends object>(
  script: URL,
  args: readonly string[],
  onMessage?: (message: unknown) => void,
): Promise<Ready & AsyncDisposable> {
  const child = fork(fileURLToPath(script), args);
  const exited = once(child, 'exit');
  const ready = await Promise.race([
    once(child, 'message').then(([message]) => message as Ready),
    exited.then(([code]) => {
      throw new Error(`${fileURLToPath(script)} ended with ${String(code)} before it was ready`);
    }),
  ]);
  if (onMessage !== undefined) child.on('message', onMessage);
  return {
    ...ready,
    async [Symbol.asyncDispose]() {
      child.kill();
      await exited;
    },
  };
}
