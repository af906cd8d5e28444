/** Executions during a deployment or a rollback: functions, definition and input may be of different versions. */

import { describe, expect, it } from 'vitest';
import { beginRun } from '../../../lib/core/steps/begin-run.ts';
import { anExportBench, type Bench, continued } from '../../support/export/export-bench.ts';
import { execute, type Functions, stepFunctions } from '../../support/export/function-machine.ts';

describe('an action that the definition does not have', () => {
  it.each(['BeginRun', 'ExportPage'] as const)(
    'fails the run of %s properly, and the next start resumes it',
    async (step) => {
      const bench = anExportBench();
      const functions = stepFunctions(bench.deps);
      const newer = async (...call: Parameters<Functions['ExportPage']>) => {
        const result = (await functions[step](...call)) as object;
        return { ...result, next: 'rest-a-while' };
      };
      const { status, states, error, events } = await execute({ ...functions, [step]: newer }, { name: 'one' });
      expect({ status, error }).toEqual({ status: 'failed', error: 'UnknownActionError' });
      expect(states.slice(-4)).toEqual(['UnknownAction', 'FailRun', 'AnnounceFailed', 'Failed']);
      const message =
        'The state machine has no action rest-a-while, which a step returned during a deployment. Start again: the run resumes';
      expect(events).toMatchObject([{ error: 'UnknownActionError', failed: { message, resumable: true } }]);
      expect((await bench.state()).active?.lastFailure).toMatchObject({ error: 'UnknownActionError', message });
      expect(await bench.start()).toMatchObject({ status: 'completed' });
    },
  );
});

describe('the input of a start', () => {
  const begin = async (bench: Bench, input: object) => await beginRun(bench.deps, { input, execution: 'second' });

  it('of the state machine may have fields of a newer version', async () => {
    const bench = anExportBench({ limits: { iterationsPerExecution: 1 } });
    const next = continued(await bench.execute({ name: 'first', input: {} }));
    const input = { ...(next.input as object), mode: 'fast' };
    expect(await begin(bench, input)).toMatchObject({ next: 'export', page: 2 });
  });

  it('of an operator may not: an unknown field is a typing error', async () => {
    const bench = anExportBench();
    const mistyped = { export: 'nightly', sicne: '2026-11-20T02:00:00Z' };
    await expect(begin(bench, mistyped)).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringContaining('"sicne"'),
    });
    await expect(begin(bench, { continues: '', mode: 'fast' })).rejects.toMatchObject({ name: 'ConfigurationError' });
    expect(bench.events).toEqual([]);
  });
});
