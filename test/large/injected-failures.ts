/**
 * What goes wrong now and then in a long run: one attempt in fifty fails, before or after one of its effects, and the
 * service asks one in two hundred for patience. It counts what it does, so that every page fetched again is accounted for.
 */

import { ExportError } from '../../lib/core/errors.ts';
import type { Cursor, Instant } from '../../lib/core/model.ts';
import type { PageStore, ReportService } from '../../lib/core/ports.ts';
import { aFetchedPage } from '../support/builders.ts';
import { bodyOf, cursorTo, pageBehind, reportsOn } from './numbered-pages.ts';

const mishaps = ['throttled', 'unavailable', 'lost-before-storing', 'lost-after-storing', 'answer-lost'] as const;
export type Mishap = (typeof mishaps)[number];

/** Of each. Four of the five are failures. */
const probability = 1 / 200;

/** Over the seconds that are sat out in the function, so the Wait state takes them. */
const retryAfterSeconds = 60;

export interface Mishaps {
  /** Decides what becomes of the attempt that begins now. */
  next(): void;
  /** Whether this happens now; no more than once an attempt. */
  strikes(mishap: Mishap): boolean;
  readonly struck: Readonly<Record<Mishap, number>>;
}

export function createMishaps(roll: () => number): Mishaps {
  const struck = { throttled: 0, unavailable: 0, 'lost-before-storing': 0, 'lost-after-storing': 0, 'answer-lost': 0 };
  let due: Mishap | undefined;
  return {
    struck,
    next() {
      due = mishaps[Math.floor(roll() / probability)];
    },
    strikes(mishap) {
      if (due !== mishap) return false;
      due = undefined;
      struck[mishap] += 1;
      return true;
    },
  };
}

export interface NumberedService extends ReportService {
  /** How many pages it has handed out. */
  readonly fetched: number;
}

/** The service of `numbered-pages`, which hands out `lastPage` of them, one after the other. */
export function createNumberedService(mishaps: Mishaps, lastPage: number, serviceTime: Instant): NumberedService {
  let fetched = 0;
  const nextOf = (page: number): Cursor | null => (page === lastPage ? null : cursorTo(page + 1));
  return {
    get fetched() {
      return fetched;
    },
    async fetchPage({ cursor, label }) {
      if (mishaps.strikes('throttled')) {
        throw new ExportError('ServiceThrottledError', `Report service throttles ${label}`, { retryAfterSeconds });
      }
      if (mishaps.strikes('unavailable')) {
        throw new ExportError('ServiceUnavailableError', `Report service responded with 503 for ${label}`);
      }
      fetched += 1;
      const page = pageBehind(cursor);
      return aFetchedPage({ body: bodyOf(page), reports: reportsOn(page), nextCursor: nextOf(page), serviceTime });
    },
  };
}

/** `store`, which loses a request, or the answer to one. */
export function withMishaps<Store extends PageStore>(store: Store, mishaps: Mishaps): PageStore {
  let pointed = false;
  return {
    ...store,
    async put(identity, page) {
      if (mishaps.strikes('lost-before-storing')) throw lost(`the request to store page ${identity.page}`);
      const put = await store.put(identity, page);
      if (mishaps.strikes('lost-after-storing')) throw lost(`the answer about page ${identity.page}`);
      return put;
    },
    /** Between the manifest and its pointer, once: the run is finished again. */
    async putLatest(key, latest, hasBegun) {
      const first = !pointed;
      pointed = true;
      if (first) throw lost('the request to point at the manifest');
      await store.putLatest(key, latest, hasBegun);
    },
  };
}

const lost = (what: string) => Object.assign(new Error(`${what} was lost`), { name: 'TimeoutError' });
