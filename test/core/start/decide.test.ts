/** What a start does, as a specification: the state of the export, the start and what was read decide. */

import { describe, expect, it } from 'vitest';
import { definitionOfStart } from '../../../lib/core/bounded-runs.ts';
import { asRunId, type ExportDefinition, type ExportState, type PageEntry, type Run } from '../../../lib/core/model.ts';
import { type SliceProgress, WalkedSlices } from '../../../lib/core/run-progress.ts';
import { sliceOf } from '../../../lib/core/slices.ts';
import { type Decision, decide, type Facts, type UnfinishedRun } from '../../../lib/core/start/decide.ts';
import { parseStartInput } from '../../../lib/core/start/start-input.ts';
import {
  aCompletion,
  anEndEntry,
  anExportDefinition,
  anExportRequest,
  anExportState,
  aPageEntry,
  aRun,
  at,
  aWatermark,
} from '../../support/builders.ts';

const hour = 3_600_000;
const since = at('2026-11-01T00:00:00Z');
const newRun = { run: asRunId('20261120T020000Z-1f3a5cb2d407'), sequence: 8, startedAt: at('2026-11-20T02:00:00Z') };
const nightly = anExportDefinition({ name: 'nightly' });
const january = { since: at('2026-01-01T00:00:00Z'), until: at('2026-02-01T00:00:00Z') };
const boundedJanuary = definitionOfStart(nightly, january);
const otherRequest = anExportRequest({ filter: { type: 'invoice' } });
const withOtherFilter = (definition: ExportDefinition) => ({ ...definition, request: otherRequest });

/** The unfinished run of another execution. */
const unfinished = (changes: Partial<Run> = {}): Run =>
  aRun({ export: 'nightly', since, execution: 'owner', ...changes });
const startingAt = (policy: ExportDefinition['since']): ExportDefinition => ({ ...nightly, since: policy });

const published = { completion: { at: since, isPublished: true } };
const conflict = { error: 'PageConflictError', message: 'changed', at: since };

const unread: UnfinishedRun = { kind: 'unread' };
const running: UnfinishedRun = { kind: 'running' };
function progressOf(run: Run, slices: readonly SliceProgress[]) {
  const walked = new WalkedSlices(run);
  for (const each of slices) walked.set(each);
  return walked.get();
}

/** The owner has ended; the run has this last page. */
const endedAfter = (last?: Partial<PageEntry>): UnfinishedRun => ({
  kind: 'read',
  progress: progressOf(unfinished(), [{ slice: sliceOf(unfinished(), 1), last: last && aPageEntry(last) }]),
  hasKnownRoot: true,
});
const noPage = endedAfter();
const onePage = endedAfter({});
const allPages = endedAfter({ nextCursor: null });

interface Row {
  readonly state?: Partial<ExportState>;
  readonly definition?: ExportDefinition;
  readonly start?: object;
  readonly facts?: Partial<Facts>;
}

function decided({ state, definition = nightly, start = {}, facts }: Row): Decision {
  const input = parseStartInput(start);
  const known = { newRun, parentsStatus: 'known', ownStatus: 'unknown', unfinished: unread, ...facts } as const;
  return decide(anExportState({ sequence: 7, ...state }), { definition, input, execution: 'started' }, known);
}

/** `skip: run is in progress`, `begin at 2026-11-01T00:00:00Z`, or only the kind. */
function outcomeOf(row: Row): string {
  const decision = decided(row);
  if (decision.kind === 'skip') return `skip: ${decision.cause}`;
  return decision.kind === 'begin' || decision.kind === 'replace'
    ? `${decision.kind} at ${decision.run.since}`
    : decision.kind;
}

const begin = 'begin at 1970-01-01T00:00:00Z';
const replace = 'replace at 1970-01-01T00:00:00Z';

