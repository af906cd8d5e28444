/** What an error of one chain leads to. */

import { describe, expect, it } from 'vitest';
import { type ErrorName, ExportError, errorNames } from '../../../lib/core/errors.ts';
import { NotYet } from '../../../lib/core/slots/held-slot.ts';
import { classify, type Reaction } from '../../../lib/core/steps/slices/reactions.ts';

const timeIsUp = AbortSignal.abort(new ExportError('ServiceUnavailableError', 'the time of the invocation is over'));
const processEnds = AbortSignal.abort(new Error('SIGINT'));

/** In a run with one slice, in one with several, and when the process is to end. */
const specification: Record<ErrorName, readonly [one: Reaction, several: Reaction, ending: Reaction]> = {
  ConfigurationError: ['stop', 'stop', 'stop'],
  PageConflictError: ['stop', 'stop', 'stop'],
  RunSupersededError: ['stop', 'stop', 'stop'],
  ServiceUnavailableError: ['outage', 'outage', 'stop'],
  ServiceUnreachableError: ['outage', 'outage', 'stop'],
  ServiceThrottledError: ['outage', 'outage', 'stop'],
  CursorRejectedError: ['setAside', 'restart', 'restart'],
  RepeatedCursorError: ['setAside', 'setAside', 'stop'],
  RequestRejectedError: ['setAside', 'setAside', 'stop'],
  ContractError: ['setAside', 'setAside', 'stop'],
};

const facts = { isSliced: true, interruption: undefined, hasFetched: false };

describe('the reaction to an error of a chain', () => {
  it.each(errorNames)('of %s', (name) => {
    const [one, several, ending] = specification[name];
    const error = new ExportError(name, 'a test');
    expect(classify(error, { ...facts, isSliced: false })).toBe(one);
    expect(classify(error, facts)).toBe(several);
    expect(classify(error, { ...facts, interruption: timeIsUp })).toBe(several);
    expect(classify(error, { ...facts, interruption: processEnds })).toBe(ending);
  });

  it('that is a 403 is to set it aside, once the run has shown that it may read something', () => {
    const error = new ExportError('ConfigurationError', 'denied', { isForbidden: true });
    expect(classify(error, facts)).toBe('stop');
    expect(classify(error, { ...facts, hasFetched: true })).toBe('setAside');
    expect(classify(error, { ...facts, hasFetched: true, isSliced: false })).toBe('stop');
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
