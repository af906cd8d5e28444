/** The simulated Step Functions against the interpreter that runs the definition locally. */

import { fc, test } from '@fast-check/vitest';
import { describe, expect } from 'vitest';
import { failed, interpret, loop, type Script, simulate } from './scripted-execution.ts';

const errors = fc.constantFrom(
  'ConfigurationError',
  'ServiceUnavailableError',
  'ContractError',
  'CursorRejectedError',
  'RunSupersededError',
  'Lambda.Unknown',
  'SlowDown',
);
const often = (answer: fc.Arbitrary<object>) =>
  fc.array(fc.oneof({ weight: 3, arbitrary: answer }, errors), { minLength: 1, maxLength: 6 });
const next = (...names: string[]) => fc.constantFrom(...names).map((each) => ({ next: each, ...loop, waitSeconds: 3 }));
const scripts: fc.Arbitrary<Script> = fc.record({
  BeginRun: often(next('skip', 'export', 'finish')),
  // It must come to an end: the last answer is given for ever.
  ExportPage: fc
    .tuple(often(next('page', 'wait')), next('finish', 'continue'))
    .map(([before, last]) => [...before, last]),
  FinishRun: often(fc.constant({ run: 'run-1', pages: 1 })),
  FailRun: often(fc.constant(failed)),
});

describe('the simulated Step Functions', () => {
  test.prop([scripts], { numRuns: 150 })(
    'goes the way of the interpreter, whatever the steps answer',
    async (script) => {
      const told = await interpret(script);
      const { states, execution } = await simulate(script);
      expect(states).toEqual(told.states);
      expect(execution.status).toBe(told.status === 'succeeded' ? 'SUCCEEDED' : 'FAILED');
      if (told.status === 'succeeded') expect(execution.output).toEqual(told.output);
      else expect(execution.error).toBe(told.error);
    },
  );
});
