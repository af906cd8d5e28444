/** What is recorded of a failure: it must survive a round trip through every store, and say what helps. */

import { expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import { anExportBench } from '../../support/export/export-bench.ts';

it('replaces half a surrogate pair at the end of a truncated message', async () => {
  const message = `${'x'.repeat(999)}🜁 and so on`;
  const bench = anExportBench({
    script: () => {
      throw new ExportError('RequestRejectedError', message);
    },
  });
  await bench.start();
  const recorded = (await bench.state()).active?.lastFailure?.message ?? '';
  expect(recorded.isWellFormed()).toBe(true);
  expect(recorded).toBe(`${'x'.repeat(999)}\ufffd`);
});
