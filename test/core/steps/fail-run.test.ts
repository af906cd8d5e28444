/** What is remembered of a failure must come back from every store as it was written. */

import { expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import { anExportBench } from '../../support/export-bench.ts';

it('of a message that is cut in the middle of a character no half is left, which not every store could keep', async () => {
  const message = `${'x'.repeat(999)}🜁 and so on`;
  const bench = anExportBench({
    script: () => {
      throw new ExportError('RequestRejectedError', message);
    },
  });
  await bench.start();
  const remembered = (await bench.head()).active?.lastFailure?.message ?? '';
  expect(remembered.isWellFormed()).toBe(true);
  expect(remembered).toBe(`${'x'.repeat(999)}\ufffd`);
});
