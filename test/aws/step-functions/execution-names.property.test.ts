/** The names of executions begin with their export, and fit into the 80 characters that Step Functions allows. */

import { describe, expect } from 'vitest';
import { manualName } from '../../../lib/aws/step-functions/executions.ts';
import { continuationName } from '../../../lib/core/state-machine/definition.ts';
import { exportSettingsSchema } from '../../../lib/settings/settings.ts';
import { createRunId } from '../../../lib/core/storage/keys.ts';
import { fc, test } from '../../support/property.ts';

const word = fc.constantFrom('nightly', 'manual', '0123456789abcdef', '20261120T020003Z-1f3a5cb2d407', '2', 'a', '_');
const exportName = fc
  .array(word, { minLength: 1, maxLength: 5 })
  .map((words) => words.join('-').slice(0, 40))
  .filter((name) => exportSettingsSchema.shape.name.safeParse(name).success);
const hexDigits = (length: number) => fc.array(fc.nat(15), { minLength: length, maxLength: length });
const hex = (length: number) => hexDigits(length).map((digits) => digits.map((digit) => digit.toString(16)).join(''));
const run = fc.tuple(fc.nat(4_000_000_000), hex(12)).map(([seconds, digits]) => createRunId(seconds * 1_000, digits));
const bounds = fc.constantFrom('', '/2020-01-01T00:00:00Z/2020-01-08T00:00:00Z');

describe('the name of an execution', () => {
  test.prop([exportName, hex(16)])('of an operator begins with its export', (name, digits) => {
    expect(manualName(name, digits)).toBe(`${name}-manual-${digits}`);
    expect(manualName(name, digits).length).toBeLessThanOrEqual(80);
  });

  test.prop([exportName, bounds, run, fc.integer({ min: 1, max: 9_999 })])(
    'of a continuation has the export, the run and its number, also for a bounded run',
    (name, ofRun, id, executionNumber) => {
      const continued = continuationName({ export: `${name}${ofRun}`, run: id, executionNumber });
      expect(continued).toBe(`${name}-${id}-${executionNumber + 1}`);
      expect(continued.length).toBeLessThanOrEqual(80);
    },
  );
});
