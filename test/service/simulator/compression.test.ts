/** Which encoding the simulator chooses, and that the client reads every one of them. */

import { request } from 'node:http';
import * as zlib from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { fixedApiKey } from '../../../lib/service/client/api-key.ts';
import { generatedReports } from '../../../lib/service/simulator/generated-reports.ts';
import { startSimulator } from '../../../lib/service/simulator/simulator.ts';
import { clientFor, failureOf, pageRequest, readPage } from '../../support/service/service-client.ts';
import { fetchPage } from '../../support/builders.ts';

const apiKey = 'key-of-the-simulator';
const now = () => Date.parse('2026-11-20T03:00:00Z');
const aSimulator = (options: { readonly compression?: boolean } = {}) =>
  startSimulator({
    vendor: 'SERVICE',
    apiKey,
    reports: generatedReports({ seed: 1, count: 20, now }),
    now,
    ...options,
  });

/** The content-encoding of a response to a client that sends this header, and whether it has a length. */
async function negotiate(simulator: { readonly baseUrl: string }, acceptEncoding?: string) {
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const headers = acceptEncoding === undefined ? {} : { 'accept-encoding': acceptEncoding };
  request(`${simulator.baseUrl}/`, { headers }, (response) => {
    const { 'content-encoding': encoding, 'content-length': length } = response.headers;
    response.resume();
    resolve({ encoding, hasLength: length !== undefined });
  }).end();
  return await promise;
}

describe('a response of the simulator', () => {
  it.each([
    ['gzip, br, zstd', 'gzip'],
    ['br', 'br'],
    ['gzip;q=0.5, br;q=0.8, deflate', 'br'],
    ['GZIP', 'gzip'],
    ['gzip;q=0, zstd', 'zstd'],
  ])('is compressed for a client that accepts %j', async (accepted, encoding) => {
    await using simulator = await aSimulator();
    expect(await negotiate(simulator, accepted)).toEqual({ encoding, hasLength: false });
  });

  it.each(['identity', 'deflate', 'gzip;q=0', '', undefined])(
    'is sent as it is for a client that accepts %j',
    async (accepted) => {
      await using simulator = await aSimulator();
      expect(await negotiate(simulator, accepted)).toEqual({ encoding: undefined, hasLength: true });
    },
  );

  it('is sent as it is if the simulator is started without compression', async () => {
    await using simulator = await aSimulator({ compression: false });
    expect(await negotiate(simulator, 'gzip')).toEqual({ encoding: undefined, hasLength: true });
  });

  it('is read by the client: a page, and the message of a rejection', async () => {
    await using simulator = await aSimulator();
    await using plain = await aSimulator({ compression: false });
    const read = async (service: { readonly baseUrl: string }) => {
      await using client = clientFor({ url: service.baseUrl }, { apiKey: fixedApiKey(apiKey) });
      const page = await fetchPage(client, pageRequest());
      const body = await readPage(page);
      return { body, transferredBytes: page.transferredBytes };
    };
    const [compressed, uncompressed] = [await read(simulator), await read(plain)];
    expect(compressed.body).toBe(uncompressed.body);
    expect(compressed.transferredBytes).toBe(zlib.gzipSync(compressed.body).length);
    expect(uncompressed.transferredBytes).toBeUndefined();

    await using stranger = clientFor({ url: simulator.baseUrl });
    expect((await failureOf(fetchPage(stranger, pageRequest()))).message).toContain(
      'Check the API key. Response: {"error"',
    );
  });
});
