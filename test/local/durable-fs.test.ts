/** The operating system assigns a closed descriptor's number to the next file that is opened. */

import { pbkdf2 } from 'node:crypto';
import { closeSync, fstatSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { createSpoolFile } from '../../lib/local/durable-fs.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

it('writes nothing into the file that reuses its descriptor after it was abandoned', async () => {
  await using directory = await temporaryDirectory();
  const busy: Promise<unknown>[] = [];
  async function* chunks() {
    yield Buffer.alloc(512 * 1024, 'x');
    // Occupies Node's thread pool, so that the last write has to wait.
    for (let task = 0; task < 8; task += 1) busy.push(promisify(pbkdf2)('', '', 100_000, 64, 'sha512'));
    yield Buffer.alloc(1_000, 'y');
  }
  {
    await using file = createSpoolFile(directory.path);
    await file.fill(chunks());
  }

  const others = Array.from({ length: 5 }, (_, index) => openSync(join(directory.path, `other-${index}`), 'wx'));
  await Promise.all(busy);
  await sleep(50);
  expect(others.map((descriptor) => fstatSync(descriptor).size)).toEqual(others.map(() => 0));
  for (const descriptor of others) closeSync(descriptor);
});
