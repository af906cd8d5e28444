/**
 * The exports of a service share its functions, their roles, the bucket and the table. So the steps themselves must not read
 * or write anything of another export, whatever their input.
 */

import { describe, expect } from 'vitest';
import { ExportError, isExportError } from '../../../lib/core/errors.ts';
import { asRunId, type ExportDefinition, type LoopState } from '../../../lib/core/model.ts';
import type { PageLog, PageStore, StepDependencies } from '../../../lib/core/ports.ts';
import { beginRun } from '../../../lib/core/steps/begin-run.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { failRun } from '../../../lib/core/steps/fail-run.ts';
import { finishRun } from '../../../lib/core/steps/finish-run.ts';
import { selectExport } from '../../../lib/core/steps/start-input.ts';
import { anExportDefinition, anExportRequest, someLimits } from '../../support/builders.ts';
import { anExportBench } from '../../support/export/export-bench.ts';
import { createMemoryLog, createMemoryStore } from '../../support/export/memory-adapters.ts';
import { someReports } from '../../support/export/scripted-service.ts';
import { cases, fc, test } from '../../support/property.ts';

/** One is the beginning of the other: a prefix must not be taken for the whole name. */
const names = ['nightly', 'nightly-eu', 'n'] as const;
const executions = ['first', 'second', 'third'] as const;
const steps = ['BeginRun', 'ExportPage', 'FinishRun', 'FailRun'] as const;

const definitionsByName = new Map<string, ExportDefinition>(
  names.map((name) => [
    name,
    anExportDefinition({
      name,
      request: anExportRequest({ size: 2 }),
      limits: someLimits({ pagesPerInvocation: 2 }),
    }),
  ]),
);

/** The log and the store, with a record of the exports whose data was read or written. */
function recordAccess(log: PageLog, store: PageStore) {
  const accessed = new Set<string>();
  const ofKey = (key: string) => accessed.add(key.split('/')[0] ?? '');
  const recordedLog: PageLog = {
    exportState(name) {
      accessed.add(name);
      return log.exportState(name);
    },
    replaceState(state) {
      for (const name of [state.export, state.active?.export ?? state.export]) accessed.add(name);
      return log.replaceState(state);
    },
    append(entry) {
      accessed.add(entry.export);
      ofKey(entry.key);
      return log.append(entry);
    },
    last(run) {
      accessed.add(run.export);
      return log.last(run);
    },
    lastSlice(run) {
      accessed.add(run.export);
      return log.lastSlice(run);
    },
    entries(run) {
      accessed.add(run.export);
      return log.entries(run);
    },
  };
  const recordedStore: PageStore = {
    find(key) {
      ofKey(key);
      return store.find(key);
    },
    spool(identity) {
      ofKey(identity.key);
      return store.spool(identity);
    },
    putDocument(key, chunks) {
      ofKey(key);
      return store.putDocument(key, chunks);
    },
    putLatest(key, latest, hasBegun) {
      for (const each of [key, latest.manifest]) ofKey(each);
      return store.putLatest(key, latest, hasBegun);
    },
    list(folder) {
      ofKey(folder);
      return store.list(folder);
    },
    locate: (key) => store.locate(key),
  };
  return { accessed, log: recordedLog, store: recordedStore };
}

/** Fields of a payload, as they could be if it were mixed up or forged. `run` is replaced by that of an export. */
const someFields = fc.record(
  {
    run: fc.constantFrom(...names, 'unknown'),
    page: fc.integer({ min: 1, max: 4 }),
    since: fc.constantFrom('2026-11-01T00:00:00Z', '2026-11-19T00:00:00Z'),
    restart: fc.boolean(),
    continues: fc.constantFrom(...executions),
    Error: fc.constantFrom('CursorRejectedError', 'ContractError'),
    Cause: fc.constantFrom('nightly-eu', ''),
  },
  { requiredKeys: [] },
);
const operation = fc.record({
  step: fc.constantFrom(...steps),
  name: fc.constantFrom(...names),
  execution: fc.constantFrom(...executions),
  fields: someFields,
  isRunning: fc.boolean(),
});

describe('the steps of one export', () => {
  test.prop([fc.array(operation, { minLength: 1, maxLength: 25 })], { numRuns: cases(300) })(
    'read and write nothing of another export, whatever their input',
    async (operations) => {
      const { deps: common } = anExportBench({ reports: someReports(5), size: 2 });
      const recorded = recordAccess(createMemoryLog(), createMemoryStore());
      for (const { step, name, execution, fields, isRunning } of operations) {
        const states = await Promise.all(names.map((each) => recorded.log.exportState(each)));
        const runOf = new Map<unknown, string | undefined>(
          names.map((each, index) => [each, states[index]?.active?.run]),
        );
        recorded.accessed.clear();
        const loop = { page: 1, iterations: 0, waits: 0, executionNumber: 1, ...fields };
        const input = { ...loop, export: name, run: runOf.get(fields.run) ?? '20261120T020000Z-000000' };
        const startInput = { ...fields, run: undefined, page: undefined, export: name };
        const deps: StepDependencies = {
          ...common,
          ...recorded,
          definition: selectExport(definitionsByName, input),
          executions: { status: async () => (isRunning ? ('running' as const) : ('unknown' as const)) },
        };
        await runStep(
          deps,
          step,
          step === 'BeginRun' ? JSON.parse(JSON.stringify(startInput)) : input,
          execution,
        ).catch(expectExportError);
        expect([...recorded.accessed].filter((each) => each !== name)).toEqual([]);
      }
    },
  );
});

function runStep(deps: StepDependencies, step: (typeof steps)[number], input: object, execution: string) {
  switch (step) {
    case 'BeginRun':
      return beginRun(deps, { input, execution });
    case 'ExportPage':
      return exportPage(deps, { loop: input as LoopState, execution });
    case 'FinishRun':
      return finishRun(deps, { run: asRunId((input as LoopState).run), execution });
    case 'FailRun':
      return failRun(deps, { failure: input, execution });
  }
}

/** Forged input may be rejected. Any other error would be a defect of this test. */
function expectExportError(error: unknown): void {
  expect(isExportError(error)).toBe(true);
  expect(error).toBeInstanceOf(ExportError);
}

describe('selecting an export', () => {
  test.prop([fc.oneof(fc.anything(), fc.record({ export: fc.oneof(fc.string(), fc.constantFrom(...names)) }))])(
    'returns the export of exactly that name, or a ConfigurationError',
    (input) => {
      const requested = (input as { export?: unknown } | null | undefined)?.export;
      try {
        expect(selectExport(definitionsByName, input).name).toBe(requested);
      } catch (error) {
        if (!isExportError(error, 'ConfigurationError')) throw error;
        expect(error.message).toContain('Exports of this service: n, nightly, nightly-eu');
        expect(names).not.toContain(requested);
      }
    },
  );
});
