/** Nothing can catch a full execution history, and the run would stop without a message. So it must never fill up. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import { exportSettingsSchema } from '../../../lib/settings/settings.ts';
import { byStep, type StepName } from '../../../lib/core/state-machine/definition.ts';
import { stepRetries } from '../../../lib/core/state-machine/retry-policy.ts';
import { anExportBench } from '../../support/export/export-bench.ts';
import { someReports } from '../../support/export/scripted-service.ts';
import { execute, type ExecutionResult, type Functions, stepFunctions } from '../../support/export/function-machine.ts';
import { maxHistoryEvents } from './step-functions.ts';

const { iterationsPerExecution, maxConsecutiveWaits } = exportSettingsSchema.parse({
  name: 'reports',
  maxConsecutiveWaits: 100,
});

/** Every retried error, as often as it is retried: the most failures of one task before it succeeds. */
const allRetriedErrors = (step: StepName) =>
  stepRetries(step).flatMap(({ ErrorEquals: [error = ''], MaxAttempts }) =>
    Array.from({ length: MaxAttempts }, () => (error === 'States.ALL' ? 'SlowDown' : error)),
  );

/** Fails with every error that is retried before each success. */
function failing(step: StepName, run: Functions[StepName]): Functions[StepName] {
  let errors: string[] | undefined;
  return async (payload, context) => {
    errors ??= allRetriedErrors(step);
    const name = errors.pop();
    if (name !== undefined) throw Object.assign(new Error('injected'), { name });
    const outcome = await run(payload, context);
    errors = undefined;
    return outcome;
  };
}

/** Exports `pages` pages. Every task first fails with every error that is retried. */
async function exportWithAllErrors({
  pages,
  waitsBefore,
}: {
  readonly pages: number;
  /** How often the service asks for a wait before this page. */
  readonly waitsBefore: (page: number) => number;
}) {
  const waits = new Map<number, number>();
  const bench = anExportBench({
    reports: someReports(pages),
    size: 1,
    limits: { iterationsPerExecution, maxConsecutiveWaits },
    script() {
      const page = bench.store.objects.size + 1;
      const count = waits.get(page) ?? 0;
      if (count >= waitsBefore(page)) return undefined;
      waits.set(page, count + 1);
      throw new ExportError('ServiceThrottledError', 'Report service responded with 429', { retryAfterSeconds: 300 });
    },
  });
  const steps = stepFunctions(bench.deps);
  const functions = byStep((step) => failing(step, steps[step]));
  const executions: ExecutionResult[] = [];
  for (
    let next: ExecutionResult['next'] = { name: 'first', input: {} };
    next !== undefined;
    next = executions.at(-1)?.next
  )
    executions.push(await execute(functions, next));
  return executions;
}

describe('the history of an execution', () => {
  it('stays within its limit when every task on every page fails as often as it may', async () => {
    const executions = await exportWithAllErrors({ pages: 2 * iterationsPerExecution + 10, waitsBefore: () => 0 });
    expect(executions.map(({ status }) => status)).toEqual(['succeeded', 'succeeded', 'succeeded']);
    const max = Math.max(...executions.map(({ eventCount }) => eventCount));
    expect(max).toBeLessThan(maxHistoryEvents);
    // Otherwise iterationsPerExecution could be higher.
    expect(max).toBeGreaterThan(0.9 * maxHistoryEvents);
  });

  it('stays within its limit when the service also asks for as many waits as are allowed', async () => {
    const last = iterationsPerExecution - 1;
    const executions = await exportWithAllErrors({
      pages: iterationsPerExecution + 10,
      waitsBefore: (page) => (page === last ? maxConsecutiveWaits : 0),
    });
    expect(new Set(executions.map(({ status }) => status))).toEqual(new Set(['succeeded']));
    expect(Math.max(...executions.map(({ eventCount }) => eventCount))).toBeLessThan(maxHistoryEvents);
  });
});
