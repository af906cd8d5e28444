/** How far an export has come across its runs: where the next one starts. */

import { isDeepStrictEqual } from 'node:util';
import type { ExportDefinition, ExportRequest, Head, Instant, PageEntry, Run, Watermark } from '../model.ts';
import { epochMsOf } from '../timestamps.ts';

/** Whether `watermark` bounds what `request` selects: reports of another service or filter may lie before it, unseen. */
export function isFor(watermark: Watermark, { source, filter }: ExportRequest): boolean {
  return watermark.source === source && isDeepStrictEqual(watermark.filter, filter);
}

/** A service's clock further ahead of ours than this is not believed: the watermark could never come back from there. */
const believableLeadMs = 86_400_000;

/** Ours were off, too, if it was ahead of a clock that runs ahead. */
function earlier(ours: Instant, theirs: Instant | null): Instant {
  return theirs !== null && epochMsOf(theirs) < epochMsOf(ours) ? theirs : ours;
}

/**
 * Where the next run starts: the service's clock at the run's first response, ours where it sent none or one that cannot
 * be. It never moves back, and stays where the run began after the point from which the next one would ask: moving it
 * would leave out what lies between, or what may yet show up there within the overlap.
 */
export function watermarkAfter(
  head: Head,
  { since }: ExportDefinition,
  run: Run,
  first: PageEntry,
): Watermark | undefined {
  const { source, filter } = run.request;
  const known = head.watermark !== undefined && isFor(head.watermark, run.request) ? head.watermark.instant : undefined;
  // Behind another request's watermark it was the start input that said where to start: that is where this bound begins.
  const initial = since.from === 'watermark' && head.watermark === undefined ? since.initial : undefined;
  const bound = known ?? initial;
  const { serviceTime, loggedAt } = first;
  const believed = serviceTime !== null && epochMsOf(serviceTime) - epochMsOf(loggedAt) <= believableLeadMs;
  const reached = believed ? serviceTime : earlier(run.startedAt, serviceTime);
  if (bound !== undefined) {
    const overlapMs = known !== undefined && since.from === 'watermark' ? since.overlapMs : 0;
    const leavesGap = epochMsOf(run.since) > Math.max(0, epochMsOf(bound) - overlapMs);
    if (leavesGap || epochMsOf(reached) <= epochMsOf(bound)) return head.watermark;
  }
  return { instant: reached, source, filter };
}
