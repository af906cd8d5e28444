/** The probe before a backfill, through the real client, against services that honour, ignore and reject the upper bound. */

import { describe, expect, it } from 'vitest';
import { probeWindow } from '../../lib/backfill/probe-window.ts';
import { isExportError } from '../../lib/core/errors.ts';
import { untilPlaceholder } from '../../lib/core/filter.ts';
import type { DocumentRoot } from '../../lib/core/model.ts';
import { apiSchema } from '../../lib/settings/api-settings.ts';
import { apiOfRequest } from '../../lib/settings/settings.ts';
import { asDocumentRoot } from '../../lib/core/document-root.ts';
import { fixedApiKey } from '../../lib/service/client/api-key.ts';
import {
  always,
  combineScripts,
  errorDocument,
  errorResponse,
  type FaultScript,
  htmlAsXml,
  insteadOfPage,
  onRequest,
  throttled,
} from '../support/service/faults.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import type { SimulatorOptions } from '../support/service/simulator.ts';
import { anExportDefinition, anExportRequest, at } from '../support/builders.ts';
import { createMemoryLog } from '../support/export/memory-adapters.ts';
import { clientFor } from '../support/service/service-client.ts';
import { simulatorApiKey, someReports, startTestSimulator } from '../support/service/simulator-client.ts';

const definition = anExportDefinition({ request: anExportRequest({ filter: { type: 'invoice' }, size: 7 }) });
const reports = someReports(5).map((report) => ({ ...report, type: 'invoice' }));
const beforeAll = at('2026-11-19T00:00:00Z');
/** Two of the five reports are later. */
const until = at('2026-11-20T00:00:04Z');

/** What the probe throws, if anything, the requests that it sends, and the seconds that it waits. */
async function probe(
  options: Partial<SimulatorOptions> = {},
  since = beforeAll,
  untilOperator = 'lt',
  documentRoot?: DocumentRoot,
) {
  await using simulator = await startTestSimulator({ reports: inMemoryReports(reports), ...options });
  await using service = clientFor({ url: simulator.baseUrl }, { apiKey: fixedApiKey(simulatorApiKey) });
  const waits: number[] = [];
  const runtime = { sleep: async (ms: number) => void waits.push(ms / 1_000) };
  const log = createMemoryLog();
  const error = await probeWindow(
    { definition: { ...definition, ...(documentRoot && { documentRoot }) }, service, untilOperator, log, runtime },
    { since, until },
  ).then(
    () => undefined,
    (cause: unknown) => cause,
  );
  return { error, requests: simulator.exchanges.map(({ requestBody }) => requestBody), waits };
}

/** The first request is the one for the period. */
const rejectsEmptyWindows: FaultScript = ({ request }) => (request === 1 ? undefined : errorResponse(400));

/** Without child elements: a page with this body would have no reports. */
const shortErrorDocument = insteadOfPage('<error>Try again later</error>');

const refusal = (message: RegExp) => ({ name: 'ConfigurationError', message: expect.stringMatching(message) });

describe('the probe of a service that honors the upper bound', () => {
  it('succeeds, with one request for a report of the period, and one for the empty window', async () => {
    const { error, requests } = await probe({ upperBounds: 'honoured' });
    expect(error).toBeUndefined();
    const request = { format: 'XML', container: 'NONE', size: 1 };
    expect(requests).toEqual([
      { ...request, filter: { type: 'invoice', date: { gte: beforeAll, lt: until } } },
      { ...request, filter: { type: 'invoice', date: { gte: beforeAll, lt: beforeAll } } },
    ]);
  });

  it('succeeds if a report has exactly the date of the bound', async () => {
    expect((await probe({}, at('2026-11-20T00:00:01Z'))).error).toBeUndefined();
  });

  it('refuses a service that includes the bound, as windows would overlap', async () => {
    const { error } = await probe({}, at('2026-11-20T00:00:01Z'), 'lte');
    expect(error).toMatchObject(refusal(/filter\.date\.lte is inclusive.*dated 2026-11-20T00:00:01Z.*date\.lt\b/));
  });

  it('succeeds with dates without a time', async () => {
    const api = apiSchema.parse({
      request: { path: '/events', query: { from: '{since}', to: '{until}' } },
      dates: 'date',
      auth: { kind: 'bearer' },
      next: { from: 'header', at: 'X-Next', to: { query: 'cursor' } },
      page: { format: 'json', reports: '/events/*' },
    });
    await using simulator = await startTestSimulator({ reports: inMemoryReports(reports), api });
    await using service = clientFor({ url: simulator.baseUrl }, { apiKey: fixedApiKey(simulatorApiKey), api });
    const request = anExportRequest({ api: apiOfRequest({ api }), format: 'JSON' });
    const probing = probeWindow(
      {
        definition: { ...definition, request },
        service,
        untilOperator: untilPlaceholder,
        log: createMemoryLog(),
        runtime: { sleep: async () => {} },
      },
      { since: at('2026-11-20T00:00:00Z'), until: at('2026-11-22T00:00:00Z') },
    );
    await expect(probing).resolves.toBeUndefined();
  });

  it('succeeds if the service rejects windows that are empty, as only one that compares the bounds can', async () => {
    const { error, requests } = await probe({ faults: rejectsEmptyWindows });
    expect(error).toBeUndefined();
    expect(requests).toHaveLength(3);
  });

  it('refuses if there are no reports to tell by', async () => {
    const { error, requests } = await probe({}, until);
    expect(error).toMatchObject(
      refusal(/returns no reports from 2026-11-20T00:00:04Z to 2026-11-20T00:00:04Z.*Nothing was stored/),
    );
    expect(requests).toHaveLength(1);
  });

  it('refuses a service that knows no such operator, and finds nothing with it', async () => {
    const { error } = await probe({ reports: inMemoryReports([]) });
    expect(error).toMatchObject(refusal(/Either there are none, .* or it does not honor filter\.date\.lt/));
  });
});