describe('a start of an export without an unfinished run', () => {
  const time = '2026-11-20T02:00:00Z';
  const lastAt = (lastScheduledTime: string) => ({ lastScheduledTime });
  it.each<[what: string, start: object, state: Partial<ExportState>, outcome: string]>([
    ['the first one', {}, {}, begin],
    ['after a run has completed', {}, { lastCompleted: aCompletion('before') }, begin],
    ['whose execution has had a run', {}, { recentExecutions: ['started'] }, 'skip: execution has had its run'],
    ['to continue a run', { continues: 'owner' }, {}, 'skip: run has ended'],
    ['for the next scheduled time', { scheduledTime: time }, lastAt('2026-11-20T01:00:00Z'), begin],
    ['for the same one', { scheduledTime: time }, lastAt(time), 'skip: scheduled time is repeated'],
    ['for an earlier one', { scheduledTime: time }, lastAt('2026-11-20T03:00:00Z'), 'skip: scheduled time is repeated'],
    ['for one years earlier: no schedule repeats it', { scheduledTime: time }, lastAt('2036-11-20T02:00:00Z'), begin],
    ['for the same text', { scheduledTime: 'x' }, lastAt('x'), 'skip: scheduled time is repeated'],
    ['for another text', { scheduledTime: 'y' }, lastAt('x'), begin],
  ])('%s', (_, start, state, outcome) => {
    expect(outcomeOf({ start, state })).toBe(outcome);
  });

  const exported = { lastCompleted: aCompletion('before', { ...january, bounded: true }) };
  it.each<[what: string, start: object, state: Partial<ExportState>, definition: ExportDefinition, outcome: string]>([
    ['new ones', january, {}, boundedJanuary, `begin at ${january.since}`],
    ['exported ones', january, exported, boundedJanuary, 'skip: bounds are exported'],
    ['exported ones, again', { ...january, again: true }, exported, boundedJanuary, `begin at ${january.since}`],
    [
      'those that another filter has exported',
      january,
      exported,
      withOtherFilter(boundedJanuary),
      `begin at ${january.since}`,
    ],
  ])('with bounds: %s', (_, start, state, definition, outcome) => {
    expect(outcomeOf({ start, state, definition })).toBe(outcome);
  });

  it.each([{ since }, { restart: true }])(
    'is refused once its execution has ended, as no execution would continue its run: %j',
    (start) => {
      expect(decided({ start, facts: { ownStatus: 'ended' } })).toMatchObject({
        kind: 'refuse',
        error: { name: 'ServiceUnavailableError', message: expect.stringContaining('Execution started has ended') },
      });
    },
  );
});

