/** The client and any description of an API: it receives every report once. */

import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { type Api, apiSchema, describeApi } from '../../../lib/service/api/description.ts';
import { partsOf, statusesOf } from '../../../lib/service/api/condition.ts';
import { countsReports, formatOf } from '../../../lib/service/api/page.ts';
import { apiOfRequest } from '../../../lib/settings/settings.ts';
import { ExportError, isExportError } from '../../../lib/core/errors.ts';
import type { Cursor, Instant, JsonObject } from '../../../lib/core/model.ts';
import type { PageRequest, ReportService } from '../../../lib/core/ports.ts';
import type { ReportSource } from '../../../lib/service/simulator/report-export-service.ts';
import { cases, fc } from '../../support/property.ts';
import { describedApis } from '../../support/service/api-descriptions.ts';
import { endOf } from '../../support/described-api/described-api.ts';
import { inMemoryReports } from '../../support/service/in-memory-reports.ts';
import * as fault from '../../support/service/faults.ts';
import type { Fault, FaultScript } from '../../support/service/faults.ts';
import { clientFor, pageRequest, secretOf } from '../../support/service/service-client.ts';
import { type Simulator, startSimulator } from '../../support/service/simulator.ts';
import { fetchPage } from '../../support/builders.ts';

const apiKey = 'a user:a p4ssw0rd/+="&';
const types = ['in/voice', 'größe & "co"'] as const;
const start = Date.UTC(2026, 10, 10);
const dayMs = 24 * 3_600_000;

/** Reports with text that each format must escape. */
const aReport = (index: number) => ({
  id: `report-${index}-end`,
  date: start + index,
  type: types[index % 2],
  xml: `<r id="report-${index}-end" a='"'>\n"Zoë", 日本 🧾 &amp; <b/><![CDATA[,"\r\n]]></r>`,
});
const someReports = (count: number) => Array.from({ length: count }, (_, index) => aReport(index));

const bounds = fc.integer({ min: start, max: start + 10 * dayMs });
const scenarios = fc.record({
  api: describedApis,
  reports: fc.nat(16),
  since: bounds,
  until: bounds,
  size: fc.constantFrom(undefined, 1, 2, 3, 10),
  type: fc.constantFrom(undefined, undefined, ...types),
  compression: fc.boolean(),
});

interface Scenario {
  readonly api: Api;
  readonly reports: number;
  readonly since: number;
  readonly until: number;
  readonly size: number | undefined;
  readonly type: string | undefined;
  readonly compression: boolean;
}

/** Whether a first page without reports has no content. */
const saysNoContent = ({ when }: Api): boolean => partsOf(when?.empty).some((part) => statusesOf(part).includes(204));
/** Whether a page without reports may have no bytes, or so few that it still is one without its last bytes. */
const mayBeBlank = (api: Api): boolean => saysNoContent(api) || partsOf(api.when?.empty).some(({ at }) => at === '');

const instantAt = (ms: number) => new Date(ms).toISOString().replace('.000Z', 'Z') as Instant;

