/** What each attempt of a step records about its run, and that recording it never holds the run up. */

import { describe, expect, it, vi } from 'vitest';
import { createAttemptRecorder } from '../../../lib/aws/lambda/attempt-recorder.ts';
import { stepHandler } from '../../../lib/aws/lambda/step-handler.ts';
import { asRunId } from '../../../lib/core/model.ts';
import type { ExportEvent } from '../../../lib/core/ports.ts';
import type { StepName } from '../../../lib/core/state-machine/definition.ts';
import { countIncidents, type IncidentLog, parseIncidentRecord } from '../../../lib/target/incidents.ts';
import { at } from '../../support/builders.ts';
import { createMemoryIncidentLog } from '../../support/export/memory-adapters.ts';

const run = { export: 'nightly', run: asRunId('20261120T020003Z-1f3a5c') };
const now = () => Date.parse('2026-11-20T02:00:00Z');
const loop = { ...run, executionNumber: 1, page: 7, iterations: 6, waits: 0 };
const entry = (retries: number, enteredAt = '2026-11-20T01:59:00.123Z') => ({ enteredAt, retries });
const error = (name: string) => Object.assign(new Error('it failed'), { name });

function aRecorder(step: StepName = 'ExportPage', log: IncidentLog = createMemoryIncidentLog()) {
  const problems: unknown[] = [];
  const delays: number[] = [];
  const sleep = async (ms: number, signal?: AbortSignal) => {
    delays.push(ms);
    // Longer than everything but a write that never ends.
    await new Promise(setImmediate);
    signal?.throwIfAborted();
  };
  const recorder = createAttemptRecorder(step, log, { now, sleep }, (problem) => problems.push(problem));
  return {
    recorder,
    problems,
    delays,
    read: async () => await log.read(run),
    /** An attempt that fails with this error, or succeeds without one. */
    attempt: async (attempt: unknown, name?: string, input: unknown = loop) => {
      recorder.begin({ input, attempt });
      if (name !== undefined) recorder.failed(error(name));
      await recorder.settle(60_000);
    },
  };
}

const unrecorded = {
  kind: 'failed-attempt',
  at: '2026-11-20T02:00:00Z',
  page: 7,
  error: 'Lambda.Unknown',
  message: expect.stringMatching(/^The attempt left no record: .*throttled, timed out or was killed/),
};

