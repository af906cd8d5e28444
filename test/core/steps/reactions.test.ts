/** What an error of one chain leads to. */

import { describe, expect, it } from 'vitest';
import { type ErrorName, ExportError, errorNames } from '../../../lib/core/errors.ts';
import { NotYet } from '../../../lib/core/slots/held-slot.ts';
import { classify, type Reaction } from '../../../lib/core/steps/slices/reactions.ts';

const timeIsUp = AbortSignal.abort(new ExportError('ServiceUnavailableError', 'the time of the invocation is over'));
const processEnds = AbortSignal.abort(new Error('SIGINT'));

/** While the process runs, and when it is to end. */
const specification: Record<ErrorName, readonly [running: Reaction, ending: Reaction]> = {
  ConfigurationError: ['stop', 'stop'],
  PageConflictError: ['stop', 'stop'],
  RunSupersededError: ['stop', 'stop'],
  ServiceUnavailableError: ['outage', 'stop'],
  ServiceUnreachableError: ['outage', 'stop'],
  ServiceThrottledError: ['outage', 'stop'],
  CursorRejectedError: ['restart', 'restart'],
  RepeatedCursorError: ['setAside', 'stop'],
  RequestRejectedError: ['setAside', 'stop'],
  ContractError: ['setAside', 'stop'],
};

const facts = { interruption: undefined, hasFetched: false };

describe('the reaction to an error of a chain', () => {
  it.each(errorNames)('of %s', (name) => {
    const [running, ending] = specification[name];
    const error = new ExportError(name, 'a test');
    expect(classify(error, facts)).toBe(running);
    expect(classify(error, { ...facts, interruption: timeIsUp })).toBe(running);
    expect(classify(error, { ...facts, interruption: processEnds })).toBe(ending);
  });

  it('that is a 403 is to set it aside, once the run has shown that it may read something', () => {
    const error = new ExportError('ConfigurationError', 'denied', { isForbidden: true });
    expect(classify(error, facts)).toBe('stop');
    expect(classify(error, { ...facts, hasFetched: true })).toBe('setAside');
    expect(classify(error, { ...facts, hasFetched: true, interruption: processEnds })).toBe('stop');
    expect(classify(new ExportError('ConfigurationError', '401'), { ...facts, hasFetched: true })).toBe('stop');
  });

  it('of a store or a log is to set it aside', () => {
    expect(classify(new Error('EIO'), facts)).toBe('setAside');
    expect(classify(new Error('EIO'), { ...facts, interruption: processEnds })).toBe('stop');
  });

  it('that has no slot is to wait for one', () => {
    expect(classify(new NotYet('No slot is free'), facts)).toBe('queue');
  });
});
