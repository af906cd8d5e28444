/**
 * Arbitrary settings and start input: they are either accepted, with the same meaning every time, or rejected with the
 * path of every problem, in a message that is printable and of limited length.
 */

import { isDeepStrictEqual } from 'node:util';
import { describe, expect, it } from 'vitest';
import type * as z from 'zod/mini';
import { ExportError } from '../../lib/core/errors.ts';
import { environmentVariable, readFunctionEnvironment } from '../../lib/settings/deployed-settings.ts';
import { reportExportService } from '../../lib/service/api/report-export-service.ts';
import {
  exportDefinition,
  exportSettingsSchema,
  serviceSettingsSchema,
  sourceOf,
} from '../../lib/settings/settings.ts';
import { beginRun } from '../../lib/core/steps/begin-run.ts';
import { anExportRequest, someLimits } from '../support/builders.ts';
import { anExportBench } from '../support/export/export-bench.ts';
import { anyValue, mutationsOf } from '../support/mutations.ts';
import { cases, fc, test } from '../support/property.ts';
import { parseSettings } from '../support/settings-file.ts';

/** Whether `parse` accepts or rejects its input. Only a presentable ConfigurationError counts as a rejection. */
function parseOutcome<Value>(parse: () => Value): { accepted: Value } | { rejected: string } {
  try {
    return { accepted: parse() };
  } catch (error) {
    if (!(error instanceof ExportError)) throw error;
    expectPresentable(error);
    return { rejected: error.message };
  }
}

function expectPresentable(error: ExportError): void {
  expect(error.name).toBe('ConfigurationError');
  expect(error.message.length).toBeLessThan(20_000);
  expect(error.message).toMatch(/^[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]+$/u);
  expect(error.cause).toBeUndefined();
}

const someService = {
  baseUrl: 'https://reports.example.com/eu',
  vendor: 'ACME',
  cursorIn: 'body',
  totalTimeout: 'PT1M',
};
const anExport = {
  name: 'nightly',
  since: { initial: '2026-11-01T00:00:00Z', overlap: 'PT15M', lag: 'PT2H' },
  slices: { parallel: 8, length: 'PT1H' },
  filter: { type: 'daily', date: { lt: '2026-12-01T00:00:00Z' }, nested: [{ a: 1 }, [null, 'x']] },
  format: 'XML',
  size: 10,
  maxPages: 1_000,
  maxRetryAfter: 'PT1H',
};

/** The parsed settings with each duration converted back to ISO 8601. */
const asWritten = (parsed: object): unknown =>
  JSON.parse(JSON.stringify(parsed), (key, value: unknown) =>
    /(Timeout|Wait|RetryAfter|overlap|lookbackWindow|lag|length)$/.test(key) && typeof value === 'number'
      ? `PT${value / 1_000}S`
      : value,
  );

function expectStable<Schema extends z.ZodMiniType<object>>(
  schema: Schema,
  value: unknown,
): z.infer<Schema> | undefined {
  const outcome = parseOutcome(() => parseSettings(schema, value, 'settings'));
  if ('rejected' in outcome) {
    expect(outcome.rejected).toMatch(/^settings.*: ./);
    return undefined;
  }
  const { accepted } = outcome;
  expect(parseSettings(schema, value, 'settings')).toEqual(accepted);
  // The functions read it so from their settings file.
  expect(JSON.parse(JSON.stringify(accepted))).toEqual(accepted);
  const deserialized: unknown = JSON.parse(JSON.stringify(value));
  if (isDeepStrictEqual(deserialized, value)) expect(parseSettings(schema, deserialized, 'settings')).toEqual(accepted);
  expect(parseSettings(schema, asWritten(accepted as object), 'settings')).toEqual(accepted);
  return accepted;
}