describe('a start that finds a run', () => {
  const restart = { restart: true };
  const mine = { execution: 'started' };
  const begunByMe = { startedBy: 'started' };
  const daily = { slices: { count: 19, lengthMs: 24 * hour, parallel: 2 } };
  it.each<[what: string, run: Partial<Run>, start: object, read: UnfinishedRun, outcome: string]>([
    ['of its own execution', mine, {}, onePage, 'keep'],
    ['of its own execution, with restart', mine, restart, noPage, 'keep'],
    ['of the execution that it continues', {}, { continues: 'owner' }, onePage, 'resume'],
    [
      'of another execution than the one that it continues',
      {},
      { continues: 'other' },
      unread,
      'skip: run was taken over',
    ],
    ['in progress', {}, {}, running, 'skip: run is in progress'],
    ['in progress, with restart', {}, restart, unread, replace],
    ['in progress that it has begun, with restart', begunByMe, restart, running, 'skip: run is in progress'],
    ['that was interrupted', {}, {}, onePage, 'resume'],
    ['that was interrupted, with its since', {}, { since }, onePage, 'resume'],
    ['that was interrupted, with another since', {}, { since: january.since }, onePage, 'refuse'],
    ['that was interrupted, with its slices', daily, { slice: 'P1D' }, onePage, 'resume'],
    ['that was interrupted, with other slices', daily, { slice: 'PT1H' }, onePage, 'refuse'],
    ['without a page', {}, {}, noPage, `replace at ${since}`],
    ['without a page, with another since', {}, { since: january.since }, noPage, `replace at ${january.since}`],
    ['whose cursors repeat', {}, {}, endedAfter({ repeats: true }), `replace at ${since}`],
    ['that may be published', published, {}, allPages, 'resume'],
    ['that may be published, with restart', published, restart, unread, 'refuse'],
    ['whose pages were changed, with restart', { ...published, lastFailure: conflict }, restart, unread, replace],
  ])('%s', (_, run, start, read, outcome) => {
    expect(outcomeOf({ state: { active: unfinished(run) }, start, facts: { unfinished: read } })).toBe(outcome);
  });

  it.each<[what: string, state: Partial<ExportState>, start: object, read: UnfinishedRun, outcome: string]>([
    ['had a run before', { active: unfinished() }, {}, unread, 'skip: execution has had its run'],
    ['had a run before, with restart', { active: unfinished() }, restart, unread, 'skip: execution has had its run'],
    ['begun this run', { active: unfinished(begunByMe) }, restart, onePage, 'resume'],
  ])('after its execution has %s', (_, state, start, read, outcome) => {
    const recentExecutions = ['owner', 'started'];
    expect(outcomeOf({ state: { ...state, recentExecutions }, start, facts: { unfinished: read } })).toBe(outcome);
  });

  const otherSize = { ...nightly, request: anExportRequest({ size: 5 }) };
  it.each<[what: string, definition: ExportDefinition, read: UnfinishedRun, outcome: string]>([
    ['another filter', withOtherFilter(nightly), onePage, 'refuse'],
    ['another filter, but all pages are there', withOtherFilter(nightly), allPages, 'resume'],
    ['another filter, and there is no page', withOtherFilter(nightly), noPage, replace],
    ['another size', otherSize, onePage, 'refuse'],
    ['another size, and there is no page', otherSize, noPage, `replace at ${since}`],
    ['more expected reports', { ...nightly, expect: { minReports: 101 } }, allPages, replace],
  ])('whose settings now have %s', (_, definition, unfinishedRun, outcome) => {
    expect(outcomeOf({ state: { active: unfinished() }, definition, facts: { unfinished: unfinishedRun } })).toBe(
      outcome,
    );
  });

  it.each<[what: string, definition: ExportDefinition, read: UnfinishedRun, outcome: string]>([
    ['without a page', boundedJanuary, noPage, 'resume'],
    ['without a page, of another filter', withOtherFilter(boundedJanuary), noPage, `replace at ${january.since}`],
  ])('with the same bounds, %s', (_, definition, unfinishedRun, outcome) => {
    const active = unfinished({ ...january, bounded: true });
    expect(outcomeOf({ state: { active }, definition, start: january, facts: { unfinished: unfinishedRun } })).toBe(
      outcome,
    );
  });

  it('whose pages were changed, as only its last start has found, may be abandoned', () => {
    const state = { active: unfinished(published), failedStart: conflict };
    expect(outcomeOf({ state, start: restart })).toBe(replace);
  });

  it.each<[start: object, definition: ExportDefinition, run: Partial<Run>, message: string]>([
    [{ since: january.since }, nightly, {}, `since was ${since} and is now ${january.since}`],
    [{ slice: 'PT1H' }, nightly, daily, 'slices were 1440 minutes long and would now be 60 minutes long'],
    [{}, otherSize, {}, 'size was not set and is now 5'],
    [restart, nightly, published, 'Start without --restart to complete it'],
  ])('and contradicts it, is told what to do: %j', (start, definition, run, message) => {
    const row = { state: { active: unfinished(run) }, start, definition, facts: { unfinished: onePage } };
    expect(decided(row)).toMatchObject({
      error: { name: 'ConfigurationError', message: expect.stringContaining(message) },
    });
  });
});

