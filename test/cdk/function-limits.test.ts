import { Readable } from 'node:stream';
import { expect, it } from 'vitest';
import { finishRunEphemeralStorageMebibytes, functionLimits } from '../../lib/cdk/function-limits.ts';
import { reportExportService } from '../../lib/service/api/report-export-service.ts';
import { pageKey } from '../../lib/core/storage/keys.ts';
import { foldContent } from '../../lib/core/storage/run-content.ts';
import { manifestChunks } from '../../lib/core/storage/manifest.ts';
import { aPageEntry, aRun, at, collect } from '../support/builders.ts';

const mebibyte = 1024 * 1024;
const day = 86_400;
const sliced = { filterUntil: 'date.lt' };
const auth = { kind: 'none' } as const;
const several = { pagesPerInvocation: 2 };
const ofParents = { parents: { values: ['open', 'closed'] } };
const waiting = { maxRetryAfter: 30 * day * 1_000 };

/** A request takes at most a minute and a wait of 20 s, a page of one megabyte a minute and a second to be stored. */
it.each<[string, { MiB?: number; service?: object; exports?: object[] }, number, number, number]>([
  ['a small page', {}, 141, 512, 7],
  ['a large page', { MiB: 2_000 }, 240, 2_256, 7],
  ['a slow request', { service: { totalTimeout: 120_000 } }, 201, 512, 7],
  ['waits for a slot', { service: { maxConcurrentPages: 2 } }, 151, 512, 7],
  ['waits in the state machine', { exports: [waiting] }, 141, 512, 37],
  ['several pages per invocation', { exports: [several] }, 900, 512, 7],
  ['the slices of a bounded run', { MiB: 100, service: sliced }, 900, 16 * 100 + 256, 7],
  ['the parents of a run', { MiB: 100, exports: [ofParents] }, 900, 16 * 100 + 256, 7],
  ['several pages per slice', { MiB: 100, service: sliced, exports: [several] }, 900, 16 * 2 * 100 + 256, 7],
  ['slices as large as Lambda allows', { MiB: 1_000, service: sliced, exports: [several] }, 900, 10_240, 7],
  ['each export of the service', { MiB: 1_000, exports: [waiting, several] }, 900, 2_256, 37],
])('%s: the timeout and the storage of ExportPage, and the timeout of the execution', (_, input, ...expected) => {
  const { MiB = 1, service = {}, exports = [{}] } = input;
  const limits = functionLimits({
    service: { auth, totalTimeout: 60_000, maxPageBytes: MiB * mebibyte, ...service },
    exports: exports.map((each) => ({
      api: reportExportService(service),
      maxRetryAfter: 0,
      pagesPerInvocation: 1,
      slices: { parallel: 1 },
      ...each,
    })),
  });
  const { timeoutSeconds, ephemeralStorageMebibytes, executionTimeoutSeconds } = limits;
  expect([timeoutSeconds.ExportPage, ephemeralStorageMebibytes, executionTimeoutSeconds / day]).toEqual(expected);
});

it('FinishRun has ephemeral storage for the manifest of two million pages with cursors of 4 KB', async () => {
  const run = {
    ...aRun({ export: 'x'.repeat(40) }),
    completion: { at: at('2026-11-20T03:00:00Z'), isPublished: true },
  };
  const key = pageKey(run, { page: 1 });
  const page = aPageEntry({ export: run.export, run: run.run, page: 1, key, cursor: null, nextCursor: null });
  const folded = foldContent(run);
  folded.add(page, page);
  const content = folded.content();
  const [, line = ''] = await collect(manifestChunks(run, content, Readable.from([page])));
  expect(finishRunEphemeralStorageMebibytes * mebibyte).toBeGreaterThan(2_000_000 * (line.length + 4_096 + 20));
});