describe('arbitrary settings', () => {
  test.prop([fc.oneof({ weight: 5, arbitrary: mutationsOf(someService) }, anyValue)], { numRuns: cases(200) })(
    'of a service are accepted or rejected',
    (value) => {
      const settings = expectStable(serviceSettingsSchema, value);
      if (settings === undefined) return;
      expect(sourceOf(sourceOf(settings.baseUrl))).toBe(sourceOf(settings.baseUrl));
      // undici accepts only whole milliseconds.
      const { connectTimeout, headersTimeout, bodyTimeout, totalTimeout, maxPageBytes } = settings;
      for (const number of [connectTimeout, headersTimeout, bodyTimeout, totalTimeout, maxPageBytes]) {
        expect(number).toSatisfy(Number.isSafeInteger);
        expect(number).toBeGreaterThan(0);
      }
    },
  );

  test.prop([fc.oneof({ weight: 5, arbitrary: mutationsOf(anExport) }, anyValue)], { numRuns: cases(200) })(
    'of an export are accepted or rejected',
    (value) => {
      const settings = expectStable(exportSettingsSchema, value);
      if (settings === undefined) return;
      const definition = exportDefinition({ ...settings, api: reportExportService({}) }, 'simulator');
      expect(JSON.parse(JSON.stringify(definition))).toEqual(JSON.parse(JSON.stringify(structuredClone(definition))));
      // Nothing of the filter is lost.
      const { filter = {} } = value as { filter?: unknown };
      expect(JSON.stringify(settings.filter)).toBe(JSON.stringify(filter));
    },
  );

  it.each([undefined, '', '{', '[]', 'null', '{"version":2}'])(
    'in the environment of a function are rejected: %j',
    (text) => {
      const outcome = parseOutcome(() => readFunctionEnvironment({ [environmentVariable]: text }));
      expect(outcome).toMatchObject({ rejected: expect.stringContaining(environmentVariable) });
    },
  );
});

describe('an arbitrary start input', () => {
  const valid = {
    since: '2026-11-01T00:00:00Z',
    restart: true,
    scheduledTime: '2026-11-20T02:00:00Z',
    continues: 'arn:aws:states:us-east-1:123456789012:execution:reports:first',
  };
  test.prop([fc.oneof({ weight: 5, arbitrary: mutationsOf(valid) }, anyValue), fc.boolean()], { numRuns: cases(200) })(
    'begins a run, skips, or is rejected and changes nothing',
    async (input, isRunning) => {
      const bench = anExportBench();
      if (isRunning) {
        await beginRun(bench.deps, { input: { scheduledTime: '2026-11-20T02:00:00Z' }, execution: 'first' });
        bench.running.add('first');
      }
      const before = await bench.log.exportState(bench.deps.definition.name);
      const outcome = await beginRun(bench.deps, { input, execution: 'second' }).catch((error: unknown) => error);
      const after = await bench.log.exportState(bench.deps.definition.name);
      if (outcome instanceof Error) {
        expect(outcome).toBeInstanceOf(ExportError);
        expectPresentable(outcome as ExportError);
        expect(outcome.message).toContain('start input');
        // FailRun stores at most this many characters.
        expect(outcome.message.length).toBeLessThanOrEqual(1_000);
        expect(after).toEqual(before);
        return;
      }
      // The stored records and the execution's history are small.
      expect(JSON.stringify(outcome).length).toBeLessThan(1_024);
      expect(JSON.stringify(after ?? null).length).toBeLessThan(4_096);
      expect(JSON.stringify(bench.events).length).toBeLessThan(4_096);
    },
  );

  it('is rejected with a short message, however large the filter is', async () => {
    const filter = { type: 'x'.repeat(100_000) };
    const bench = anExportBench({ definition: { request: anExportRequest({ filter }) } });
    await bench.start();
    const other = bench.with({ definition: { request: anExportRequest({ filter: { ...filter, more: 1 } }) } });
    const rejected = beginRun(other.deps, { input: {}, execution: 'second' });
    await expect(rejected).rejects.toMatchObject({ message: expect.stringMatching(/^The watermark of .{100,1000}$/) });

    const definition = { request: anExportRequest({ filter, size: 2 }), limits: someLimits({ maxPages: 1 }) };
    const unfinished = anExportBench({ definition });
    await unfinished.start();
    const changed = unfinished.with({ definition: { request: anExportRequest({ filter: {} }) } });
    await expect(beginRun(changed.deps, { input: {}, execution: 'second' })).rejects.toMatchObject({
      message: expect.stringMatching(/^Run .{100,1000}$/),
    });
  });
});
