import { describe, expect, it } from 'vitest';
import { asDocumentRoot } from '../../lib/core/document-root.ts';
import {
  apiOfRequest,
  exportDefinition,
  exportSettingsSchema,
  serviceSettingsSchema,
  sourceOf,
} from '../../lib/settings/settings.ts';
import { reportExportService } from '../../lib/service/api/report-export-service.ts';
import { scheduleSettingsSchema } from '../../lib/settings/schedule-settings.ts';
import { durationSchema, instantOf, instantSchema } from '../../lib/core/timestamps.ts';
import { fc, test } from '../support/property.ts';
import { anExportWith, aServiceWith } from '../support/settings.ts';
import { parseSettings } from '../support/settings-file.ts';

const service = (settings: object) => parseSettings(serviceSettingsSchema, settings, 'service');
const anExport = (settings: object) => parseSettings(exportSettingsSchema, { name: 'reports', ...settings }, 'export');

describe('settings', () => {
  it('have defaults', () => {
    expect(exportDefinition(anExportWith({}), 'simulator')).toEqual({
      name: 'reports',
      stateName: 'reports',
      request: {
        source: 'simulator',
        filter: {},
        format: 'XML',
        container: 'NONE',
        reportsAt: { kind: 'xml', path: '/*/*' },
        api: apiOfRequest(reportExportService({})),
      },
      dates: { unitMs: 1_000, zone: 'UTC' },
      since: { from: 'watermark', initial: undefined, overlapMs: 0 },
      lagMs: 0,
      slicing: { parallel: 1 },
      publishEmptyRuns: true,
      limits: {
        maxPages: undefined,
        maxEmptyPages: 1_000,
        iterationsPerExecution: 150,
        pagesPerInvocation: 1,
        maxCursorRestarts: 1,
        maxInlineWaitSeconds: 20,
        maxRetryAfterSeconds: 21_600,
        goneAtMostPercent: 2,
        maxConsecutiveWaits: 20,
      },
    });
  });

  it('have no freshness alarm unless a schedule sets one', () => {
    expect(scheduleSettingsSchema.parse({ expression: 'rate(1 day)' }).freshness).toBe('none');
  });

  it.each(['reports', '{http://example.com/ns?v=1#a}reports', 'отчёты', 'a-b.c_1'])(
    'have the root element of a service: %s',
    (rootElement) =>
      expect(exportDefinition(anExportWith({}), 's', aServiceWith({ rootElement })).documentRoot).toBe(
        asDocumentRoot(rootElement),
      ),
  );

  it('have a limit for headers and for the text of a certificate', () => {
    const of = (settings: object) => () => service({ baseUrl: 'https://a.example', ...settings });
    expect(of({ headers: { 'X-A': 'a'.repeat(4_093) } })).toThrow('at most 4096 bytes');
    expect(of({ tls: { ca: `-----BEGIN CERTIFICATE-----${'a'.repeat(65_536)}` } })).toThrow('must be PEM text');
  });

  it('identify a service by its address, however it is spelled', () => {
    const spellings = ['https://A.example', 'https://a.example/', 'HTTPS://a.example:443//'];
    expect(new Set(spellings.map(sourceOf))).toEqual(new Set(['https://a.example']));
    expect(sourceOf('https://a.example/eu/')).toBe('https://a.example/eu');
  });

  it.each([
    [{ format: 'xml' }, { kind: 'xml', path: '/*/*' }],
    [
      { format: 'xml', reports: '/feed/entry' },
      { kind: 'xml', path: '/feed/entry' },
    ],
    [
      { format: 'json', reports: '/data/events/*' },
      { kind: 'json', list: '/data/events' },
    ],
    [
      { format: 'json', reports: '/*' },
      { kind: 'json', list: '' },
    ],
    [{ format: 'ndjson' }, { kind: 'ndjson' }],
    [{ format: 'csv' }, { kind: 'csv', header: true }],
    [
      { format: 'csv', reports: '/*' },
      { kind: 'csv', header: false },
    ],
    [{ format: 'bytes', types: ['application/pdf'] }, { kind: 'unknown' }],
  ])('of pages %j say where the reports are', (page, reportsAt) => {
    const api = { request: { path: '/reports' }, auth: { kind: 'none' }, next: { from: 'link' }, page };
    expect(exportDefinition(anExportWith({}, { api }), 'https://a.example').request).toMatchObject({ reportsAt });
  });

  it.each([
    [{}, { kind: 'xml', path: '/*/*' }],
    [{ format: 'CSV' }, { kind: 'unknown' }],
    [{ container: 'ZIP' }, { kind: 'unknown' }],
  ])('of the Report Export Service with %j say where the reports are', (settings, reportsAt) => {
    expect(exportDefinition(anExportWith(settings), 'simulator').request).toMatchObject({ reportsAt });
  });

  describe('that decide what is requested', () => {
    const described = {
      request: { path: '/reports', query: { from: '{since}' } },
      auth: { kind: 'oauth2', tokenUrl: 'https://login.example', clientId: 'a', scope: 'read' },
      next: { from: 'link' },
      page: { format: 'xml' },
    };
    const contract = { baseUrl: 'https://a.example', vendor: 'ACME', headers: { 'X-Tenant': 'acme-eu-7' } };
    const withApi = (api: object) => ({ ...contract, vendor: undefined, api: { ...described, ...api } });
    const auth = (parts: object) => withApi({ auth: { ...described.auth, ...parts } });
    const requestOf = (settings: object) =>
      exportDefinition(anExportWith({}, settings), 's', aServiceWith(settings)).request;

    it.each([
      ['{since}', true],
      ['all', false],
    ])('have the parents in the checksums, and in that of the selection with dates alone: %s', (from, selects) => {
      const settings = withApi({ request: { path: '/tasks/{parent}', query: { from } } });
      const of = (...values: string[]) =>
        exportDefinition(anExportWith({ parents: { values } }, settings), 's').request.api;
      expect(of('open', 'closed').sha256).not.toBe(of('open').sha256);
      expect(of('open', 'closed').requestSha256 !== of('open').requestSha256).toBe(selects);
    });

    it('do not have how many parents may be gone, nor how that is recognized: a person corrects it in mid-run', () => {
      const parents = { values: ['open'] };
      const settings = withApi({ request: { path: '/tasks/{parent}', query: { from: '{since}' } } });
      const before = exportDefinition(anExportWith({ parents }, settings), 's');
      const changed = { parents: { ...parents, gone: { atMost: 7.5 } }, api: { when: { gone: { status: 404 } } } };
      const after = exportDefinition(anExportWith(changed, settings), 's');
      expect(after.request.api).toEqual(before.request.api);
      expect([before.limits, after.limits]).toMatchObject([{ goneAtMostPercent: 2 }, { goneAtMostPercent: 7.5 }]);
    });

    it.each<[what: string, selects: boolean, before: object, after: object]>([
      ['the value of a header', true, contract, { ...contract, headers: { 'X-Tenant': 'acme-us-1' } }],
      ['another header', true, contract, { ...contract, headers: { ...contract.headers, 'X-Region': 'eu' } }],
      ['no headers', true, contract, { ...contract, headers: undefined }],
      ['the vendor', true, contract, { ...contract, vendor: 'OTHER' }],
      ['the place of the cursor', false, contract, { ...contract, cursorIn: 'body' }],
      ['the upper bound', false, contract, { ...contract, filterUntil: 'date.lt' }],
      ['a header of a described API', true, withApi({}), { ...withApi({}), headers: { 'X-Tenant': 'acme-us-1' } }],
      ['the scope', true, withApi({}), auth({ scope: 'read all' })],
      ['an API instead of the contract', true, contract, withApi({})],
    ])('are in the checksums of a request, and secrets are not: %s', (_, selects, before, after) => {
      const [a, b] = [requestOf(before), requestOf(after)];
      expect(a.api.sha256).not.toBe(b.api.sha256);
      expect(a.api.requestSha256 !== b.api.requestSha256).toBe(selects);
      // Headers may be confidential.
      expect(JSON.stringify([a, b])).not.toMatch(/tenant|acme-|login|oauth2/i);
    });

    it('do not include how they are spelled, and what is no part of a request', () => {
      const others = { userAgent: 'other', compression: false, totalTimeout: 'PT1M', maxConcurrentPages: 1 };
      const same = { ...contract, vendor: 'acme', headers: { 'x-tenant': 'acme-eu-7' }, ...others };
      expect(requestOf(same)).toEqual(requestOf(contract));
    });
  });

  it('of slices, a lag, a lookback window and expectations become part of the definition', () => {
    const of = { filterUntil: 'date.before', maxConcurrentPages: 8 };
    const sliced = { since: { lag: 'PT2H' }, slices: { parallel: 8, length: 'PT1H' } };
    expect(exportDefinition(anExportWith(sliced, of), 's', aServiceWith(of))).toMatchObject({
      dates: { unitMs: 1_000, zone: 'UTC', upperBound: 'date.before' },
      lagMs: 7_200_000,
      slicing: { parallel: 8, lengthMs: 3_600_000, maxConcurrentPages: 8 },
    });
    const daily = {
      request: { path: '/logs', query: { from: '{since}', to: '{until}' } },
      dates: { form: 'date', zone: 'UTC' },
      auth: { kind: 'none' },
      next: { from: 'link' },
      page: { format: 'xml' },
    };
    const dates = { unitMs: 86_400_000, zone: 'UTC', upperBound: '{until}' };
    expect(exportDefinition(anExportWith({}, { api: daily }), 's').dates).toEqual(dates);
    const expecting = anExportWith({
      since: { lookbackWindow: 'P1D' },
      expect: { minReports: 1, reportsEvery: 'P8D' },
    });
    expect(exportDefinition(expecting, 's')).toMatchObject({
      since: { from: 'lookback', lookbackMs: 86_400_000 },
      expect: { minReports: 1, reportsEveryMs: 8 * 86_400_000 },
    });
  });

  it('normalize a filter to the form in which a store returns it, so that both compare equal', () => {
    const { filter } = anExport({ filter: { offset: -0 } });
    expect(Object.is(filter.offset, 0)).toBe(true);
  });

  it('reject a filter that would not reach the service unchanged', () => {
    const nested = (depth: number): unknown => JSON.parse(`${'['.repeat(depth)}${']'.repeat(depth)}`);
    expect(anExport({ filter: { a: nested(31) } }).filter).toEqual({ a: nested(31) });
    for (const depth of [33, 100_000]) {
      expect(() => anExport({ filter: { a: nested(depth) } })).toThrow('is nested deeper than 32');
    }
    const proto = JSON.parse('{"a":[{"__proto__":{"b":1}}]}') as object;
    expect(() => anExport({ filter: proto })).toThrow('filter.a[0]: must not have a field named __proto__');
    for (const value of [1n, undefined, Number.NaN, new Date(0), () => 1]) {
      expect(() => anExport({ filter: { 'a b': [value] } })).toThrow('filter["a b"][0]: must be JSON');
    }
    const { MAX_SAFE_INTEGER: max } = Number;
    expect(anExport({ filter: { bytes: { gte: -max, lte: max } } }).filter).toEqual({ bytes: { gte: -max, lte: max } });
    for (const text of ['9007199254740992', '9223372036854775807', '-9007199254740993', '1e21', '1e400']) {
      const filter = JSON.parse(`{"bytes":{"lte":${text}}}`) as object;
      expect(() => anExport({ filter })).toThrow(/filter\.bytes\.lte: must be a number from .* write it in quotes$/);
    }
  });

  it('reject a filter that is too long for the state of an export', () => {
    const filter = { text: 'x'.repeat(65_536 - '{"text":""}'.length) };
    expect(anExport({ filter }).filter).toEqual(filter);
    for (const text of [`${filter.text}x`, 'é'.repeat(32_763), '€'.repeat(30_000)]) {
      expect(() => anExport({ filter: { text } })).toThrow(
        /^export filter: must be at most 65536 bytes of JSON, but has \d+$/,
      );
    }
  });

  it('keep other date conditions of a filter', () => {
    const filter = { date: { lt: '2026-12-01T00:00:00Z' }, type: 'daily' };
    expect(anExport({ filter }).filter).toEqual(filter);
  });
});

