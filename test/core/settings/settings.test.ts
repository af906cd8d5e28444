import { describe, expect, it } from 'vitest';
import {
  exportDefinition,
  exportSettingsSchema,
  parseSettings,
  serviceSettingsSchema,
  sourceOf,
} from '../../../lib/core/settings/settings.ts';
import { durationSchema, instantOf, instantSchema } from '../../../lib/core/timestamps.ts';
import { fc, test } from '../../support/property.ts';

const service = (settings: object) => parseSettings(serviceSettingsSchema, settings, 'service');
const anExport = (settings: object) => parseSettings(exportSettingsSchema, { name: 'reports', ...settings }, 'export');

describe('settings', () => {
  it('names every mistake at once, each with its place', () => {
    expect(() =>
      anExport({ name: 'a/b', size: 11, filter: { date: { gte: 'x' } }, since: { overlap: '1 day' }, surprise: 1 }),
    ).toThrow(
      expect.objectContaining({
        name: 'ConfigurationError',
        message: expect.stringMatching(
          /(?=.*name: )(?=.*size: must be 1 to 10)(?=.*filter\.date\.gte)(?=.*since\.overlap)(?=.*surprise)/,
        ),
      }),
    );
  });

  it('stand for what an unset one means', () => {
    expect(exportDefinition(anExport({}), 'simulator')).toEqual({
      name: 'reports',
      request: { source: 'simulator', filter: {}, format: 'XML', container: 'NONE' },
      since: { from: 'watermark', initial: undefined, overlapMs: 0 },
      limits: {
        maxPages: undefined,
        iterationsPerExecution: 250,
        pagesPerInvocation: 1,
        maxCursorRestarts: 1,
        maxInlineWaitSeconds: 20,
        maxRetryAfterSeconds: 21_600,
        maxConsecutiveWaits: 20,
      },
    });
  });

  it.each([
    'https://reports.example.com',
    'https://reports.example.com/eu/',
    'http://127.0.0.1:8080',
    'http://localhost',
    'http://[::1]:1',
  ])('take %s for a base URL', (baseUrl) => expect(service({ baseUrl }).baseUrl).toBe(baseUrl));

  it.each([
    'reports.example.com',
    'http://reports.example.com',
    'http://127.0.0.1.example.com',
    'http://localhost.example.com',
    'ftp://127.0.0.1',
    'https://user:secret@reports.example.com',
    'https://reports.example.com/?key=1',
    'https://reports.example.com/#a',
    '',
  ])('refuse %s as a base URL', (baseUrl) => expect(() => service({ baseUrl })).toThrow('baseUrl'));

  it.each(['ACME', 'acme-2', 'A-B-C'])('take %s for a vendor', (vendor) =>
    expect(service({ baseUrl: 'https://a.example', vendor }).vendor).toBe(vendor),
  );
  it.each(['', 'A B', 'A_B\r\nX: y', '-A', 'A--B', 'Ä'])('refuse %j as a vendor', (vendor) =>
    expect(() => service({ baseUrl: 'https://a.example', vendor })).toThrow('vendor'),
  );

  it('know a service by its address, however that is spelled', () => {
    const spellings = ['https://A.example', 'https://a.example/', 'HTTPS://a.example:443//'];
    expect(new Set(spellings.map(sourceOf))).toEqual(new Set(['https://a.example']));
    expect(sourceOf('https://a.example/eu/')).toBe('https://a.example/eu');
  });

  it('do not let a look-back and a watermark stand side by side', () => {
    expect(() => anExport({ since: { lookbackWindow: 'P1D', overlap: 'PT1H' } })).toThrow('lookbackWindow');
    expect(() => anExport({ since: { lookbackWindow: 'PT0S' } })).toThrow('longer than zero');
    expect(exportDefinition(anExport({ since: { lookbackWindow: 'P1D' } }), 's').since).toEqual({
      from: 'lookback',
      lookbackMs: 86_400_000,
    });
  });

  it('keep a filter as it comes back from every store, or an unfinished run would not know it again', () => {
    const { filter } = anExport({ filter: { offset: -0 } });
    expect(Object.is(filter.offset, 0)).toBe(true);
  });

  it('refuse a filter that would not reach the service as it was written', () => {
    const nested = (depth: number): unknown => JSON.parse(`${'['.repeat(depth)}${']'.repeat(depth)}`);
    expect(anExport({ filter: { a: nested(31) } }).filter).toEqual({ a: nested(31) });
    for (const depth of [33, 100_000]) {
      expect(() => anExport({ filter: { a: nested(depth) } })).toThrow('is nested deeper than 32');
    }
    const proto = JSON.parse('{"a":[{"__proto__":{"b":1}}]}') as object;
    expect(() => anExport({ filter: proto })).toThrow('filter.a[0]: must not have a field named __proto__');
    for (const stranger of [1n, undefined, Number.NaN, new Date(0), () => 1]) {
      expect(() => anExport({ filter: { 'a b': [stranger] } })).toThrow('filter["a b"][0]: must be JSON');
    }
  });

  it('keep further date conditions of a filter', () => {
    const filter = { date: { lt: '2026-12-01T00:00:00Z' }, type: 'daily' };
    expect(anExport({ filter }).filter).toEqual(filter);
    expect(() => anExport({ filter: { date: '2026' } })).toThrow('filter.date');
    expect(() => anExport({ filter: [] })).toThrow('filter');
  });
});

describe('durations', () => {
  it.each([
    ['PT0S', 0],
    ['PT1.5S', 1_500],
    // Times a thousand, it is 1000.9999999999999: no timer takes that.
    ['PT1.001S', 1_001],
    ['PT0.0004S', 0],
    ['PT15M', 900_000],
    ['P1DT2H3M4S', 93_784_000],
    ['P2W', 1_209_600_000],
  ])('%s is %i ms', (text, ms) => expect(durationSchema.parse(text)).toBe(ms));

  it.each(['', 'P', 'PT', 'P1', '1D', 'P1M', 'P1Y', 'PT1H2', '-P1D', 'P1DT', 'pt1s', 'PT1S ', 'P1D2W'])(
    '%j is none',
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
  ])('%j is none', (text) => expect(instantSchema.safeParse(text).success).toBe(false));

  test.prop([fc.date({ min: new Date(0), max: new Date('9999-12-31T23:59:59Z'), noInvalidDate: true })])(
    'in canonical form read back as themselves',
    (date) => {
      expect(instantSchema.parse(instantOf(date.getTime()))).toBe(instantOf(date.getTime()));
      expect(Date.parse(instantOf(date.getTime()))).toBe(date.getTime());
    },
  );
});
