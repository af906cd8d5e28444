/**
 * Failures of a long run: one attempt in fifty fails, before or after one of its writes, and one in two hundred is throttled.
 * They are counted, so that every repeated request can be accounted for.
 */

import { ExportError } from '../../lib/core/errors.ts';
import type { Cursor, Instant } from '../../lib/core/model.ts';
import type { PageStore, ReportService } from '../../lib/core/ports.ts';
import { aFetchedPage, respondWith, withSpools } from '../support/builders.ts';
import { bodyOf, cursorTo, pageOf, reportsOn } from './numbered-pages.ts';

const failureKinds = [
  'throttled',
  'unavailable',
  'lost-before-storing',
  'lost-after-storing',
  'response-lost',
] as const;
export type FailureKind = (typeof failureKinds)[number];

/** Of each kind. All but `throttled` are failures. */
const probability = 1 / 200;

/** Longer than a function waits by itself, so that the state machine's Wait state is used. */
const retryAfterSeconds = 60;

export interface FailureInjector {
  /** Begins an attempt, and decides what happens to it. */
  nextAttempt(): void;
  /** Whether this failure occurs now; at most one occurs per attempt. */
  inject(kind: FailureKind): boolean;
  readonly counts: Readonly<Record<FailureKind, number>>;
}

/** `random`: from 0 (inclusive) to 1 (exclusive). */
export function createFailureInjector(random: () => number): FailureInjector {
  const counts = {
    throttled: 0,
    unavailable: 0,
    'lost-before-storing': 0,
    'lost-after-storing': 0,
    'response-lost': 0,
  };
  let pending: FailureKind | undefined;
  return {
    counts,
    nextAttempt() {
      pending = failureKinds[Math.floor(random() / probability)];
    },
    inject(kind) {
      if (pending !== kind) return false;
      pending = undefined;
      counts[kind] += 1;
      return true;
    },
  };
}

export interface NumberedService extends ReportService {
  /** How many pages it has served. */
  readonly fetched: number;
}

/** A service with the first `lastPage` pages of `numbered-pages`. */
export function createNumberedService(
  failures: FailureInjector,
  lastPage: number,
  serviceTime: Instant,
): NumberedService {
  let fetched = 0;
  const nextCursorOf = (page: number): Cursor | null => (page === lastPage ? null : cursorTo(page + 1));
  return {
    get fetched() {
      return fetched;
    },
    async fetch({ cursor, label }, options) {
      if (failures.inject('throttled')) {
        throw new ExportError('ServiceThrottledError', `Report service throttled ${label}`, { retryAfterSeconds });
      }
      if (failures.inject('unavailable')) {
        throw new ExportError('ServiceUnavailableError', `Report service answered 503 for ${label}`);
      }
      fetched += 1;
      const page = pageOf(cursor);
      const parts = { body: bodyOf(page), reports: reportsOn(page), nextCursor: nextCursorOf(page), serviceTime };
      return await respondWith(aFetchedPage(parts), options);
    },
  };
}

/** `store`, which loses a request or a response now and then. */
export function withFailures<Store extends PageStore>(store: Store, failures: FailureInjector): PageStore {
  let hasPutLatest = false;
  return {
    ...withSpools(store, ({ put }, { page }) => ({
      async put(received) {
        if (failures.inject('lost-before-storing')) throw lost(`The request to store page ${page}`);
        const result = await put(received);
        if (failures.inject('lost-after-storing')) throw lost(`The response for page ${page}`);
        return result;
      },
    })),
    /** The first call fails: between the manifest and its pointer, so that the run is finished again. */
    async putLatest(key, latest, hasBegun) {
      const isFirst = !hasPutLatest;
      hasPutLatest = true;
      if (isFirst) throw lost('The request to write the pointer');
      await store.putLatest(key, latest, hasBegun);
    },
  };
}

const lost = (what: string) => Object.assign(new Error(`${what} was lost`), { name: 'TimeoutError' });
