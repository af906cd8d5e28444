/** The client against the simulator, for any description of an API: each is written from the description, without the other. */

import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { fixedApiKey } from '../../../lib/service/client/api-key.ts';
import { formatOf } from '../../../lib/settings/api-settings.ts';
import { apiOfRequest } from '../../../lib/settings/settings.ts';
import { ExportError } from '../../../lib/core/errors.ts';
import type { Cursor, Instant } from '../../../lib/core/model.ts';
import type { PageRequest, ReportService } from '../../../lib/core/ports.ts';
import { cases, fc } from '../../support/property.ts';
import { type DescribedApi, describedApis } from '../../support/service/api-descriptions.ts';
import { inMemoryReports } from '../../support/service/in-memory-reports.ts';
import * as fault from '../../support/service/faults.ts';
import type { Fault, FaultScript } from '../../support/service/faults.ts';
import { clientFor } from '../../support/service/service-client.ts';
import { type Simulator, startSimulator } from '../../support/service/simulator.ts';
import { fetchPage } from '../../support/builders.ts';

const apiKey = 'a user:a p4ssw0rd/+="&';
const types = ['in/voice', 'größe & "co"'] as const;
const start = Date.UTC(2026, 10, 10);
const tickMs = 8 * 3_600_000;

/** Reports of which several have the same date, with text that each format must escape. */
const reportsAt = (ticks: readonly number[]) =>
  ticks.map((tick, index) => ({
    id: `report-${index}-end`,
    date: start + tick * tickMs,
    type: types[index % 2],
    xml: `<r id="report-${index}-end" a='"'>\n"Zoë", 日本 🧾 &amp; <b/><![CDATA[,"\r\n]]></r>`,
  }));

const ticks = fc.integer({ min: 0, max: 9 });
const scenarios = fc.record({
  described: describedApis,
  ticks: fc.oneof(
    { weight: 4, arbitrary: fc.array(ticks, { minLength: 6, maxLength: 16 }) },
    { weight: 1, arbitrary: fc.array(ticks, { maxLength: 5 }) },
  ),
  since: fc.integer({ min: 0, max: 4 }),
  until: fc.integer({ min: 3, max: 10 }),
  size: fc.constantFrom(1, 2, 3, 10),
  type: fc.constantFrom(undefined, undefined, ...types),
  compression: fc.boolean(),
});

interface Scenario {
  readonly described: DescribedApi;
  readonly ticks: readonly number[];
  readonly since: number;
  readonly until: number;
  readonly size: number;
  readonly type: string | undefined;
  readonly compression: boolean;
}

function setUp({ described, ticks, since, until, size, type, compression }: Scenario) {
  const { api, hasSince, hasUntil, hasSize, hasType } = described;
  const reports = reportsAt(ticks);
  const sinceMs = start + since * tickMs;
  const untilMs = start + until * tickMs;
  const instant = (ms: number) => new Date(ms).toISOString().replace('.000Z', 'Z') as Instant;
  // In whole days, no less than that is requested.
  const dayMs = 24 * 3_600_000;
  const bound = (ms: number, round: (days: number) => number) =>
    api.dates === 'date' ? round(ms / dayMs) * dayMs : ms;
  // A path without the type would be another one.
  const isTypeRequired = api.request.path.includes('{filter.type}');
  const wanted = hasType ? (type ?? (isTypeRequired ? types[0] : undefined)) : undefined;
  const matching = reports
    .filter(({ date }) => !hasSince || date >= bound(sinceMs, Math.floor))
    .filter((report) => wanted === undefined || report.type === wanted)
    .toSorted((one, other) => one.date - other.date);
  const expected = matching.filter(({ date }) => !hasUntil || date < bound(untilMs, Math.ceil)).map(({ id }) => id);
  const requestFor = (cursor: Cursor | null): PageRequest => ({
    request: {
      source: 'test',
      filter: wanted === undefined ? {} : { type: wanted },
      format: formatOf(api),
      container: 'NONE',
      ...(hasSize && { size }),
      api: apiOfRequest({ api }),
    },
    since: instant(sinceMs),
    until: instant(untilMs),
    begunAt: instant(untilMs),
    cursor,
    label: 'the page',
  });
  const pageSize = hasSize ? size : 100;
  // Where the last page repeats the cursor, it has no reports.
  const pages =
    api.next.end !== undefined && 'same' in api.next.end
      ? undefined
      : Math.max(1, Math.ceil(expected.length / pageSize));
  return {
    expected,
    pages,
    requestFor,
    simulate: (options: Partial<Parameters<typeof startSimulator>[0]> = {}) =>
      startSimulator({ vendor: 'X', apiKey, api, reports: inMemoryReports(reports), compression, ...options }),
    connect: ({ baseUrl }: Simulator) => {
      const auth =
        api.auth.kind === 'oauth2'
          ? { ...api.auth, tokenUrl: api.auth.tokenUrl.replace(/^https:..[^/]+/, baseUrl) }
          : api.auth;
      return clientFor({ url: baseUrl }, { api: { ...api, auth }, apiKey: fixedApiKey(apiKey) });
    },
  };
}

interface Page {
  readonly ids: readonly string[];
  readonly reports: number | null;
  readonly sha256: string;
  readonly cursor: Cursor | null;
}

/** Three formats have each ID twice: in a field, and in the XML. */
const idsIn = (body: Buffer): readonly string[] => [...new Set(body.toString().match(/report-\d+-end/g))];

async function fetchIds(client: ReportService, request: PageRequest): Promise<Page> {
  const { body, reports, nextCursor: cursor } = await fetchPage(client, request);
  return { ids: idsIn(body), reports, sha256: createHash('sha256').update(body).digest('hex'), cursor };
}

