/** The failed attempts and waits before a page, in its log entry. */

import { describe, expect, it } from 'vitest';
import { asRunId, type Delays, type PageEntry } from '../../../lib/core/model.ts';
import { collect, loggedPages } from '../../support/builders.ts';
import { anExportBench, type Bench, type BenchOptions } from '../../support/export/export-bench.ts';
import { failsAt, someReports } from '../../support/export/scripted-service.ts';

async function entriesOf(bench: Bench, input = {}): Promise<readonly PageEntry[]> {
  const end = await bench.start(input);
  if (end.status !== 'completed') throw new Error(`It ended as ${end.status}`);
  const { export: name } = end.result;
  const run = asRunId(end.result.run);
  const inSlices = await collect(bench.log.runEntries({ export: name, run }));
  const ref = { export: name, run };
  return inSlices.length === 0
    ? await loggedPages(bench.log, ref)
    : inSlices.filter((entry): entry is PageEntry => entry.kind === 'page');
}

const delaysIn = (entries: readonly PageEntry[]): Delays[] =>
  entries.map(({ failedAttempts, waitedSeconds }) => ({
    ...(failedAttempts !== undefined && { failedAttempts }),
    ...(waitedSeconds !== undefined && { waitedSeconds }),
  }));
const aBench = (options: BenchOptions) => anExportBench({ reports: someReports(6), size: 2, ...options });

describe('the delays before a page', () => {
  it.each<[string, Parameters<typeof failsAt>[0], Delays[]]>([
    ['are absent if there are none', {}, [{}, {}, {}]],
    [
      'are the attempts that failed, whatever their errors',
      { 2: 'ServiceUnavailableError', 3: 'ContractError', 4: 'ServiceUnavailableError' },
      [{}, { failedAttempts: 3 }, {}],
    ],
    ['are the seconds waited inside the invocation', { 1: 7, 2: 3 }, [{ waitedSeconds: 10 }, {}, {}]],
    ['are the seconds of Wait states', { 3: 100, 4: 50 }, [{}, {}, { waitedSeconds: 150 }]],
    [
      'are all of them, in any order',
      { 2: 'ServiceUnavailableError', 3: 60, 4: 'ServiceUnavailableError', 5: 5 },
      [{}, { failedAttempts: 2, waitedSeconds: 65 }, {}],
    ],
  ])('%s', async (_, failures, expected) => {
    expect(delaysIn(await entriesOf(aBench({ script: failsAt(failures) })))).toEqual(expected);
  });

  it('include an attempt that failed after it had logged pages, once', async () => {
    const script = failsAt({ 2: 'ServiceUnavailableError', 3: 'ServiceUnavailableError' });
    const entries = await entriesOf(aBench({ script, limits: { pagesPerInvocation: 100 } }));
    expect(delaysIn(entries)).toEqual([{}, { failedAttempts: 2 }, {}]);
  });

  it('are those of the run, at the first page that one of its slices logs after them', async () => {
    const bench = anExportBench({
      reports: someReports(12),
      size: 1,
      script: failsAt({ 1: 60, 3: 'ServiceUnavailableError' }),
    });
    const input = { since: '2026-11-01T00:00:00Z', until: '2026-11-01T00:12:00Z', parallel: 2, slice: 'PT3M' };
    const delayed = delaysIn(await entriesOf(bench, input)).filter((delays) => Object.keys(delays).length > 0);
    expect(delayed).toEqual([{ failedAttempts: 1, waitedSeconds: 60 }]);
  });
});
