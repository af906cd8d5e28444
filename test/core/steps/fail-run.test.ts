/** What is recorded of a failure: it must survive a round trip through every store, and say what helps. */

import { describe, expect, it } from 'vitest';
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

describe('a ContractError', () => {
  const refusing = (page: number, error: 'ContractError' | 'RequestRejectedError' = 'ContractError') => ({
    script: ({ label }: { readonly label: string }) => {
      if (label.startsWith(`page ${page} `)) throw new ExportError(error, `no page: ${'x'.repeat(1_000)}`);
      return undefined;
    },
  });
  const hint = 'start with --restart';

  it('that repeats on the same page at the next start names --restart', async () => {
    const bench = anExportBench(refusing(2));
    const messageOf = async (start: ReturnType<typeof bench.start>) => {
      const end = await start;
      if (end.status !== 'failed') throw new Error(end.status);
      expect((await bench.state()).active?.lastFailure?.message).toBe(end.failed.message);
      return end.failed.message;
    };
    expect(await messageOf(bench.start())).not.toContain(hint);
    expect(await messageOf(bench.start())).toContain(hint);
    expect(await messageOf(bench.start())).toMatch(/^no page: x+\. Page 2 failed like this at the previous start, too/);
    // Another page.
    expect(await messageOf(bench.with(refusing(3)).start())).not.toContain(hint);
    expect(await messageOf(bench.with(refusing(3, 'RequestRejectedError')).start())).not.toContain(hint);
    expect(await messageOf(bench.with(refusing(3)).start())).not.toContain(hint);
    expect(await messageOf(bench.with(refusing(3)).start())).toContain(hint);
    expect(await messageOf(bench.with(refusing(1)).start({ restart: true }))).not.toContain(hint);
    expect(await messageOf(bench.with(refusing(1)).start())).not.toContain(hint);
  });
});