describe('the probe of a service that ignores the upper bound', () => {
  it('refuses the backfill', async () => {
    const { error } = await probe({ upperBounds: 'ignored' });
    expect(error).toMatchObject(refusal(/it ignores filter\.date\.lt\..*Nothing was stored/));
  });

  it('refuses it also if a gateway rejects the request for the empty window once', async () => {
    const { error } = await probe({ upperBounds: 'ignored', faults: onRequest(2, errorResponse(400)) });
    expect(error).toMatchObject(refusal(/it ignores filter\.date\.lt\./));
  });

  it('refuses it also if only the last report of the period is left', async () => {
    const { error } = await probe({ upperBounds: 'ignored' }, at('2026-11-20T00:00:03Z'));
    expect(error).toMatchObject(refusal(/it ignores filter\.date\.lt\./));
  });
});

describe('the probe of a service that is not available', () => {
  it('is repeated after a wait, and after a Retry-After', async () => {
    const faults = combineScripts(onRequest(1, errorResponse(503)), onRequest(3, throttled('7')));
    const { error, requests, waits } = await probe({ faults });
    expect(error).toBeUndefined();
    expect(requests).toHaveLength(4);
    expect(waits).toEqual([1, 7]);
  });

  it('fails after 20 s of waiting, with what to do', async () => {
    const { error, waits } = await probe({ faults: always(errorResponse(503)) });
    expect(error).toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringMatching(/503.*Nothing was stored\. Start the backfill again when the service responds$/),
    });
    expect(waits).toEqual([1, 2, 4, 8]);
  });

  it('fails at once if the service asks for a longer wait, and says how long that is', async () => {
    const { error, waits } = await probe({ faults: always(throttled('3600')) });
    expect(error).toMatchObject({
      name: 'ServiceThrottledError',
      message: expect.stringMatching(/429.*Start the backfill again after 3600 s$/),
    });
    expect(isExportError(error) && error.retryAfterSeconds).toBe(3_600);
    expect(waits).toEqual([]);
  });
});

describe('the probe of a service that rejects the upper bound', () => {
  it('refuses the backfill, with the response of the service', async () => {
    const { error } = await probe({ upperBounds: 'rejected' });
    expect(error).toMatchObject(
      refusal(/it rejects the filter with filter\.date\.lt\..*the contract does not show: lt.*Nothing was stored/),
    );
  });

  it('fails with the error of the service if that rejects the key', async () => {
    const { error } = await probe({ apiKey: 'another key' });
    expect(error).toMatchObject({ name: 'ConfigurationError', message: expect.stringContaining('401') });
    expect(error).toMatchObject({ message: expect.not.stringContaining('by window') });
  });
});

describe('a document that is no page of reports', () => {
  it.each([
    ['an error document', errorDocument],
    ['an error document without elements', shortErrorDocument],
    ['HTML', htmlAsXml],
  ])('says nothing about the upper bound: %s', async (_, document) => {
    // In the second request, for the empty window, of a service that ignores the bound.
    const { error, requests } = await probe({ upperBounds: 'ignored', faults: onRequest(2, document) });
    expect(error).toMatchObject(refusal(/it ignores filter\.date\.lt/));
    expect(requests).toHaveLength(4);
  });

  it('is refused as the first response, too, if the settings name the root element', async () => {
    const options = { faults: onRequest(1, errorDocument) };
    const { error, waits } = await probe(options, beforeAll, 'lt', asDocumentRoot('reports'));
    expect(error).toBeUndefined();
    expect(waits).toEqual([1]);
  });

  it('ends the check if the service sends nothing else', async () => {
    const { error } = await probe({ faults: always(errorDocument) }, beforeAll, 'lt', asDocumentRoot('reports'));
    expect(error).toMatchObject({
      name: 'ContractError',
      message: expect.stringMatching(
        /root element error .*but reports is expected.*Nothing was stored\. Start the backfill again/,
      ),
    });
  });
});
