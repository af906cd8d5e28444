import { describe, expect } from 'vitest';
import { cases, fc, test } from '../../support/property.ts';
import { failed, interpret, loop, type Script, simulate } from './scripted-execution.ts';

const errors = fc.constantFrom(
  'ConfigurationError',
  'ServiceUnavailableError',
  'ServiceUnreachableError',
  'Sandbox.Timedout',
  'AccessDeniedException',
  'ContractError',
  'CursorRejectedError',
  'RunSupersededError',
  'Lambda.Unknown',
  'SlowDown',
);
const resultsOf = (result: fc.Arbitrary<object>) =>
  fc.array(fc.oneof({ weight: 3, arbitrary: result }, errors), { minLength: 1, maxLength: 6 });
const next = (...names: string[]) => fc.constantFrom(...names).map((each) => ({ next: each, ...loop, waitSeconds: 3 }));
const scripts: fc.Arbitrary<Script> = fc.record({
  BeginRun: resultsOf(next('skip', 'export', 'finish', 'action-of-a-newer-version')),
  // The last result repeats, so it must end the loop.
  ExportPage: fc
    .tuple(resultsOf(next('page', 'wait', 'queue')), next('finish', 'continue', 'action-of-a-newer-version'))
    .map(([before, last]) => [...before, last]),
  FinishRun: resultsOf(
    fc
      .constantFrom('reports/manifest.json', null)
      .map((manifest) => ({ export: 'reports', run: 'run-1', pages: 1, manifest })),
  ),
  FailRun: resultsOf(fc.constant(failed)),
});

describe('the simulated Step Functions', () => {
  test.prop([scripts], { numRuns: cases(150) })(
    'enters the same states and ends in the same way as the interpreter, whatever the steps return',
    async (script) => {
      const interpreted = await interpret(script);
      const { states, execution } = await simulate(script);
      expect(states).toEqual(interpreted.states);
      expect(execution.status).toBe(interpreted.status === 'succeeded' ? 'SUCCEEDED' : 'FAILED');
      if (interpreted.status === 'succeeded') expect(execution.output).toEqual(interpreted.output);
      else expect(execution.error).toBe(interpreted.error);
    },
  );
});
