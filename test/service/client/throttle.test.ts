/** A Retry-After is a minimum for all requests of a service in this process. */

import { expect, it } from 'vitest';
import { systemRuntime } from '../../../lib/core/clock.ts';
import { createServiceClient } from '../../../lib/service/client/client.ts';
import { createThrottle } from '../../../lib/service/client/throttle.ts';
import { fixedApiKey } from '../../../lib/service/client/api-key.ts';
import { reportExportService } from '../../../lib/service/api/report-export-service.ts';
import { aServiceWith } from '../../support/settings.ts';
import { fetchPage } from '../../support/builders.ts';
import { rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import { anErrorContext, clientFor, failureOf, pageRequest } from '../../support/service/service-client.ts';
import { createVirtualClock } from '../../support/virtual-clock.ts';

const throttled = (status: number) => rawResponse({ status, headers: { 'retry-after': '2.9' }, body: '' });

it.each([429, 403, 401, 502, 422])(
  'a Retry-After with status %i holds back the requests of every export',
  async (status) => {
    let ms = 0;
    const slept: number[] = [];
    const clock = {
      ...systemRuntime,
      now: () => 1_795_140_000_000 + ms,
      monotonicNow: () => ms,
      sleep: async (duration: number, signal?: AbortSignal) => {
        if (duration > 1_000) return await systemRuntime.sleep(duration, signal);
        slept.push(duration);
        ms += duration;
      },
    };
    await using server = await startRawServer(throttled(status), rawResponse());
    const settings = aServiceWith({ baseUrl: server.url });
    await using client = createServiceClient(settings, { apiKey: fixedApiKey('key'), clock });
    const [first, second] = [{}, { cursorIn: 'body' } as const].map((each) =>
      client.describedBy(reportExportService(each)),
    );
    const rejected = { name: 'ServiceThrottledError', retryAfterSeconds: 3 };
    expect(await failureOf(fetchPage(first as never, pageRequest()))).toMatchObject(rejected);
    expect(await failureOf(fetchPage(second as never, pageRequest()))).toMatchObject(rejected);
    ms += 1_500;
    expect(await failureOf(fetchPage(second as never, pageRequest()))).toMatchObject({ retryAfterSeconds: 2 });
    expect(server.requests).toHaveLength(1);
    // A short rest is waited out.
    ms += 1_000;
    expect(await fetchPage(second as never, pageRequest())).toMatchObject({ reports: 2 });
    expect(slept).toEqual([500]);
  },
);

it('a shorter Retry-After does not shorten another one', async () => {
  const throttle = createThrottle(createVirtualClock());
  throttle.close(10);
  throttle.close(5);
  await expect(throttle.pass(anErrorContext(), undefined)).rejects.toMatchObject({ retryAfterSeconds: 10 });
});

it('the time that a request waits for its turn is none of its total time', async () => {
  await using server = await startRawServer(rawResponse());
  const clock = createVirtualClock();
  await using client = clientFor(server, { clock, totalTimeout: 1_000 });
  await fetchPage(client, { ...pageRequest(), beforeSend: () => clock.advance(60_000) });
  expect(server.requests).toHaveLength(1);
});
