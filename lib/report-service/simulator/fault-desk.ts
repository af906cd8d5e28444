/**
 * Asks the fault script about each request, and remembers for it what a script goes by: which page of the walk a cursor
 * leads to, and how often it was asked for. Without a script nothing is remembered, however long the service runs.
 */

import type { FaultScript } from './fault-scripts.ts';
import type { Fault } from './faults.ts';

export interface FaultDesk {
  /** The fault for this request; `asked` is undefined where the request is refused anyway. */
  faultFor(request: number, asked: { readonly cursor?: string | undefined } | undefined): Fault | undefined;
  /** Remembers that the page asked for with `cursor` was answered with these cursors. */
  noteCursors(cursor: string | undefined, sent: readonly string[]): void;
}

export function faultDesk(script: FaultScript | undefined): FaultDesk {
  if (script === undefined) return { faultFor: () => undefined, noteCursors: () => {} };
  const pages = new Map<string, number>();
  const attempts = new Map<string | undefined, number>();
  const pageOf = (cursor: string | undefined) => (cursor === undefined ? 1 : pages.get(cursor));

  return {
    faultFor(request, asked) {
      if (asked === undefined) return script({ request, page: undefined, attempt: 1, cursor: undefined });
      const { cursor } = asked;
      const attempt = (attempts.get(cursor) ?? 0) + 1;
      attempts.set(cursor, attempt);
      return script({ request, page: pageOf(cursor), attempt, cursor });
    },
    noteCursors(cursor, sent) {
      const page = pageOf(cursor);
      if (page === undefined) return;
      // The first page that names a cursor says which page it leads to; in a cycle later ones would say otherwise.
      for (const next of sent) if (!pages.has(next)) pages.set(next, page + 1);
    },
  };
}
