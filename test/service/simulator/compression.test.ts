/** Which encoding the simulator chooses, and that the client reads it. */

import { request } from 'undici';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { fixedApiKey } from '../../../lib/service/client/api-key.ts';
import { fetchPage } from '../../support/builders.ts';
import { clientFor, failureOf, pageRequest } from '../../support/service/service-client.ts';
import { simulatorApiKey, startTestSimulator } from '../../support/service/simulator-client.ts';

describe('a response of the simulator', () => {
  it.each([
    ['gzip', true, 'gzip'],
    ['br, GZIP', true, 'gzip'],
    ['gzip;q=0', true, undefined],
    ['identity', true, undefined],
    [undefined, true, undefined],
    ['gzip', false, undefined],
  ])('to a client that accepts %j, with compression %j, is in %s', async (accepted, compression, encoding) => {
    await using simulator = await startTestSimulator({ compression });
    const headers = accepted === undefined ? {} : { 'accept-encoding': accepted };
    const response = await request(`${simulator.baseUrl}/`, { headers });
    await response.body.dump();
    const { 'content-encoding': sent, 'content-length': length } = response.headers;
    expect([sent, length === undefined]).toEqual([encoding, encoding !== undefined]);
  });

  it('is read by the client: a page, and the message of a rejection', async () => {
    const read = async (compression: boolean) => {
      await using simulator = await startTestSimulator({ compression });
      await using client = clientFor({ url: simulator.baseUrl }, { apiKey: fixedApiKey(simulatorApiKey) });
      return await fetchPage(client, pageRequest({ filter: {} }));
    };
    const [compressed, uncompressed] = [await read(true), await read(false)];
    expect(compressed.body).toEqual(uncompressed.body);
    expect(compressed.transferredBytes).toBe(gzipSync(compressed.body).length);
    expect(uncompressed.transferredBytes).toBeUndefined();

    await using simulator = await startTestSimulator({ compression: true });
    await using stranger = clientFor({ url: simulator.baseUrl });
    expect((await failureOf(fetchPage(stranger, pageRequest()))).message).toContain(
      'Check the API key. Response: {"error"',
    );
  });
});
