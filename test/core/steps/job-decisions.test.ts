import { describe, expect, it } from 'vitest';
import type { JobRecord, RunId } from '../../../lib/core/model.ts';
import { nextStep } from '../../../lib/core/steps/jobs/decide.ts';
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
    ['the job is over', record({ phase: 'done', id: 'a' }), { kind: 'ready', id: 'a' }],
    ['it was given up', record({ phase: 'failed', id: 'a', failure: 'FATAL' }), { kind: 'fail', message: 'FATAL' }],
    ['by another execution', record({ phase: 'failed', id: 'a', execution: 'other' }), { kind: 'poll', id: 'a' }],
    ['the record is of another run', record({ phase: 'done', id: 'a', run: 'other' as RunId }), create(0)],
    [
      'its job is kept',
      record({ phase: 'done', id: 'a', run: 'other' as RunId, isKept: true }),
      { kind: 'ready', id: 'a' },
    ],
  ])('%s', (_, recorded, expected) => {
    expect(nextStep(recorded, facts)).toMatchObject(expected);
  });
});
