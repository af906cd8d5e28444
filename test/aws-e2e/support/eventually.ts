import { setTimeout as sleep } from 'node:timers/promises';

/** Calls `find` until it returns a value. @throws Error after five minutes */
export async function eventually<Value>(what: string, find: () => Promise<Value | undefined>): Promise<Value> {
  for (const deadline = Date.now() + 300_000; ; await sleep(50)) {
    const value = await find();
    if (value !== undefined) return value;
    if (Date.now() > deadline) throw new Error(`Timed out waiting for ${what}`);
  }
}