describe('where a new run starts', () => {
  const initial = at('2026-11-15T00:00:00Z');
  const watermark = { watermark: aWatermark({ instant: at('2026-11-19T02:00:00Z') }) };
  const scheduled = { scheduledTime: '2026-11-20T01:00:00Z' };
  const overlapping = (overlapMs: number) => startingAt({ from: 'watermark', overlapMs });
  const withInitial = startingAt({ from: 'watermark', initial, overlapMs: hour });
  const lookback = (hours: number) => startingAt({ from: 'lookback', lookbackMs: hours * hour });
  it.each<[where: string, definition: ExportDefinition, start: object, state: Partial<ExportState>, expected: string]>([
    ['at the first report', nightly, {}, {}, '1970-01-01T00:00:00Z'],
    ['at since.initial', withInitial, {}, {}, initial],
    ['at the since of the start', withInitial, { since }, watermark, since],
    ['at the watermark', overlapping(0), {}, watermark, '2026-11-19T02:00:00Z'],
    ['at the watermark, less the overlap', overlapping(hour), {}, watermark, '2026-11-19T01:00:00Z'],
    ['at the lookback window of its scheduled time', lookback(24), scheduled, {}, '2026-11-19T01:00:00Z'],
    ['at the lookback window of now', lookback(24), {}, watermark, '2026-11-19T02:00:00Z'],
    ['at a watermark before the window', lookback(1), {}, watermark, '2026-11-19T02:00:00Z'],
    [
      'at the window of the first start',
      lookback(24),
      {},
      { firstStart: at('2026-11-18T02:00:00Z') },
      '2026-11-17T02:00:00Z',
    ],
    ['at the window, with another filter', withOtherFilter(lookback(24)), {}, watermark, '2026-11-19T02:00:00Z'],
    ['at the since of the start, with another filter', withOtherFilter(nightly), { since }, watermark, since],
  ])('%s', (_, definition, start, state, expected) => {
    expect(outcomeOf({ definition, start, state })).toBe(`begin at ${expected}`);
  });

  const elsewhere = { ...nightly, request: anExportRequest({ source: 'https://reports.example.com' }) };
  const never = startingAt({ from: 'watermark', initial: at('2126-11-01T00:00:00Z'), overlapMs: 0 });
  it.each<[what: string, definition: ExportDefinition, start: object, message: string]>([
    [
      'a watermark of another filter',
      withOtherFilter(nightly),
      {},
      'with filter {} and does not apply to simulator with filter {"type":"invoice"}',
    ],
    ['a watermark of another service', elsewhere, {}, 'does not apply to https://reports.example.com with filter {}'],
    [
      'a since in the future',
      nightly,
      { since: '2026-11-20T02:05:00.001Z' },
      'is in the future: it is 2026-11-20T02:00:00Z now',
    ],
  ])('is refused with %s', (_, definition, start, message) => {
    const error = { name: 'ConfigurationError', message: expect.stringContaining(message) };
    expect(decided({ definition, start, state: watermark })).toMatchObject({ kind: 'refuse', error });
  });

  it.each([
    ['a since.initial in the future', never, 'since.initial of export nightly, 2126-11-01T00:00:00Z, is in the future'],
  ])('is refused with %s', (_, definition, message) => {
    const error = { name: 'ConfigurationError', message: expect.stringContaining(message) };
    expect(decided({ definition })).toMatchObject({ kind: 'refuse', error });
  });

  it('is nowhere while the run would end before it starts', () => {
    const late = startingAt({ from: 'watermark', initial: at('2026-11-19T23:30:00Z'), overlapMs: 0 });
    expect(decided({ definition: { ...late, lagMs: 3 * hour } })).toMatchObject({
      cause: 'nothing to export yet',
      reason: expect.stringContaining(
        'start at 2026-11-19T23:30:00Z and end at 2026-11-19T23:00:00Z, now less the lag',
      ),
    });
  });
});