async function fetchAll(
  client: ReportService,
  requestFor: (cursor: Cursor | null) => PageRequest,
): Promise<readonly Page[]> {
  const pages: Page[] = [];
  let cursor: Cursor | null = null;
  do {
    const page = await fetchIds(client, requestFor(cursor));
    pages.push(page);
    ({ cursor } = page);
    if (pages.length > 50) throw new Error('there is no last page');
  } while (cursor !== null);
  return pages;
}

/** Each makes a response that is no complete page. undefined: not of this description. */
const breakings: Readonly<Record<string, (described: DescribedApi) => Fault | undefined>> = {
  'is an outage': () => fault.errorResponse(500),
  'ends within the body': () => fault.truncated(1),
  'ends within the body, in chunks': () => fault.truncated(1, 'chunked'),
  'ends with the connection, within the body': () => fault.truncated(1, 'close'),
  'lacks its last bytes': ({ api }) =>
    api.page.format === 'bytes' ? undefined : { body: (page) => page.subarray(0, -2) },
  'has another content type': () => fault.withContentType('text/html'),
  'has its next page twice': ({ api: { next } }): Fault | undefined => {
    if (next.from === 'header') return { headers: { 'X-Next': ['one', 'two'] } };
    return next.from === 'link' ? { headers: { link: ['</one>; rel=next', '</two>; rel=next'] } } : undefined;
  },
  'has a next page of another server': ({ api: { next } }) =>
    next.from === 'link' ? { headers: { link: '<http://127.0.0.2/>; rel=next' } } : undefined,
  'has nothing that contains reports': ({ api: { page } }) =>
    !('reports' in page) || page.reports === undefined
      ? undefined
      : fault.withBody(page.format === 'json' ? '{"message":"later"}' : '<message/>'),
  'says that there is an error': ({ api: { page } }) =>
    !('error' in page) || page.error === undefined
      ? undefined
      : fault.withBody(page.format === 'json' ? '{"problem":"later"}' : '<feed><problem>later</problem></feed>'),
  // On page 1, which has no cursor, it is an error only if that is described.
  'says that its cursor is not valid': (described) =>
    !('error' in described.api.page) ? undefined : rejectedCursor(described),
};

/** With status 200, as the description says. */
function rejectedCursor({ api: { page, next } }: DescribedApi): Fault | undefined {
  if (next.rejected === undefined) return undefined;
  return fault.withBody(
    page.format === 'json' ? '{"problem":"expired"}' : '<feed><problem>\n expired</problem></feed>',
  );
}

const breakingNames = fc.constantFrom(...Object.keys(breakings));

describe('for any description, reports and request', () => {
  it('the client receives every report once, in order, in the bytes that were sent', async () => {
    await fc.assert(
      fc.asyncProperty(scenarios, async (scenario) => {
        const { expected, pages: count, requestFor, simulate, connect } = setUp(scenario);
        const { format, empty } = scenario.described.api.page;
        const hasNoContent = empty !== undefined && 'status' in empty && expected.length === 0;
        // An empty document is no NDJSON.
        fc.pre(format !== 'ndjson' || expected.length > 0 || hasNoContent);
        await using simulator = await simulate();
        await using client = connect(simulator);
        const pages = await fetchAll(client, requestFor);
        expect(pages.flatMap(({ ids }) => ids)).toEqual(expected);
        expect([undefined, pages.length]).toContain(count);
        expect(pages.map(({ reports }) => reports)).toEqual(
          pages.map(({ ids }) => (format === 'bytes' && !hasNoContent ? null : ids.length)),
        );
        if (scenario.compression) return;
        const sent = simulator.exchanges.filter(({ target }) => !target.startsWith('/token'));
        expect(pages.map(({ sha256 }) => sha256)).toEqual(sent.map(({ sha256 }) => sha256));
      }),
      { numRuns: cases(500) },
    );
  });

  it('no broken response is a page, and the next attempt continues, with another service and client, too', async () => {
    await fc.assert(
      fc.asyncProperty(scenarios, fc.array(breakingNames, { maxLength: 6 }), async (scenario, names) => {
        const { expected, requestFor, simulate, connect } = setUp(scenario);
        const { page: described, next: nextPage, auth } = scenario.described.api;
        // Of bytes, a page without reports is empty, so that nothing can be cut off, and neither of a response without content.
        const mayBeEmpty = described.format === 'bytes' && nextPage.end !== undefined && 'same' in nextPage.end;
        const hasContent =
          !['ndjson', 'bytes'].includes(described.format) && (described.empty === undefined || 'at' in described.empty);
        fc.pre((expected.length > 0 || hasContent) && !mayBeEmpty);
        const broken = names.map((name) => breakings[name]?.(scenario.described)).filter((one) => one !== undefined);
        const ids: string[] = [];
        let cursor: Cursor | null = null;
        do {
          const next = broken.shift();
          let isBroken = next !== undefined;
          const faults: FaultScript = ({ page, request }) => {
            // Not of a request for an access token.
            if (page === undefined && request === 1 && auth.kind === 'oauth2') return undefined;
            if (!isBroken) return undefined;
            isBroken = false;
            return next;
          };
          await using simulator = await simulate({ faults });
          await using client = connect(simulator);
          const isRefused = await fetchIds(client, requestFor(cursor)).then(
            () => false,
            (error: unknown) => error instanceof ExportError,
          );
          expect(isRefused).toBe(next !== undefined);
          const page: Page = await fetchIds(client, requestFor(cursor));
          ids.push(...page.ids);
          ({ cursor } = page);
        } while (cursor !== null);
        expect(ids).toEqual(expected);
      }),
      { numRuns: cases(500) },
    );
  });
});
