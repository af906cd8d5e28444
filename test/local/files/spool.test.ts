/** What a spool does with its descriptor: the system gives its number to the next file that is opened. */

import { pbkdf2 } from 'node:crypto';
import { closeSync, fstatSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { withSpooled } from '../../../lib/local/files/spool.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

it('writes nothing more once it is given up, into whatever file has its descriptor now', async () => {
  await using directory = await temporaryDirectory();
  const busy: Promise<unknown>[] = [];
  async function* chunks() {
    yield Buffer.alloc(512 * 1024, 'x');
    // Node's threads have other things to do: the last block waits for one.
    for (let task = 0; task < 8; task += 1) busy.push(promisify(pbkdf2)('', '', 100_000, 64, 'sha512'));
    yield Buffer.alloc(1_000, 'y');
  }
  const refusal = new Error('it is not its turn');
  await expect(
    withSpooled(
      async () => directory.path,
      chunks(),
      () => Promise.reject(refusal),
    ),
  ).rejects.toBe(refusal);

  const others = Array.from({ length: 5 }, (_, index) => openSync(join(directory.path, `other-${index}`), 'wx'));
  await Promise.all(busy);
  await sleep(50);
  expect(others.map((descriptor) => fstatSync(descriptor).size)).toEqual(others.map(() => 0));
  for (const descriptor of others) closeSync(descriptor);
});
