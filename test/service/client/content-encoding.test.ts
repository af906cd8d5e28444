import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { decode } from '../../../lib/service/client/content-encoding.ts';
import { collect } from '../../support/builders.ts';

it('refuses bytes that arrive when the decoder has been read to its end', async () => {
  async function* receive(): AsyncGenerator<Uint8Array, undefined, undefined> {
    yield gzipSync('<reports/>');
    await sleep(20);
    yield gzipSync('<more/>');
  }
  const received = receive();
  const decoded = decode({ label: 'page 1', keys: new Set() }, 'gzip', async () => await received.next());
  await expect(collect(decoded)).rejects.toThrow('it continues after its end');
  // An error event without a listener would end the process only after this.
  await sleep(20);
});
