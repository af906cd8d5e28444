/** What a store gives back counts only where it is what was written: every field of it, and under the name it was asked by. */

import { describe, expect, it } from 'vitest';
import type { ExportState, Instant, PageEntry } from '../../../lib/core/model.ts';
import {
  type Checksummed,
  checksumOf,
  parsePageEntry,
  parseExportState,
  type RecordStore,
  sequenceOfPointer,
} from '../../../lib/core/storage/stored-records.ts';
import { aCursor, aFullRun, anExportName, aPageEntry, aRunId, aRunResult, at } from '../../support/builders.ts';
import { fieldsOf, withField, withoutField } from '../../support/fields.ts';

const place: RecordStore = { name: 'table page-log', repairHint: (name) => `put the head of ${name} back` };
const sealed = (value: unknown) => () => ({ value, checksum: checksumOf(value) });
const conflict = (message: RegExp) =>
  expect.objectContaining({ name: 'PageConflictError', message: expect.stringMatching(message) as unknown as string });

const aFullHead = (name = anExportName()): ExportState => ({
  export: name,
  version: 12,
  sequence: 7,
  active: aFullRun({ export: name, sequence: 7 }),
  watermark: {
    instant: at('2026-11-19T02:00:00.500Z'),
    source: 'simulator',
    filter: { z: [1.5, null], a: { '': '' } },
  },
  lastScheduledTime: '2026-11-20T02:00:00Z',
  lastCompleted: { execution: 'execution-6', result: aRunResult({ export: name }) },
});
const aFullEntry = (overrides: Partial<PageEntry> = {}): PageEntry =>
  aPageEntry({
    page: 7,
    cursor: aCursor(),
    cycle: { tortoise: aCursor(), power: 4, steps: 3 },
    revision: '5d41402abc4b2a76b9719d911017c592',
    ...overrides,
  });

describe('a checksum', () => {
  it('is the same in whatever order a store gives names back, and whether what is undefined is there or not', () => {
    expect(checksumOf({ b: { d: 1, c: [{ f: null, e: '' }] }, a: 2, z: undefined })).toBe(
      checksumOf({ a: 2, b: { c: [{ e: '', f: null }], d: 1 } }),
    );
  });

  it.each<[string, unknown, unknown]>([
    ['a number that became text', { a: 1 }, { a: '1' }],
    ['null that became absent', { a: null }, {}],
    ['null that became text', { a: null }, { a: 'null' }],
    ['a list in another order', { a: [1, 2] }, { a: [2, 1] }],
    ['a list that became an object', { a: ['x'] }, { a: { 0: 'x' } }],
    ['a field that slid into another', { a: { b: 1 } }, { a: {}, b: 1 }],
    ['text that reads like two fields', { a: '1","b":"2' }, { a: '1', b: '2' }],
    ['a name that means something to JavaScript', JSON.parse('{"__proto__":1}'), {}],
    ['composed and decomposed text', { a: 'ü' }, { a: 'u\u0308' }],
  ])('is another for another value: %s', (_, one, other) => {
    expect(checksumOf(one)).not.toBe(checksumOf(other));
  });

  it('is a SHA-256 of the JSON that anybody can make again', () => {
    // printf '{"a":[1,null],"b":"ü"}' | sha256sum
    expect(checksumOf({ b: 'ü', a: [1, null] })).toBe(
      '99d384bcceb172977f6eaf4ef3a0327d9228fb58de31d042ba9c21853129253a',
    );
  });
});

describe('a head', () => {
  it('that is as it was written comes back, with what a newer version may have added', () => {
    const head = { ...aFullHead(), colour: 'red' };
    expect(parseExportState(head.export, place, sealed(head))).toEqual(head);
  });

  it.each(fieldsOf(aFullHead()).map(({ path }) => [path.join('.'), path] as const))(
    'is refused where its %s was edited',
    (_, path) => {
      const head = aFullHead();
      const checksum = checksumOf(head);
      for (const changed of [withoutField(head, path), withField(head, path, 9), withField(head, path, 'else')]) {
        expect(() => parseExportState(head.export, place, () => ({ value: changed, checksum }))).toThrow(
          conflict(/in table page-log is not as this exporter left it: it was edited, .*; put the head of .* back$/),
        );
      }
    },
  );

  it.each<[string, Partial<Record<keyof ExportState, unknown>>, RegExp]>([
    ['a version that is text', { version: '12' }, /version: /],
    ['a sequence that is no whole number', { sequence: 7.5 }, /sequence: /],
    ['a run that is none', { active: 'active' }, /active: /],
    ['a since that is no instant', { active: { ...aFullRun(), since: 'yesterday' as Instant } }, /active\.since: /],
    [
      'a filter that is a list',
      { watermark: { instant: at('2026-11-20T02:00:00Z'), source: 's', filter: [] } },
      /filter/,
    ],
  ])('is refused with %s, though its checksum fits', (_, changed, says) => {
    const head = { ...aFullHead('mine'), ...changed };
    expect(() => parseExportState('mine', place, sealed(head))).toThrow(conflict(says));
  });

  it('of another export is refused', () => {
    expect(() => parseExportState('mine', place, sealed(aFullHead('yours')))).toThrow(
      conflict(
        /^The head of export mine .*: it is the head of export yours\. Nothing was changed; put the head of mine back/,
      ),
    );
  });
});

