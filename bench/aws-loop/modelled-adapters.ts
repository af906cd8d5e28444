/** A service, a page store and a page log in memory that take simulated time and nothing else. */

import type { BackfillStore } from '../../lib/backfill/store.ts';
import type { PageLog, PageStore, ReportService } from '../../lib/core/ports.ts';
import { bodyOf, cursorTo, pageOf, reportsOn } from '../../test/large/numbered-pages.ts';
import type { VirtualTime } from '../../test/simulation/world/virtual-time.ts';
import { aFetchedPage } from '../../test/support/builders.ts';
import { createMemoryLog, createMemoryStore } from '../../test/support/export/memory-adapters.ts';
import type { Latencies } from './latencies.ts';

export interface RunModel {
  readonly latencies: Latencies;
  /** Of each run. */
  readonly pages: number;
  readonly pagesPerInvocation: number;
  /** How many requests the service processes at once; others wait until a response has ended. */
  readonly concurrentResponses: number;
}

/** A response continues whether or not it is read. */
export function modelledService({ latencies, pages, concurrentResponses }: RunModel, time: VirtualTime): ReportService {
  const { serviceFirstByteMs, serviceBodyMs } = latencies;
  /** For each concurrent response, when the next can start. */
  const freeAt: number[] = Array.from({ length: concurrentResponses }, () => 0);
  return {
    async fetchPage({ cursor }) {
      const slot = freeAt.indexOf(Math.min(...freeAt));
      const startsAt = Math.max(time.now(), freeAt[slot] ?? 0);
      const endsAt = startsAt + serviceFirstByteMs + serviceBodyMs;
      freeAt[slot] = endsAt;
      await time.sleep(startsAt + serviceFirstByteMs - time.now());
      const page = pageOf(cursor);
      async function* body() {
        await time.sleep(endsAt - time.now());
        yield bodyOf(page);
      }
      return aFetchedPage({
        body: body(),
        reports: reportsOn(page),
        nextCursor: page === pages ? null : cursorTo(page + 1),
      });
    },
  };
}

/** As the S3 adapter does it: the upload starts when the body has ended. */
export function modelledStore({ s3PutMs, s3HeadMs }: Latencies, time: VirtualTime): PageStore {
  const store = createMemoryStore();
  return {
    ...store,
    async find(key) {
      await time.sleep(s3HeadMs);
      return await store.find(key);
    },
    async put(identity, page) {
      async function* uploaded() {
        yield* page.body;
        await page.beforeVisible?.();
        await time.sleep(s3PutMs);
      }
      return await store.put(identity, { ...page, body: uploaded() });
    },
  };
}

export function modelledLog(
  { dynamoReadMs, dynamoWriteMs }: Latencies,
  time: VirtualTime,
): PageLog & { readonly backfills: BackfillStore } {
  const log = createMemoryLog();
  const after = async <Result>(ms: number, act: () => Promise<Result>) => {
    await time.sleep(ms);
    return await act();
  };
  return {
    exportState: (exportName) => after(dynamoReadMs, () => log.exportState(exportName)),
    last: (run) => after(dynamoReadMs, () => log.last(run)),
    replaceState: (state) => after(dynamoWriteMs, () => log.replaceState(state)),
    append: (entry) => after(dynamoWriteMs, () => log.append(entry)),
    entries: (run) => log.entries(run),
    backfills: {
      read: (exportName) => after(dynamoReadMs, () => log.backfills.read(exportName)),
      replace: (backfill) => after(dynamoWriteMs, () => log.backfills.replace(backfill)),
      windowStates: (exportName) => log.backfills.windowStates(exportName),
    },
  };
}
