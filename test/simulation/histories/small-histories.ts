/**
 * The small histories of `npm run simulate -- --pairs`: one export whose first run has 2 or 3 pages, with 1 or 4 pages
 * in flight. They are fixed, and as short as the final checks allow, since each runs once for every pair of faults.
 *
 * | minute | |
 * |---|---|
 * | 30 | the first start. One report arrives while it runs: the second run must have it |
 * | 60 | the second start, which recovers what the first one left |
 * | 110 | faults end: a process that froze at the second start has resumed |
 * | 270 | the third start, without faults |
 * | 300 | the fourth start: what arrived before the third one must be exported after it |
 * | 600 | the final checks |
 */

import { exportSettingsSchema } from '../../../lib/settings/settings.ts';
import { faultKinds, type FaultRates } from '../world/faults.ts';
import type { ExportInput, Scenario } from './scenario.ts';

const minute = 60_000;
const second = 1_000;

/** What differs between the small histories. */
interface SmallScenario {
  readonly pages: number;
  readonly inFlight: number;
  /** After how many invocations the run continues in another execution. */
  readonly iterationsPerExecution: number;
  readonly framing: 'length' | 'chunked' | 'none';
  readonly cursorIn: 'query' | 'body';
  readonly returnsExisting: boolean;
  /** In one of them: the second run has one page in all, so it is about the same if the first one left nothing. */
  readonly faultsInOrdinaryStarts: boolean;
  readonly clocksJump: boolean;
  readonly singleUseCursors: boolean;
  readonly partBytes: number | undefined;
  /** Whether the first run has two slices. */
  readonly isSliced?: boolean;
}

const smallScenarios = {
  '2-pages-1-in-flight': {
    pages: 2,
    inFlight: 1,
    iterationsPerExecution: 150,
    framing: 'length',
    cursorIn: 'query',
    returnsExisting: true,
    faultsInOrdinaryStarts: true,
    clocksJump: false,
    singleUseCursors: false,
    partBytes: undefined,
  },
  '3-pages-1-in-flight': {
    pages: 3,
    inFlight: 1,
    iterationsPerExecution: 2,
    framing: 'none',
    cursorIn: 'body',
    returnsExisting: false,
    faultsInOrdinaryStarts: false,
    clocksJump: false,
    singleUseCursors: true,
    partBytes: undefined,
  },
  '2-pages-4-in-flight': {
    pages: 2,
    inFlight: 4,
    iterationsPerExecution: 150,
    framing: 'chunked',
    cursorIn: 'body',
    returnsExisting: false,
    faultsInOrdinaryStarts: false,
    clocksJump: false,
    singleUseCursors: false,
    partBytes: 400,
  },
  '3-pages-4-in-flight': {
    pages: 3,
    inFlight: 4,
    iterationsPerExecution: 150,
    framing: 'none',
    cursorIn: 'query',
    returnsExisting: true,
    faultsInOrdinaryStarts: false,
    clocksJump: true,
    singleUseCursors: false,
    partBytes: undefined,
  },
  '2-pages-2-slices': {
    pages: 2,
    inFlight: 1,
    iterationsPerExecution: 150,
    framing: 'length',
    cursorIn: 'query',
    returnsExisting: true,
    faultsInOrdinaryStarts: false,
    clocksJump: false,
    singleUseCursors: false,
    partBytes: undefined,
    isSliced: true,
  },
} as const satisfies Record<string, SmallScenario>;

export type SmallHistory = keyof typeof smallScenarios;

export const smallHistories = Object.keys(smallScenarios) as readonly SmallHistory[];

const start = Date.UTC(2026, 10, 20);
const firstStartAt = 30 * minute;
const pageSize = 2;

export function createSmallScenario(name: SmallHistory): Scenario {
  const small: SmallScenario = smallScenarios[name];
  const { pages, inFlight, iterationsPerExecution, framing, cursorIn, returnsExisting, faultsInOrdinaryStarts } = small;
  const { clocksJump, singleUseCursors, partBytes, isSliced = false } = small;
  const input: ExportInput = {
    name: 'reports',
    // The reports of the day before, cut at noon.
    since: { overlap: 'PT0S', ...(isSliced ? { initial: '2026-11-19T00:00:00Z' } : {}) },
    ...(isSliced ? { slices: { parallel: 2, length: 'PT36H' } } : {}),
    filter: {},
    format: 'XML',
    size: pageSize,
    publishEmptyRuns: false,
    iterationsPerExecution,
    pagesPerInvocation: inFlight,
    maxCursorRestarts: 1,
    maxPages: 100,
    maxRetryAfter: 'PT1H',
  };
  return {
    start,
    faultsEndAt: start + 110 * minute,
    lastStartAt: start + 300 * minute,
    end: start + 600 * minute,
    // In the phases of the runs of the first and of the second start, and between them.
    fewStarts: {
      ticks: [1, 2, 9, 10],
      faultsInOrdinaryStarts,
      operatorDelaysMs: [1, 2, 4, 6, 600].map((seconds) => seconds * second),
    },
    rates: noRates,
    timedOutFunctionsContinue: true,
    maxFunctionSkewMs: 0,
    table: { returnsExisting, maxBatch: 500 },
    exports: [
      {
        input,
        settings: exportSettingsSchema.parse(input),
        intervalMs: 30 * minute,
        service: {
          skewMs: 0,
          hasDate: true,
          maxDateLagMs: 0,
          singleUseCursors,
          snapshots: false,
          cursors: 'contract',
          freshCursors: false,
          framing,
          compresses: false,
          paddingBytes: 0,
          maxLatencyMs: 900,
          pageSize,
          upperBounds: 'honored',
        },
        // The last page is not full: a report arrives during the first run.
        reports: {
          backlog: pages * pageSize - 1,
          arriving: [firstStartAt + 2 * second],
          maxBackdatingMs: 0,
          changing: false,
          redating: false,
        },
      },
    ],
    clocksJump,
    maxListed: 1_000,
    otherExports: [],
    deployment: {
      hasUpperBound: isSliced,
      cursorIn,
      maxConcurrentPages: undefined,
      hasProxy: false,
      apiKeyField: '',
      kmsKeyArn: undefined,
      compresses: false,
      maxInFlight: inFlight,
      partBytes,
    },
  };
}

/** Faults are chosen, not drawn. */
const noRates = Object.fromEntries(faultKinds.map((kind) => [kind, 0])) as unknown as FaultRates;
