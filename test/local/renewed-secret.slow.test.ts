/** Refresh tokens that several processes share, and processes that are killed while they replace one. */

import { describe, expect, it } from 'vitest';
import { startScript } from '../support/process/child-script.ts';
import { startTokenServer } from '../support/service/token-server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const renew = new URL('children/renew-token.ts', import.meta.url);

describe('a refresh token in a directory', () => {
  it('is never sent twice by processes that share it', async () => {
    await using server = await startTokenServer({ lifeSeconds: 0 });
    await using out = await temporaryDirectory();
    const secret = server.consent();
    const children = Array.from({ length: 4 }, () => startScript(renew, server.url, out.path, '10', secret));
    await Promise.all(children.map(({ ended }) => ended));
    expect(children.flatMap(({ lines }) => lines)).toEqual(Array.from({ length: 40 }, () => 'a page'));
    expect(server.exchanged).toHaveLength(40);
    expect(server.reused).toEqual([]);
  });

  // Each change writes two files: one that reserves the space, and after the exchange the one with the new token.
  it.each([
    ['before the first write', 'writeFileSync', 1, true],
    ['between exchange and storage', 'writeFileSync', 2, false],
    ['before the file takes its name', 'renameSync', 1, false],
    ['before the name is durable', 'fsync', 1, true],
  ])('loses the consent at most when its process is killed %s', async (_, name, call, isKept) => {
    await using server = await startTokenServer({ lifeSeconds: 0 });
    await using out = await temporaryDirectory();
    const secret = server.consent();
    const run = async (consent: string, ...crash: readonly string[]) => {
      await using child = startScript(renew, server.url, out.path, '2', consent, ...crash);
      return [await child.ended, ...child.lines];
    };
    const crash = name === 'fsync' ? ['openSync', '1'] : [name, String(call)];
    expect(await run(secret, ...crash)).toEqual(['SIGKILL']);
    expect(await run(secret)).toEqual(
      isKept ? [0, 'a page', 'a page'] : [0, 'ConfigurationError', 'ConfigurationError'],
    );
    expect(server.reused).toHaveLength(isKept ? 0 : 2);
    expect(await run(server.consent())).toEqual([0, 'a page', 'a page']);
  });
});
