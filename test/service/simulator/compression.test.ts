/** Which encoding the simulator chooses. */

import { request } from 'undici';
import { describe, expect, it } from 'vitest';
import { startTestSimulator } from '../../support/service/simulator-client.ts';

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
});
