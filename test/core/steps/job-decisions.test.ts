import { describe, expect, it } from 'vitest';
import type { JobRecord, RunId } from '../../../lib/core/model.ts';
import type { PolledJob } from '../../../lib/core/ports.ts';
import { afterCreation, nextStep } from '../../../lib/core/steps/jobs/decide.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';

const now = Date.parse('2026-11-20T02:00:00Z');
const minute = 60_000;
const at = (minutes: number) => instantOf(now + minutes * minute);

const facts = {
  run: '20261120T020000Z-1f3a5c' as RunId,
  attempt: 1,
  execution: 'first',
  rules: { poll: { everyMs: 30_000, withinMs: 360 * minute } },
  now,
};

const record = (fields: Partial<JobRecord>): JobRecord => ({
  run: facts.run,
  attempt: facts.attempt,
  execution: facts.execution,
  asOf: at(-1),
  createdAt: at(-1),
  phase: 'creating',
  unanswered: 1,
  ...fields,
});

const create = (unanswered: number) => ({ kind: 'create', unanswered });
const wait = (minutes: number) => ({ kind: 'wait', until: at(minutes) });
const ready = (id: string) => ({ kind: 'ready', job: { id, asOf: at(-1) } });

describe('the next step for a report job', () => {
  it.each<readonly [string, JobRecord | undefined, object]>([
    ['nothing is recorded', undefined, create(0)],
    ['the service has refused the request', record({ phase: 'notCreated', unanswered: 2 }), create(2)],
    ['the request was sent a minute ago', record({}), wait(9)],
    ['the request was sent ten minutes ago', record({ createdAt: at(-10) }), create(1)],
    ['by a clock that is nine minutes fast', record({ createdAt: at(9) }), wait(19)],
    ['by a clock that is three hours fast', record({ createdAt: at(180) }), create(1)],
    ['six requests had no response', record({ createdAt: at(-10), unanswered: 6 }), { kind: 'fail' }],
    ['of another execution', record({ createdAt: at(-10), unanswered: 6, execution: 'other' }), create(0)],
    ['the job is polled later', record({ phase: 'waiting', id: 'a', pollAt: at(60) }), wait(60)],
    [
      'by a clock that is an hour fast',
      record({ phase: 'waiting', id: 'a', pollAt: at(61) }),
      { kind: 'poll', id: 'a' },
    ],
    ['it is time to poll', record({ phase: 'waiting', id: 'a', pollAt: at(0) }), { kind: 'poll', id: 'a' }],
    ['the job is over', record({ phase: 'done', id: 'a' }), ready('a')],
    ['its result has another ID', record({ phase: 'done', id: 'a', resultId: 'b' }), ready('b')],
    ['it was given up', record({ phase: 'failed', id: 'a', failure: 'FATAL' }), { kind: 'fail', message: 'FATAL' }],
    ['by another execution', record({ phase: 'failed', id: 'a', execution: 'other' }), { kind: 'poll', id: 'a' }],
    ['the record is of another run', record({ phase: 'done', id: 'a', run: 'other' as RunId }), create(0)],
    ['its job is kept', record({ phase: 'done', id: 'a', run: 'other' as RunId, isKept: true }), ready('a')],
  ])('%s', (_, recorded, expected) => {
    expect(nextStep(recorded, facts)).toMatchObject(expected);
  });
});

describe('the next step after a poll', () => {
  const asked = (minutes: number, phase: JobRecord['phase'] = 'waiting') =>
    record({ phase, id: 'a', execution: 'before', status: 'RUNNING', createdAt: at(-minutes) });
  const fail = (message: RegExp) => ({ kind: 'fail', message: expect.stringMatching(message) });

  it.each<readonly [string, JobRecord, PolledJob['kind'], object]>([
    ['the job is not over', asked(359), 'waiting', wait(0.5)],
    ['it takes too long', asked(360), 'waiting', fail(/^Report job a has the status B 360 minutes after/)],
    ['a fast clock has recorded it', asked(-500), 'waiting', wait(0.5)],
    ['it is over', asked(400), 'done', ready('a')],
    ['it has no reports', asked(1), 'empty', { kind: 'end', reason: 'empty', asOf: at(-1) }],
    ['it has failed', asked(1), 'failed', fail(/^Report job a is over without a result: its status is B/)],
    ['it is not known yet', asked(4), 'unknown', wait(0.5)],
    ['it is not known any more', asked(5), 'unknown', { kind: 'startOver' }],
    ['it was given up, and is over', asked(400, 'failed'), 'done', ready('a')],
    ['it was given up, and has failed', asked(1, 'failed'), 'failed', create(0)],
    ['it was given up in time', asked(360, 'failed'), 'waiting', create(0)],
    ['it was given up by a fast clock', asked(1, 'failed'), 'waiting', wait(0.5)],
    ['it was given up by a fast clock, and is not known yet', asked(1, 'failed'), 'unknown', wait(0.5)],
    ['it was given up, and is not known any more', asked(5, 'failed'), 'unknown', create(0)],
  ])('%s', (_, recorded, kind, expected) => {
    expect(nextStep(recorded, facts, { kind, status: 'B' })).toMatchObject(expected);
  });

  it('is to wait as long as the service asks', () => {
    const polled = { kind: 'waiting', status: 'B', retryAfterMs: 2 * minute } as const;
    expect(nextStep(asked(1), facts, polled)).toMatchObject(wait(2));
  });
});

describe('the next step after a job is created', () => {
  const created = { kind: 'created', id: 'a', serviceTime: null } as const;

  it.each([
    ['it is polled later', created, facts.rules, wait(0.5)],
    ['its result is there at once', created, {}, ready('a')],
    [
      'it has the reports until the time of the service',
      { ...created, serviceTime: at(-2) },
      {},
      { job: { asOf: at(-2) } },
    ],
    ['it has the reports until the run began', { ...created, serviceTime: at(2) }, {}, { job: { asOf: at(-1) } }],
  ])('%s', (_, answer, rules, expected) => {
    expect(afterCreation(record({}), answer, { ...facts, rules })).toMatchObject(expected);
  });
});
