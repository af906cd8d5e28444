/** The client against the simulator, for any description of an API: each is written from the description, without the other. */

import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { fixedApiKey } from '../../../lib/service/client/api-key.ts';
import { apiOfRequest, formatOf } from '../../../lib/settings/api-settings.ts';
import type { Cursor, Instant } from '../../../lib/core/model.ts';
import { nextCursorOf, type PageRequest, type ReportService } from '../../../lib/core/ports.ts';
import { cases, fc } from '../../support/property.ts';
import { type DescribedApi, describedApis } from '../../support/service/api-descriptions.ts';
import { inMemoryReports } from '../../support/service/in-memory-reports.ts';
import { clientFor } from '../../support/service/service-client.ts';
import { type Simulator, startSimulator } from '../../support/service/simulator.ts';

const apiKey = 'a user:a p4ssw0rd/+="&';
const types = ['in/voice', 'größe & "co"'] as const;
const start = Date.UTC(2026, 10, 20);
const tickMs = 8 * 3_600_000;

/** Reports of which several have the same date, with text that each format must escape. */
const reportsAt = (ticks: readonly number[]) =>
  ticks.map((tick, index) => ({
    id: `report-${index}-end`,
    date: start + tick * tickMs,
    type: types[index % 2],
    xml: `<r id="report-${index}-end" a='"'>\n"Zoë", 日本 🧾 &amp; <b/><![CDATA[,"\r\n]]></r>`,
  }));

const scenarios = fc.record({
  described: describedApis,
  ticks: fc.array(fc.integer({ min: 0, max: 9 }), { maxLength: 14 }),
  since: fc.integer({ min: 0, max: 9 }),
  until: fc.integer({ min: 3, max: 10 }),
  size: fc.constantFrom(1, 2, 3, 10),
  type: fc.constantFrom(undefined, ...types),
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
  const expected = reports
    .filter(({ date }) => !hasSince || date >= bound(sinceMs, Math.floor))
    .filter(({ date }) => !hasUntil || date < bound(untilMs, Math.ceil))
    .filter((report) => wanted === undefined || report.type === wanted)
    .toSorted((one, other) => one.date - other.date);
  const requestFor = (cursor: Cursor | null): PageRequest => ({
    request: {
      source: 'test',
      filter: wanted === undefined ? {} : { type: wanted },
      format: formatOf(api),
      container: 'NONE',
      ...(hasSize && { size }),
      api: apiOfRequest(api),
    },
    since: instant(sinceMs),
    until: instant(untilMs),
    cursor,
    label: 'the page',
  });
  const pageSize = hasSize ? size : 100;
  // Where the last page repeats the cursor, it has no reports.
  const pages = api.next.end?.same === true ? undefined : Math.max(1, Math.ceil(expected.length / pageSize));
  return {
    expected: expected.map(({ id }) => id),
    pages,
    requestFor,
    simulate: (options: Partial<Parameters<typeof startSimulator>[0]> = {}) =>
      startSimulator({ vendor: 'X', apiKey, api, reports: inMemoryReports(reports), compression, ...options }),
    connect: ({ baseUrl }: Simulator) =>
      clientFor({ url: baseUrl }, { api, vendor: 'SERVICE', apiKey: fixedApiKey(apiKey) }),
  };
}

interface Page {
  readonly ids: readonly string[];
  readonly reports: number | null;
  readonly sha256: string;
  readonly cursor: Cursor | null;
}

async function fetchPage(client: ReportService, request: PageRequest): Promise<Page> {
  const page = await client.fetchPage(request);
  const chunks: Uint8Array[] = [];
  for await (const chunk of page.body) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  // Two formats have each ID twice: in a field, and in the XML.
  const ids = [...new Set(body.toString().match(/report-\d+-end/g))];
  const sha256 = createHash('sha256').update(body).digest('hex');
  return { ids, reports: page.reports(), sha256, cursor: nextCursorOf(page) };
}

async function fetchAll(
  client: ReportService,
  requestFor: (cursor: Cursor | null) => PageRequest,
  first: Cursor | null = null,
): Promise<readonly Page[]> {
  const pages: Page[] = [];
  let cursor: Cursor | null = first;
  do {
    const page = await fetchPage(client, requestFor(cursor));
    pages.push(page);
    ({ cursor } = page);
    if (pages.length > 50) throw new Error('there is no last page');
  } while (cursor !== null);
  return pages;
}

describe('for any description, reports and request', () => {
  it('the client receives every report once, in order, in the bytes that were sent', async () => {
    await fc.assert(
      fc.asyncProperty(scenarios, async (scenario) => {
        const { expected, pages: count, requestFor, simulate, connect } = setUp(scenario);
        const { format } = scenario.described.api.page;
        // An empty document is no NDJSON.
        fc.pre(format !== 'ndjson' || expected.length > 0);
        await using simulator = await simulate();
        await using client = connect(simulator);
        const pages = await fetchAll(client, requestFor);
        expect(pages.flatMap(({ ids }) => ids)).toEqual(expected);
        expect([undefined, pages.length]).toContain(count);
        expect(pages.map(({ reports }) => reports)).toEqual(
          pages.map(({ ids }) => (format === 'bytes' ? null : ids.length)),
        );
      }),
      { numRuns: cases(1_000) },
    );
  });
});
