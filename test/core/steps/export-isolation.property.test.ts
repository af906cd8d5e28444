/**
 * The exports of a service share its functions, their roles, the bucket and the table. So the steps themselves must not
 * read or write anything of another export, whatever their input.
 */

import { describe, expect } from 'vitest';
import { ExportError, isExportError } from '../../../lib/core/errors.ts';
import type { ExportDefinition } from '../../../lib/core/model.ts';
import type { StepDependencies } from '../../../lib/core/ports.ts';
import { stepNames } from '../../../lib/core/state-machine/definition.ts';
import { selectExport } from '../../../lib/core/start/start-input.ts';
import { anExportDefinition, anExportRequest, someLimits } from '../../support/builders.ts';
import { anExportBench } from '../../support/export/export-bench.ts';
import { stepFunctions } from '../../support/export/function-machine.ts';
import { createMemoryLog, createMemoryStore } from '../../support/export/memory-adapters.ts';
import { someReports } from '../../support/export/scripted-service.ts';
import { cases, fc, test } from '../../support/property.ts';

/** One is the beginning of the other: a prefix must not be taken for the whole name. */
const names = ['nightly', 'nightly-eu', 'n'] as const;
const executions = ['first', 'second', 'third'] as const;

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

/** The same port, with a record of the exports that its calls name: by a key, by the name, or in a record. */
function recorded<Port extends object>(port: Port, accessed: Set<string>): Port {
  const record = (argument: unknown): void => {
    if (typeof argument === 'string') accessed.add(argument.split('/')[0] ?? '');
    if (typeof argument !== 'object' || argument === null) return;
    const { export: name, key, manifest, active } = argument as Readonly<Record<string, unknown>>;
    for (const each of [name, key, manifest, active]) record(each);
  };
  return new Proxy(port, {
    get(target, property, receiver) {
      const member: unknown = Reflect.get(target, property, receiver);
      if (typeof member !== 'function' || property === 'locate') return member;
      return (...args: unknown[]) => {
        for (const argument of args) record(argument);
        return Reflect.apply(member, target, args);
      };
    },
  });
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
  step: fc.constantFrom(...stepNames),
  name: fc.constantFrom(...names),
  // One of them mostly, so that runs are exported and published, too.
  execution: fc.oneof({ weight: 8, arbitrary: fc.constant(executions[0]) }, fc.constantFrom(...executions)),
  fields: fc.tuple(someFields, fc.nat(3)).map(([fields, choice]) => (choice === 0 ? fields : ({} as typeof fields))),
  isRunning: fc.boolean(),
});

describe('the steps of one export', () => {
  test.prop([fc.array(operation, { minLength: 1, maxLength: 40, size: 'max' })], { numRuns: cases(300) })(
    'read and write nothing of another export, whatever their input',
    async (operations) => {
      const { deps: common } = anExportBench({ reports: someReports(5), size: 2 });
      const accessed = new Set<string>();
      const log = recorded(createMemoryLog(), accessed);
      const store = recorded(createMemoryStore(), accessed);
      for (const { step, name, execution, fields, isRunning } of operations) {
        const states = await Promise.all(names.map((each) => log.exportState(each)));
        const runOf = new Map<unknown, string | undefined>(
          names.map((each, index) => [each, states[index]?.active?.run]),
        );
        accessed.clear();
        const loop = { page: 1, iterations: 0, waits: 0, executionNumber: 1, ...fields };
        const input = { ...loop, export: name, run: runOf.get(fields.run ?? name) ?? '20261120T020000Z-000000b2d407' };
        // With the other fields, hardly a run would begin.
        const { since, restart, continues } = fields;
        const startInput = { export: name, since, restart, ...(isRunning && { continues }) };
        const deps: StepDependencies = {
          ...common,
          log,
          store,
          definition: selectExport(definitionsByName, input),
          executions: { status: async () => (isRunning ? ('running' as const) : ('unknown' as const)) },
        };
        const event = { input: step === 'BeginRun' ? JSON.parse(JSON.stringify(startInput)) : input, execution };
        await stepFunctions(deps)
          [step](event, {} as never)
          .catch(expectExportError);
        expect([...accessed].filter((each) => each !== name)).toEqual([]);
      }
    },
  );
});

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
