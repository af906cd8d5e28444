import { once } from 'node:events';
import { connect } from 'node:net';
import { request } from 'undici';
import { describe, expect, it } from 'vitest';
import { always, delayed, trickled } from '../../support/service/faults.ts';
import { inMemoryReports } from '../../support/service/in-memory-reports.ts';
import type { ReportSource } from '../../../lib/service/simulator/report-export-service.ts';
import {
  aReport,
  errorOf,
  requestBody,
  sendRequest,
  simulatorApiKey,
  startTestSimulator,
} from '../../support/service/simulator-client.ts';

describe('another instance', () => {
  it('rejects the cursors of one with another seed or vendor', async () => {
    await using issuer = await startTestSimulator({ seed: 1 });
    const { cursor } = await sendRequest(issuer, { fields: { size: 1 } });
    const secondPage = { fields: { size: 1 }, cursor: String(cursor) };
    await using otherSeed = await startTestSimulator({ seed: 2 });
    expect(errorOf(await sendRequest(otherSeed, secondPage)).error).toBe('invalid_cursor');
    const key = 'key-of-acme';
    await using otherVendor = await startTestSimulator({ seed: 1, vendor: 'acme', apiKey: key });
    const response = await sendRequest(otherVendor, { ...secondPage, headers: { 'x-acme-api-key': key } });
    expect(errorOf(response).error).toBe('invalid_cursor');
  });
});

describe('starting and closing', () => {
  it('closes idle, new and waiting connections, and can be closed twice', async () => {
    const simulator = await startTestSimulator({
      faults: ({ request }) => (request > 1 ? delayed(3_600_000) : undefined),
    });
    await sendRequest(simulator);
    const fresh = connect(simulator.port, '127.0.0.1');
    await once(fresh, 'connect');
    const freshClosed = once(fresh, 'close');
    const waiting = sendRequest(simulator).catch((error: unknown) => error);
    const partial = connect(simulator.port, '127.0.0.1').on('error', () => {});
    partial.write('POST /v1/report/export HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n123');
    await once(partial, 'connect');
    const partialClosed = new Promise((resolve) => partial.on('close', resolve));
    await Promise.all([simulator.close(), simulator.close()]);
    await Promise.all([freshClosed, partialClosed]);
    expect(await waiting).toBeInstanceOf(Error);
    await expect(sendRequest(simulator)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });

  it('closes during a response', async () => {
    const simulator = await startTestSimulator({ faults: always(trickled(1, 3_600_000)) });
    const response = await request(`${simulator.baseUrl}/v1/report/export`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-service-api-key': simulatorApiKey },
      body: requestBody(),
    });
    expect(response.statusCode).toBe(200);
    const body = response.body.text().catch((error: unknown) => error);
    await simulator.close();
    expect(await body).toBeInstanceOf(Error);
  });
});

it('answers 500 if its reports fail, and continues', async () => {
  let failing = true;
  const working = inMemoryReports([aReport(1)]);
  const reports: ReportSource = {
    oldest: working.oldest,
    from(position, at) {
      if (failing) throw new Error('the disk failed');
      return working.from(position, at);
    },
  };
  await using simulator = await startTestSimulator({ reports });
  const rejection = { status: 500, error: 'internal_error', message: 'the disk failed' };
  expect(errorOf(await sendRequest(simulator))).toEqual(rejection);
  failing = false;
  expect((await sendRequest(simulator)).ids).toEqual(['r1']);
});
