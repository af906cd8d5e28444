/** A service, a store and a log in memory that take their time, and nothing else. */

import type { PageLog, PageStore, ReportService } from '../../lib/core/ports.ts';
import { bodyOf, cursorTo, pageOf, reportsOn } from '../../test/large/numbered-pages.ts';
import type { VirtualTime } from '../../test/simulation/world/virtual-time.ts';
import { aFetchedPage } from '../../test/support/builders.ts';
import { createMemoryLog, createMemoryStore } from '../../test/support/export/memory-adapters.ts';
import type { Latencies } from './latencies.ts';
import type { Walk } from './modelled-run.ts';

/** Answers each request in its time; the answer goes on whether or not it is read. */
export function modelledService({ latencies, pages, answersAtOnce }: Walk, time: VirtualTime): ReportService {
  const { serviceFirstByteMs, serviceBodyMs } = latencies;
  /** When each of those that answer is free again. */
  const freeAt: number[] = Array.from({ length: answersAtOnce }, () => 0);
  return {
    async fetchPage({ cursor }) {
      const soonest = freeAt.indexOf(Math.min(...freeAt));
      const begins = Math.max(time.now(), freeAt[soonest] ?? 0);
      const ends = begins + serviceFirstByteMs + serviceBodyMs;
      freeAt[soonest] = ends;
      await time.sleep(begins + serviceFirstByteMs - time.now());
      const page = pageOf(cursor);
      async function* body() {
        await time.sleep(ends - time.now());
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

/** As S3 is used: nothing is sent before the body has ended, and then all of it at once. */
export function modelledStore({ s3PutMs, s3HeadMs }: Latencies, time: VirtualTime): PageStore {
  const store = createMemoryStore();
  return {
    ...store,
    async find(key) {
      await time.sleep(s3HeadMs);
      return await store.find(key);
    },
    async put(identity, page) {
      async function* sent() {
        yield* page.body;
        await page.predecessorStored;
        await time.sleep(s3PutMs);
      }
      return await store.put(identity, { ...page, body: sent() });
    },
  };
}

export function modelledLog({ dynamoReadMs, dynamoWriteMs }: Latencies, time: VirtualTime): PageLog {
  const log = createMemoryLog();
  const after = async <Outcome>(ms: number, act: () => Promise<Outcome>) => {
    await time.sleep(ms);
    return await act();
  };
  return {
    exportState: (exportName) => after(dynamoReadMs, () => log.exportState(exportName)),
    last: (run) => after(dynamoReadMs, () => log.last(run)),
    replaceState: (head) => after(dynamoWriteMs, () => log.replaceState(head)),
    append: (entry) => after(dynamoWriteMs, () => log.append(entry)),
    entries: (run) => log.entries(run),
  };
}