describe('durations', () => {
  it.each([
    ['PT0S', 0],
    ['PT1.5S', 1_500],
    // In floating point, 1.001 × 1000 is 1000.9999999999999, and a timer needs an integer.
    ['PT1.001S', 1_001],
    ['PT0.0004S', 0],
    ['PT15M', 900_000],
    ['P1DT2H3M4S', 93_784_000],
    ['P2W', 1_209_600_000],
  ])('%s is %i ms', (text, ms) => expect(durationSchema.parse(text)).toBe(ms));

  it.each(['', 'P', 'PT', 'P1', '1D', 'P1M', 'P1Y', 'PT1H2', '-P1D', 'P1DT', 'pt1s', 'PT1S ', 'P1D2W'])(
    'rejects %j',
    (text) => expect(durationSchema.safeParse(text).success).toBe(false),
  );
});

describe('instants', () => {
  it.each([
    ['2026-11-20T02:00:00Z', '2026-11-20T02:00:00Z'],
    ['2026-11-20T02:00:00.000Z', '2026-11-20T02:00:00Z'],
    ['2026-11-20T02:00:00.120Z', '2026-11-20T02:00:00.120Z'],
    ['2026-11-20T02:00:00.1239999Z', '2026-11-20T02:00:00.123Z'],
    ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00Z'],
  ])('%s is %s', (text, canonical) => expect(instantSchema.parse(text)).toBe(canonical));

  it.each([
    '2026-11-20',
    '2026-11-20T02:00:00',
    '2026-11-20T02:00:00+01:00',
    '2026-02-30T00:00:00Z',
    '2026-11-20T25:00:00Z',
    'now',
    '',
  ])('rejects %j', (text) => expect(instantSchema.safeParse(text).success).toBe(false));

  test.prop([fc.date({ min: new Date(0), max: new Date('9999-12-31T23:59:59Z'), noInvalidDate: true })])(
    'in canonical form are parsed without a change',
    (date) => {
      expect(instantSchema.parse(instantOf(date.getTime()))).toBe(instantOf(date.getTime()));
      expect(Date.parse(instantOf(date.getTime()))).toBe(date.getTime());
    },
  );
});
