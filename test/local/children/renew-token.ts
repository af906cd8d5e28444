/**
 * Fetches `argv[4]` pages of the service at `argv[2]` with the refresh token in `argv[5]`, whose successors are in the
 * directory `argv[3]`. Is killed at the call number `argv[7]` of the function `argv[6]` of `node:fs` for a file with
 * tokens: before it, so that it has no effect.
 */

import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { systemRuntime } from '../../../lib/core/clock.ts';
import { createRenewedSecret } from '../../../lib/local/renewed-secret.ts';
import { fetchPage } from '../../support/builders.ts';
import { clientFor, pageRequest, readPage } from '../../support/service/service-client.ts';
import { apiWithTokens } from '../../support/service/token-server.ts';

const [, , url = '', out = '', pages = '', secret = '', name = '', number = '0'] = process.argv;
let calls = 0;
if (name !== '') {
  const target = fs as unknown as Record<string, (...args: readonly unknown[]) => unknown>;
  const original = target[name] as (...args: readonly unknown[]) => unknown;
  target[name] = (...args) => {
    if (String(args[0]).includes('.tokens') && (calls += 1) === Number(number)) process.kill(process.pid, 'SIGKILL');
    return original(...args);
  };
  syncBuiltinESMExports();
}
await using client = clientFor(
  { url },
  { api: apiWithTokens(url), apiKey: createRenewedSecret(out, secret, systemRuntime) },
);
for (let page = 0; page < Number(pages); page += 1) {
  const { name: error = '' } = await fetchPage(client, pageRequest({ format: 'JSON' }))
    .then(readPage)
    .then(
      () => ({}) as Partial<Error>,
      (thrown: Error) => thrown,
    );
  process.stdout.write(`${error === '' ? 'a page' : error}\n`);
}