function setUp({ api, reports: count, since, until, compression, ...given }: Scenario) {
  const reports = someReports(count);
  // The only page has all reports.
  const size = api.next.from === 'none' ? undefined : given.size;
  // A path without the type would be another one.
  const type = given.type ?? (api.request.path.includes('{filter.type}') ? types[0] : undefined);
  const filter: JsonObject = type === undefined ? {} : { type };
  const requestFor = (cursor: Cursor | null): PageRequest => ({
    request: {
      source: 'test',
      filter,
      format: formatOf(api),
      container: 'NONE',
      reportsAt: { kind: 'unknown' },
      size,
      api: apiOfRequest(describeApi(api)),
    },
    since: instantAt(since),
    until: instantAt(until),
    begunAt: instantAt(until),
    cursor,
    label: 'the page',
  });
  const pageSize = size ?? 100;
  // Where the last page repeats the cursor, or is the one without reports, there is one more.
  const end = endOf(api);
  const confirming = api.next.from === 'count' && api.next.confirm && count > 0 ? 1 : 0;
  const mayBeMore = end.isSame || end.endsEmpty || api.when?.empty !== undefined;
  const pages = mayBeMore ? undefined : Math.max(1, Math.ceil(count / pageSize)) + confirming;
  const options = { vendor: 'X', apiKey, api, reports: inMemoryReports(reports), pageSize, compression };
  return {
    expected: reports.map(({ id }) => id),
    pages,
    requestFor,
    simulate: (faults?: FaultScript) => {
      // Nothing can be cut off a response without content.
      const quietPages = faults === undefined || !mayBeBlank(api);
      return startSimulator({ ...options, faults, quietPages });
    },
    connect: ({ baseUrl }: Simulator) => {
      const auth = JSON.parse(JSON.stringify(api.auth).replace('https://login.example', baseUrl)) as Api['auth'];
      return clientFor({ url: baseUrl }, { api: { ...api, auth }, apiKey: secretOf(api, apiKey) });
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
const breakings: Readonly<Record<string, (api: Api) => Fault | undefined>> = {
  'is an outage': () => fault.errorResponse(500),
  'ends within the body': () => fault.truncated(1),
  'ends within the body, in chunks': () => fault.truncated(1, 'chunked'),
  'ends with the connection, within the body': () => fault.truncated(1, 'close'),
  // A table may end without a line break if its length is known.
  'lacks its last bytes': ({ page: { format } }) =>
    format === 'bytes' || format === 'csv' ? undefined : { body: (page) => page.subarray(0, -2) },
  'has another content type': () => fault.withContentType('text/html'),
  'has its next page twice': ({ next }): Fault | undefined => {
    if (next.from === 'header') return { headers: { 'X-Next': ['one', 'two'] } };
    return next.from === 'link' ? { headers: { link: ['</one>; rel=next', '</two>; rel=next'] } } : undefined;
  },
  // It is ignored on a page that may be the last one with a next page.
  'has a next page of another server': ({ next }) =>
    next.from === 'link' && next.alsoOnLast !== true
      ? { headers: { link: '<http://127.0.0.2/>; rel=next' } }
      : undefined,
  'has nothing that contains reports': ({ page }) =>
    !('reports' in page) || page.reports === undefined
      ? undefined
      : fault.withBody(page.format === 'json' ? '{"message":"later"}' : '<message/>'),
  'says that there is an error': ({ when, page }) =>
    isAskedForProblem(when?.error) ? documentWith(page, 'problem', 'later') : undefined,
  'says that there is an error by an unusual code': ({ when, page }) =>
    partsOf(when?.error).some((part) => part.not !== undefined) ? documentWith(page, 'result', '7') : undefined,
  'says that it is throttled': ({ when, page }) =>
    partsOf(when?.throttled).some(({ at }) => at !== undefined) ? documentWith(page, 'busy', 'later') : undefined,
  'is throttled with a status of its own': ({ when }) =>
    when?.throttled === undefined ? undefined : { ...fault.errorResponse(420), headers: { 'X-Left': '0' } },
  'says that the credentials have expired': ({ when, page }) =>
    when?.tokenExpired === undefined ? undefined : documentWith(page, 'result', '190'),
  // On page 1, which has no cursor, it is an error only if that is described.
  'says that its cursor has expired': ({ when, page }) =>
    when?.cursorExpired === undefined || !isAskedForProblem(when.error)
      ? undefined
      : documentWith(page, 'problem', page.format === 'xml' ? '\n expired' : 'expired'),
};

const isAskedForProblem = (error: NonNullable<Api['when']>['error']): boolean =>
  partsOf(error).some(({ at }) => at?.endsWith('/problem') === true);

/** A document with status 200 that is no page. */
const documentWith = ({ format }: Api['page'], name: string, text: string): Fault =>
  fault.withBody(format === 'json' ? JSON.stringify({ [name]: text }) : `<feed><${name}>${text}</${name}></feed>`);

const breakingNames = fc.constantFrom(...Object.keys(breakings));

describe('for any description, reports and request', () => {
  it('the client receives every report once, in order, in the bytes that were sent', async () => {
    const nights = { quiet: 0, withQuietPages: 0 };
    await fc.assert(
      fc.asyncProperty(scenarios, async (scenario) => {
        const { expected, pages: count, requestFor, simulate, connect } = setUp(scenario);
        const { format } = scenario.api.page;
        const hasNoContent = saysNoContent(scenario.api) && expected.length === 0;
        // An empty document is no NDJSON.
        fc.pre(format !== 'ndjson' || expected.length > 0 || hasNoContent);
        await using simulator = await simulate();
        await using client = connect(simulator);
        const pages = await fetchAll(client, requestFor);
        if (expected.length === 0) nights.quiet += 1;
        if (pages.slice(1, -1).some(({ reports }) => reports === 0)) nights.withQuietPages += 1;
        expect(pages.flatMap(({ ids }) => ids)).toEqual(expected);
        expect([undefined, pages.length]).toContain(count);
        expect(pages.map(({ reports }) => reports)).toEqual(
          pages.map(({ ids }) => (!countsReports(scenario.api.page) && !hasNoContent ? null : ids.length)),
        );
        if (scenario.compression) return;
        const sent = simulator.exchanges.filter(({ target }) => !/^\/(token|login)/.test(target));
        expect(pages.map(({ sha256 }) => sha256)).toEqual(sent.map(({ sha256 }) => sha256));
      }),
      { numRuns: cases(500) },
    );
    expect(Math.min(nights.quiet, nights.withQuietPages)).toBeGreaterThan(0);
  });

  it('no broken response is a page, and the next attempt continues, with another service and client, too', async () => {
    await fc.assert(
      fc.asyncProperty(scenarios, fc.array(breakingNames, { maxLength: 6 }), async (scenario, names) => {
        const { expected, requestFor, simulate, connect } = setUp(scenario);
        const { page: described, auth } = scenario.api;
        // A page of bytes without reports, and a response without content, are empty: nothing can be cut off.
        const mayBeEmpty = described.format === 'bytes' && endOf(scenario.api).isSame;
        const hasContent = !['ndjson', 'bytes'].includes(described.format) && !mayBeBlank(scenario.api);
        fc.pre((expected.length > 0 || hasContent) && !mayBeEmpty);
        const broken = names.map((name) => breakings[name]?.(scenario.api)).filter((one) => one !== undefined);
        const ids: string[] = [];
        let cursor: Cursor | null = null;
        let pages = 0;
        do {
          const next = broken.shift();
          let isBroken = next !== undefined;
          const faults: FaultScript = ({ page, request }) => {
            // Not of a request for an access token.
            if (page === undefined && request === 1 && ['oauth2', 'login'].includes(auth.kind)) return undefined;
            if (!isBroken) return undefined;
            isBroken = false;
            return next;
          };
          await using simulator = await simulate(faults);
          await using client = connect(simulator);
          const isRefused = await fetchIds(client, requestFor(cursor)).then(
            () => false,
            (error: unknown) => error instanceof ExportError,
          );
          expect(isRefused).toBe(next !== undefined);
          const page: Page = await fetchIds(client, requestFor(cursor));
          ids.push(...page.ids);
          ({ cursor } = page);
          pages += 1;
          if (pages > 50) throw new Error('there is no last page');
        } while (cursor !== null);
        expect(ids).toEqual(expected);
      }),
      { numRuns: cases(500) },
    );
  });
});

const counted = apiSchema.parse({
  request: { path: '/reports', query: { from: '{since}', to: '{until}' } },
  auth: { kind: 'none' },
  next: { from: 'count', to: { query: 'page' }, total: '/total' },
  page: { format: 'json', reports: '/data/*' },
});
const paging = fc.constantFrom<Partial<Extract<Api['next'], { from: 'count' }>>>({}, { first: 0, step: 'reports' });
const places = fc.nat(11);
/** What happens to the reports between two requests. */
const change = fc.oneof(
  { weight: 6, arbitrary: fc.constant(undefined) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('add', 'remove'), place: places }) },
);

describe('counted pages', () => {
  it('are those of one moment, unless reports were both added and removed between the first and the last of them', async () => {
    const outcomes = { shifted: 0, published: 0, balanced: 0 };
    await fc.assert(
      fc.asyncProperty(
        paging,
        fc.nat(12),
        fc.integer({ min: 1, max: 4 }),
        fc.array(change, { maxLength: 30 }),
        async (next, count, pageSize, changes) => {
          let current = someReports(count);
          let added = count;
          let happened: string[] = [];
          const source: ReportSource = {
            oldest: 0,
            *from(...range) {
              yield* inMemoryReports(current).from(...range);
            },
          };
          const api = { ...counted, next: { ...counted.next, ...next } } as Api;
          const options = { vendor: 'X', apiKey, api, reports: source, pageSize };
          await using simulator = await startSimulator(options);
          await using client = clientFor({ url: simulator.baseUrl }, { api });
          let cursor: Cursor | null = null;
          let ids: string[] = [];
          for (;;) {
            const request: PageRequest = {
              ...pageRequest({ api: apiOfRequest(describeApi(api)), cursor }),
              until: instantAt(start + dayMs),
            };
            const fetched: Page | undefined = await fetchIds(client, request).catch((error: unknown) => {
              if (isExportError(error, 'CursorRejectedError')) return undefined;
              throw error;
            });
            ids = fetched === undefined ? [] : [...ids, ...fetched.ids];
            cursor = fetched?.cursor ?? null;
            if (fetched === undefined) outcomes.shifted += 1;
            else if (cursor === null) break;
            if (cursor === null) happened = [];
            const next = changes.shift();
            if (next === undefined) continue;
            const { kind, place } = next;
            if (kind === 'remove' && current.length === 0) continue;
            if (cursor !== null) happened.push(kind);
            const at = Math.min(place, current.length - (kind === 'remove' ? 1 : 0));
            current = kind === 'remove' ? current.toSpliced(at, 1) : current.toSpliced(at, 0, aReport((added += 1)));
            // The timeline is sorted by date.
            current = current.map((report, index) => ({ ...report, date: start + index }));
          }
          const isBalanced = happened.includes('add') && happened.includes('remove');
          outcomes[isBalanced ? 'balanced' : 'published'] += 1;
          if (isBalanced) return;
          expect(happened).toEqual([]);
          expect(ids).toEqual(current.map(({ id }) => id));
        },
      ),
      { numRuns: cases(500) },
    );
    expect(outcomes.shifted).toBeGreaterThan(0);
    expect(outcomes.published).toBeGreaterThan(0);
  });
});
