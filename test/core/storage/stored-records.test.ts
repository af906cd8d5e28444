import { hash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { ExportState, Instant, PageEntry } from '../../../lib/core/model.ts';
import {
  checksumOf,
  parseExportState,
  parseLogEntry,
  type RecordStore,
  sequenceOfPointer,
  type StoredRecord,
  toStoredRecord,
} from '../../../lib/core/storage/stored-records.ts';
import { aCompletion, aCursor, aFullRun, anExportName, aPageEntry, aWatermark, at } from '../../support/builders.ts';

const store: RecordStore = {
  name: 'table page-log',
  repairHint: (name) => `restore the state of ${name}, or delete it`,
  startHint: 'start with --since',
};
/** A stored record, with a checksum that matches, whatever it is. */
const stored = (value: object) => ({ ...toStoredRecord(value as ExportState), version: 12 });
const conflict = (message: RegExp) =>
  expect.objectContaining({ name: 'PageConflictError', message: expect.stringMatching(message) as unknown as string });

const aFullState = (name = anExportName()): ExportState => ({
  export: name,
  version: 12,
  sequence: 7,
  active: aFullRun({ export: name, sequence: 7 }),
  watermark: aWatermark({ instant: at('2026-11-19T02:00:00.500Z'), filter: { z: [1.5, null], a: { '': '' } } }),
  lastScheduledTime: '2026-11-20T02:00:00Z',
  lastCompleted: aCompletion('execution-6', { export: name }),
});
const aFullEntry = (overrides: Partial<PageEntry> = {}): PageEntry =>
  aPageEntry({
    page: 7,
    cursor: aCursor(),
    cycle: { tortoise: aCursor(), power: 4, steps: 3 },
    revision: '5d41402abc4b2a76b9719d911017c592',
    transferredBytes: 412,
    ...overrides,
  });

describe('a checksum', () => {
  it('does not depend on the order of fields, nor on undefined fields', () => {
    expect(checksumOf({ b: { d: 1, c: [{ f: null, e: '' }] }, a: 2, z: undefined })).toBe(
      checksumOf({ a: 2, b: { c: [{ e: '', f: null }], d: 1 } }),
    );
  });

  it.each<[string, unknown, unknown]>([
    ['a number that became a string', { a: 1 }, { a: '1' }],
    ['null that became absent', { a: null }, {}],
    ['null that became a string', { a: null }, { a: 'null' }],
    ['a list in another order', { a: [1, 2] }, { a: [2, 1] }],
    ['a list that became an object', { a: ['x'] }, { a: { 0: 'x' } }],
    ['a field that moved into another', { a: { b: 1 } }, { a: {}, b: 1 }],
    ['a string that looks like two fields', { a: '1","b":"2' }, { a: '1', b: '2' }],
    ['a field named __proto__', JSON.parse('{"__proto__":1}'), {}],
    ['composed and decomposed text', { a: 'ü' }, { a: 'u\u0308' }],
  ])('differs for %s', (_, one, other) => {
    expect(checksumOf(one)).not.toBe(checksumOf(other));
  });

  it('is the SHA-256 of canonical JSON', () => {
    // printf '{"a":[1,null],"b":"ü"}' | sha256sum
    expect(checksumOf({ b: 'ü', a: [1, null] })).toBe(
      '99d384bcceb172977f6eaf4ef3a0327d9228fb58de31d042ba9c21853129253a',
    );
  });
});

describe('an export state', () => {
  it('is returned as it was written, in the same order, with fields that a newer version added', () => {
    const state = { ...aFullState(), colour: 'red' };
    const { json, checksum } = toStoredRecord(state);
    const read = parseExportState(state.export, store, { json, checksum, version: state.version });
    expect(JSON.stringify(read)).toBe(JSON.stringify(state));
  });

  it.each<[string, Partial<Record<keyof ExportState, unknown>>, RegExp]>([
    ['a version that is a string', { version: '12' }, /version: /],
    ['another version than its store compares', { version: 13 }, /its version is 13, but stored as 12/],
    ['a sequence that is not an integer', { sequence: 7.5 }, /sequence: /],
    ['an active run that is not a run', { active: 'active' }, /active: /],
    ['a since that is not an instant', { active: { ...aFullRun(), since: 'yesterday' as Instant } }, /active\.since: /],
    [
      'a filter that is a list',
      { watermark: { instant: at('2026-11-20T02:00:00Z'), source: 's', filter: [] } },
      /filter/,
    ],
  ])('is rejected with %s, even if its checksum matches', (_, changed, message) => {
    const state = { ...aFullState('mine'), ...changed };
    expect(() => parseExportState('mine', store, stored(state))).toThrow(conflict(message));
  });

  it('of another export is rejected', () => {
    expect(() => parseExportState('mine', store, stored(aFullState('yours')))).toThrow(
      conflict(
        /^The state of export mine .*: it is the state of export yours\. Nothing was changed; restore the state of mine/,
      ),
    );
  });

  it.each(['reports/2020-01-01T00:00:00Z/2020-01-02T00:00:00Z', 'issues/parents/20261120T020000Z-1f3a5cb2d407'])(
    'of a bounded run that was edited is not needed, as the same start begins it again: %s',
    (name) => {
      expect(() => parseExportState(name, store, {})).toThrow(
        conflict(/or delete it and start the bounded run again$/),
      );
    },
  );
});

describe('a page-log entry', () => {
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
    ['emptyPages', { emptyPages: -1 }],
  ])('is rejected for its %s, even if its checksum matches', (field, changed) => {
    const entry = { ...aFullEntry(), ...changed };
    expect(() => parseLogEntry(aFullEntry(), store, stored(entry))).toThrow(conflict(new RegExp(`: ${field}: `)));
  });

  it.each<[string, StoredRecord, RegExp]>([
    ['has no checksum', { json: JSON.stringify(aFullEntry()) }, /it has no checksum/],
    ['has a checksum that is not text', { ...stored(aFullEntry()), checksum: 7 }, /it has no checksum/],
    ['has the checksum of another text', { ...stored(aFullEntry()), json: '{}' }, /its checksum does not match/],
    ['is not there', { checksum: 'x' }, /it has no JSON/],
    ['is no JSON', { json: '{"page', checksum: hash('sha256', '{"page') }, /JSON/],
    ['is not an object', { json: 'null', checksum: hash('sha256', 'null') }, /must be an object/],
  ])('is rejected if it %s', (_, record, message) => {
    expect(() => parseLogEntry(aFullEntry(), store, record)).toThrow(conflict(message));
  });

  it('accepts a service clock that is set to another era', () => {
    for (const serviceTime of ['+010000-01-01T00:00:00Z', '-000044-03-15T12:00:00Z', '0099-12-31T23:59:59.999Z']) {
      const entry = aFullEntry({ serviceTime: at(serviceTime) });
      expect(parseLogEntry(entry, store, toStoredRecord(entry))).toEqual(entry);
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
])('reads %s as a pointer with sequence %i', (text, sequence) => {
  expect(sequenceOfPointer(text)).toBe(sequence);
});