describe('the state after a start', () => {
  const stateAfter = (row: Row): ExportState => {
    const decision = decided(row);
    if (!('state' in decision)) throw new Error(`The start changes nothing: ${decision.kind}`);
    return decision.state;
  };

  it('that begins a run has the run, and no trace of the one before', () => {
    const failure = { error: 'ContractError', message: 'no XML', at: since };
    const state = { failedStart: failure, recentExecutions: ['before'], lastScheduledTime: '2026-11-19T02:00:00Z' };
    const scheduledTime = '2026-11-20T02:00:00Z';
    expect(stateAfter({ state, start: { scheduledTime } })).toMatchObject({
      sequence: 8,
      active: { ...newRun, startedBy: 'started', execution: 'started', executionNumber: 1, scheduledTime },
      lastScheduledTime: scheduledTime,
      recentExecutions: ['started', 'before'],
      failedStart: undefined,
    });
  });

  it('that resumes a run names its new execution, and the newest scheduled time', () => {
    const failure = { error: 'ContractError', message: 'no XML', at: since };
    const active = unfinished({ executionNumber: 3, lastFailure: failure, scheduledTime: '2026-11-20T03:00:00Z' });
    const before = { active, failedStart: failure, lastScheduledTime: '2026-11-20T03:00:00Z' };
    const start = { scheduledTime: '2026-11-20T02:00:00Z' };
    const state = stateAfter({ state: before, start, facts: { unfinished: onePage } });
    expect(state).toMatchObject({ lastScheduledTime: '2026-11-20T03:00:00Z', recentExecutions: ['started'] });
    expect(state.failedStart).toBeUndefined();
    expect(state.active).toEqual({
      ...active,
      ...start,
      execution: 'started',
      executionNumber: 4,
      lastFailure: undefined,
    });
  });

  it('keeps the ten newest executions', () => {
    const recentExecutions = Array.from({ length: 10 }, (_, index) => `execution-${index}`);
    const state = stateAfter({ state: { recentExecutions } });
    expect(state.recentExecutions).toEqual(['started', ...recentExecutions.slice(0, 9)]);
  });

  it('has the time of the first start of an export with a lookback window, until a run completes', () => {
    const definition = { ...nightly, since: { from: 'lookback', lookbackMs: hour } as const };
    const scheduledTime = '2026-11-20T01:00:00Z';
    expect(stateAfter({ definition, start: { scheduledTime } }).firstStart).toBe(scheduledTime);
    const firstStart = at('2026-11-18T00:00:00Z');
    expect(stateAfter({ definition, state: { firstStart } }).firstStart).toBe(firstStart);
    expect(stateAfter({ definition, start: { since } }).firstStart).toBeUndefined();
    expect(stateAfter({ definition, state: { watermark: aWatermark() } }).firstStart).toBeUndefined();
  });

  it('begins slices again whose cursors repeat, or were rejected too often, and keeps the others', () => {
    const slices = { count: 19, lengthMs: 24 * hour, parallel: 2 };
    const pass = { ids: null, reports: 1, serviceTime: null };
    const restarted = { attempts: { 2: 4 }, restarts: { 3: 2, 4: 1 }, passes: { 3: pass, 4: pass } };
    const active = unfinished({ slices, ...restarted });
    const pages: readonly Partial<PageEntry>[] = [{ nextCursor: null }, { repeats: true }, {}, {}];
    const walked = pages.map((last, index) => ({ slice: sliceOf(active, index + 1), last: aPageEntry(last) }));
    const read = { kind: 'read', progress: progressOf(active, walked), hasKnownRoot: true } as const;
    const row = { state: { active }, start: { parallel: 5 }, facts: { unfinished: read } };
    expect(stateAfter(row).active).toMatchObject({
      slices: { ...slices, parallel: 5 },
      attempts: { 2: 5, 3: 2 },
      generation: 1,
      restarts: undefined,
      passes: { 4: pass },
      documentRoot: aPageEntry({}).documentRoot,
    });
    expect(decided(row)).toMatchObject({ progress: { counts: { done: 1, count: 19 }, totals: { pages: 2 } } });
  });

  it.each([
    ['a single page, which may be an error document: a new run begins', 1, true, 'replace'],
    ['a second page: the run is resumed, as error documents have no cursor', 2, true, 'resume'],
    ['a single page, but not as another root was found: the run is resumed', 1, undefined, 'resume'],
  ] as const)('has slices of which one was refused, one is gone, and one has %s', (_, page, isOtherRoot, kind) => {
    const active = unfinished({ slices: { count: 3, lengthMs: 24 * hour, parallel: 2 } });
    const slice = (number: number) => sliceOf(active, number);
    const gone = anEndEntry(aPageEntry({}), { page: 1, reason: 'gone', status: 404, documentRoot: null });
    const walked = new WalkedSlices(active);
    walked.set({ slice: slice(1), last: gone });
    walked.set({ slice: slice(2), last: aPageEntry({ page, nextCursor: null }) });
    walked.set({ slice: slice(3), last: undefined });
    const failures = [{ slice: 3, error: 'ContractError', message: 'refused', isOtherRoot }];
    const progress = walked.get({ setAside: [3], failures });
    const facts = { unfinished: { kind: 'read', progress, hasKnownRoot: false } } as const;
    expect(decided({ state: { active }, facts })).toMatchObject({ kind, run: { since: active.since } });
    const isKnown = { unfinished: { ...facts.unfinished, hasKnownRoot: true } };
    expect(decided({ state: { active }, facts: isKnown }).kind).toBe('resume');
  });
});