describe('the incidents that an attempt records', () => {
  it('are failures that will be retried, each with the number of its retry', async () => {
    const { attempt, read } = aRecorder();
    const names = ['ServiceUnavailableError', 'ServiceUnavailableError', 'ContractError', 'States.Timeout'];
    for (const [retries, name] of names.entries()) await attempt(entry(retries), name);
    const { newest } = await read();
    expect(newest).toMatchObject([
      { kind: 'failed-attempt', at: '2026-11-20T02:00:00Z', page: 7, error: names[0], message: 'it failed' },
      { error: names[1] },
      { error: names[2] },
      { error: names[3] },
    ]);
    const retryOf = (attempt: number, maxAttempts: number) => ({ state: 'ExportPage', attempt, maxAttempts });
    expect(newest).toMatchObject([
      { retry: retryOf(1, 20) },
      { retry: retryOf(2, 20) },
      { retry: retryOf(1, 2) },
      { retry: retryOf(3, 20) },
    ]);
  });

  it('name the page and the slice that waited, but no page for an attempt that works on several slices', async () => {
    const { recorder, read } = aRecorder();
    const slices = { begun: 2, open: [1, 2], done: { pages: 0, reports: 0, bytes: 0 } };
    recorder.begin({ input: { ...loop, slices }, attempt: entry(0) });
    const counts = { done: 1, count: 3 };
    const totals = { totalPages: 8, totalReports: 80, totalBytes: 800 };
    recorder.onEvent({ event: 'service-asked-to-wait', ...run, page: 2, slice: 3, seconds: 9, inside: true });
    recorder.onEvent({
      event: 'page-exported',
      ...run,
      page: 2,
      slice: 3,
      slices: counts,
      bytes: 1,
      reports: 1,
      ...totals,
    });
    recorder.failed(error('ServiceUnavailableError'));
    await recorder.settle(60_000);
    expect((await read()).newest).toMatchObject([
      { kind: 'wait', page: 2, slice: 3, seconds: 9 },
      { kind: 'failed-attempt', page: null },
    ]);
  });

  it('count retries from 1 again when the state machine enters a step again', async () => {
    const { attempt, read } = aRecorder();
    await attempt(entry(0), 'ServiceUnavailableError');
    await attempt(entry(1));
    await attempt(entry(0, '2026-11-20T02:10:00Z'), 'ServiceUnavailableError');
    expect((await read()).newest).toMatchObject([{ retry: { attempt: 1 } }, { retry: { attempt: 1 } }]);
  });

  it('do not include a failure that is not retried, or no longer, or a takeover by another execution', async () => {
    const { attempt, read } = aRecorder();
    await attempt(entry(0), 'ConfigurationError');
    await attempt(entry(0, 'another time'), 'RunSupersededError');
    for (let retries = 0; retries < 3; retries += 1) await attempt(entry(retries, 'a third time'), 'ContractError');
    expect(countIncidents(await read()).failedAttempts).toBe(2);
  });

  it('include those of attempts that left no record, as the next one sees', async () => {
    const { attempt, read } = aRecorder();
    await attempt(entry(0), 'ServiceUnavailableError');
    await attempt(entry(3), 'ServiceUnavailableError');
    expect((await read()).newest).toEqual([
      expect.objectContaining({ error: 'ServiceUnavailableError' }),
      unrecorded,
      unrecorded,
      expect.objectContaining({ retry: { state: 'ExportPage', attempt: 4, maxAttempts: 20 } }),
    ]);
  });

  it('include attempts of BeginRun once the run is known', async () => {
    const { recorder, read, attempt } = aRecorder('BeginRun');
    await attempt(entry(0), 'AccessDeniedException', { export: 'nightly' });
    expect((await read()).newest).toEqual([]);
    recorder.begin({ input: { export: 'nightly' }, attempt: entry(1) });
    const since = at('2026-11-19T02:00:00Z');
    const totals = { pages: 0, reports: 0, bytes: 0 };
    recorder.onEvent({ event: 'run-started', ...run, since, executionNumber: 1, page: 1, ...totals });
    await recorder.settle(60_000);
    expect((await read()).newest).toEqual([{ ...unrecorded, page: null }]);
  });

  it('are the same after a second invocation for the same attempt', async () => {
    const { attempt, read } = aRecorder('FinishRun');
    for (const retries of [0, 0, 1, 1, 0]) await attempt(entry(retries), 'TimeoutError');
    expect((await read()).newest).toMatchObject([
      { page: null, retry: { state: 'FinishRun', attempt: 1, maxAttempts: 8 } },
      { page: null, retry: { state: 'FinishRun', attempt: 2, maxAttempts: 8 } },
    ]);
  });

  it('are waits, and the page that the run has reached since the attempt began', async () => {
    const { recorder, read } = aRecorder();
    recorder.begin({
      input: { ...loop, export: 'nightly/2026-11-01T00:00:00Z/2026-11-08T00:00:00Z' },
      attempt: entry(0),
    });
    recorder.onEvent({ event: 'service-asked-to-wait', ...run, page: 7, seconds: 3, inside: true });
    const page = { page: 7, bytes: 1, reports: 1, totalPages: 7, totalReports: 1, totalBytes: 1 };
    recorder.onEvent({ event: 'page-exported', ...run, ...page });
    recorder.failed(error('ServiceUnavailableError'));
    await recorder.settle(60_000);
    expect((await read()).newest).toMatchObject([{ kind: 'wait', page: 7, seconds: 3 }, { page: 8 }]);
  });

  it('are the failure of the run, once, even if FailRun is repeated', async () => {
    const { recorder, read } = aRecorder('FailRun');
    const failed: ExportEvent = {
      event: 'run-failed',
      ...run,
      page: 8,
      since: null,
      pages: 7,
      reports: 1,
      bytes: 1,
      error: 'States.Timeout',
      message: '',
      resumable: true,
    };
    for (const attempt of [entry(0), entry(1), entry(0, 'the next execution')]) {
      recorder.begin({ input: { Error: 'States.Timeout' }, attempt });
      recorder.onEvent(failed);
      await recorder.settle(60_000);
    }
    const { newest } = await read();
    expect(newest.map(({ kind, page }) => [kind, page])).toEqual([
      ['failed-run', 8],
      ['failed-run', 8],
    ]);
  });

  it('need no attempt: an older definition does not send it', async () => {
    const { attempt, read, delays } = aRecorder();
    await attempt(undefined, 'ServiceUnavailableError');
    expect((await read()).newest).toEqual([]);
    expect(delays).toEqual([]);
  });
});