describe('an entry', () => {
  it('that is as it was written comes back', () => {
    const entry = aFullEntry();
    expect(parsePageEntry(entry, place, sealed(entry))).toEqual(entry);
  });

  it.each(fieldsOf(aFullEntry()).map(({ path }) => [path.join('.'), path] as const))(
    'is refused where its %s was edited',
    (_, path) => {
      const entry = aFullEntry();
      const checksum = checksumOf(entry);
      for (const changed of [withoutField(entry, path), withField(entry, path, 9), withField(entry, path, null)]) {
        expect(() => parsePageEntry(entry, place, () => ({ value: changed, checksum }))).toThrow(
          conflict(/^The entry of page 7 of run .* in table page-log is not as .*start with restart/),
        );
      }
    },
  );

  it.each<[string, Partial<Record<keyof PageEntry, unknown>>]>([
    ['page', { page: 0 }],
    ['bytes', { bytes: -1 }],
    ['bytes', { bytes: 2 ** 53 }],
    ['sha256', { sha256: 'unknown' }],
    ['revision', { revision: undefined }],
    ['reports', { reports: 0.5 }],
    ['loggedAt', { loggedAt: '2026-13-20T02:00:00Z' }],
    ['totals.bytes', { totals: { reports: 0, bytes: '0' } }],
    ['cycle.power', { cycle: { tortoise: 'c', power: 0, steps: 0 } }],
    ['repeats', { repeats: 'no' }],
  ])('is refused for its %s, though its checksum fits', (field, changed) => {
    const entry = { ...aFullEntry(), ...changed };
    expect(() => parsePageEntry(aFullEntry(), place, sealed(entry))).toThrow(conflict(new RegExp(`: ${field}: `)));
  });

  it.each([{ export: 'other' }, { run: aRunId() }, { page: 8 }])('of another place is refused: %j', (other) => {
    const entry = aFullEntry();
    expect(() => parsePageEntry({ ...entry, ...other }, place, sealed(entry))).toThrow(
      conflict(new RegExp(`it tells of page 7 of run ${entry.run} of export ${entry.export}\\.`)),
    );
  });

  it.each<[string, () => Checksummed, RegExp]>([
    ['bears no checksum', () => ({ value: aFullEntry(), checksum: undefined }), /it bears no checksum/],
    ['bears a checksum that is no text', () => ({ value: aFullEntry(), checksum: 7 }), /it bears no checksum/],
    ['is no object', () => ({ value: null, checksum: 'x' }), /its checksum does not fit/],
    ['cannot be read', () => JSON.parse('{"page'), /JSON/],
    [
      'is nested beyond measure',
      () => ({ value: JSON.parse('['.repeat(1e5) + ']'.repeat(1e5)), checksum: 'x' }),
      /stack/,
    ],
    ['holds what JSON cannot', () => ({ value: { page: 7n }, checksum: 'x' }), /BigInt/],
  ])('is refused where it %s', (_, read, says) => {
    expect(() => parsePageEntry(aFullEntry(), place, read)).toThrow(conflict(says));
  });

  it('may tell of a service whose clock stands in another age', () => {
    for (const serviceTime of ['+010000-01-01T00:00:00Z', '-000044-03-15T12:00:00Z', '0099-12-31T23:59:59.999Z']) {
      const entry = aFullEntry({ serviceTime: at(serviceTime) });
      expect(parsePageEntry(entry, place, sealed(entry))).toEqual(entry);
    }
  });
});

it.each<[string, number]>([
  ['{"sequence":9}', 9],
  ['{"sequence":9007199254740991}', 9_007_199_254_740_991],
  ['{"sequence":9007199254740992}', 0],
  ['{"sequence":1e400}', 0],
  ['{"sequence":"9"}', 0],
  ['{"sequence":true}', 0],
  ['{"sequence":', 0],
  ['9', 0],
  ['null', 0],
  ['', 0],
])('a pointer of the text %s claims the sequence %i', (text, sequence) => {
  expect(sequenceOfPointer(text)).toBe(sequence);
});
