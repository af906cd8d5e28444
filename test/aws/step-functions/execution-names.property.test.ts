/** The names of executions tell the export, if we chose them. */

import { describe, expect, it } from 'vitest';
import {
  backfillName,
  continuationName,
  isBackfillOf,
  manualName,
  parseExecutionName,
  windowExecutionName,
} from '../../../lib/aws/step-functions/execution-names.ts';
import { exportSettingsSchema } from '../../../lib/settings/settings.ts';
import { createRunId } from '../../../lib/core/storage/keys.ts';
import { fc, test } from '../../support/property.ts';

const word = fc.constantFrom('nightly', 'manual', '0123456789abcdef', '20261120T020003Z-1f3a5c', '2', 'a', '_');
const exportName = fc
  .array(word, { minLength: 1, maxLength: 5 })
  .map((words) => words.join('-').slice(0, 40))
  .filter((name) => exportSettingsSchema.shape.name.safeParse(name).success);
const hexDigits = (length: number) => fc.array(fc.nat(15), { minLength: length, maxLength: length });
const hex = (length: number) => hexDigits(length).map((digits) => digits.map((digit) => digit.toString(16)).join(''));
const run = fc.tuple(fc.nat(4_000_000_000), hex(6)).map(([seconds, digits]) => createRunId(seconds * 1_000, digits));

describe('the name of an execution', () => {
  test.prop([exportName, hex(16)])('of an operator tells its export, whatever that is called', (name, digits) => {
    expect(parseExecutionName(manualName(name, digits))).toEqual({ export: name });
  });

  test.prop([exportName, run, fc.integer({ min: 2, max: 9_999 })])(
    'of a continuation tells its export and its run',
    (name, id, executionNumber) => {
      const continued = continuationName(name, id, executionNumber);
      expect(parseExecutionName(continued)).toEqual({ export: name, run: id });
      expect(continued.length).toBeLessThanOrEqual(80);
    },
  );

  test.prop([exportName, fc.uuid()])('of a window tells its export', (name, uuid) => {
    const named = windowExecutionName(name, uuid);
    expect(parseExecutionName(named)).toEqual({ export: name, isWindow: true });
    expect(named.length).toBeLessThanOrEqual(80);
  });

  test.prop([exportName, exportName, hex(16)])(
    'of a backfill tells whether it is that of an export',
    (name, other, digits) => {
      const named = backfillName(name, digits);
      expect(isBackfillOf(name, named)).toBe(true);
      expect(isBackfillOf(other, named)).toBe(other === name);
      expect(isBackfillOf(`${name}-backfill`, backfillName(name, digits))).toBe(false);
      expect(isBackfillOf(name, backfillName(`${name}-backfill-${digits}`, digits))).toBe(false);
      expect(named.length).toBeLessThanOrEqual(80);
    },
  );

  it.each([
    'bd5b4a9c-2f3e-4c44-8c84-0b0b3a3c2f11_7f0c7ad2-6ddc-4b5c-a5d4-28fd07b5b6c0',
    'nightly',
    'nightly-manual-1',
    'nightly-manual-0123456789abcdef-x',
    'nightly-manual-0123456789ABCDEF',
    '-manual-0123456789abcdef',
    '20261120T020003Z-1f3a5c-2',
    'nightly-20261120T020003Z-1f3a5c',
    'nightly-20261120T020003Z-1f3a5c-2x',
    'nightly-w-0123456789abcdef',
    '-w-bd5b4a9c-2f3e-4c44-8c84-0b0b3a3c2f11',
  ])('of another form tells nothing: %s', (name) => expect(parseExecutionName(name)).toBeUndefined());
});