describe('recording an incident', () => {
  it('reports an error of the log, and goes on', async () => {
    const failure = new Error('The table is gone');
    const log = { ...createMemoryIncidentLog(), update: () => Promise.reject(failure) };
    const { attempt, problems } = aRecorder('ExportPage', log);
    await attempt(entry(0), 'ServiceUnavailableError');
    expect(problems).toEqual([failure]);
  });

  it("never replaces the attempt's own error or outcome", async () => {
    vi.spyOn(process.stdout, 'write').mockReturnValue(true);
    vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    const log = { ...createMemoryIncidentLog(), update: () => Promise.reject(new Error('The table is gone')) };
    const { recorder } = aRecorder('ExportPage', log);
    const outcomes = [error('ServiceUnavailableError'), 'done'];
    const run = async () => {
      const outcome = outcomes.shift();
      if (outcome instanceof Error) throw outcome;
      return outcome;
    };
    const handler = stepHandler(() => ({ run, incidents: recorder }));
    const context = { awsRequestId: '1', getRemainingTimeInMillis: () => 60_000 };
    const invoke = (retries: number) => handler({ input: loop, execution: 'e', attempt: entry(retries) }, context);
    await expect(invoke(0)).rejects.toMatchObject({ name: 'ServiceUnavailableError', message: 'it failed' });
    expect(await invoke(1)).toBe('done');
    vi.restoreAllMocks();
  });

  it('holds an attempt up for two seconds at most, and for half of the time that is left', async () => {
    const log = { ...createMemoryIncidentLog(), update: () => new Promise<never>(() => {}) };
    const { recorder, problems, delays } = aRecorder('ExportPage', log);
    for (const remainingMs of [60_000, 500]) {
      recorder.begin({ input: loop, attempt: entry(0) });
      recorder.failed(error('ServiceUnavailableError'));
      await recorder.settle(remainingMs);
    }
    expect(delays).toEqual([2_000, 250]);
    expect(problems).toMatchObject([{ message: expect.stringContaining('not written in time') }, {}]);
  });

  it('ends when the attempt no longer waits for it: its container is frozen, and may work on another run later', async () => {
    const { promise: response, resolve: respond } = Promise.withResolvers<void>();
    const written: string[] = [];
    const log: IncidentLog = {
      ...createMemoryIncidentLog(),
      async update(_, change, signal) {
        await response;
        signal?.throwIfAborted();
        written.push(JSON.stringify(change({ groups: [], newest: [] })));
      },
    };
    const { attempt, problems } = aRecorder('ExportPage', log);
    await attempt(entry(0), 'ServiceUnavailableError');
    respond();
    await new Promise(setImmediate);
    expect(written).toEqual([]);
    expect(problems).toHaveLength(1);
  });

  it('accepts any text as a record', () => {
    for (const text of [undefined, '', '{}', '[]', '{"groups":[],"newest":[{"kind":"wait"}]}']) {
      expect(parseIncidentRecord(text)).toEqual({ groups: [], newest: [] });
    }
  });
});
