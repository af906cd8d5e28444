/**
 * The histories of `npm run simulate -- --days`: three to five days with several starts a day, in which operators name
 * bounds, restart, stop and abandon runs, with settings at the borders of what is allowed. Clocks are right, so that it
 * is known exactly what each run must contain (`invariants/oracle.ts`).
 */

import { exportSettingsSchema } from '../../../lib/settings/settings.ts';
import { isExportError } from '../../../lib/core/errors.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';
import { type FaultKind, faultKinds, type FaultRates } from '../world/faults.ts';
import { createRng, type Rng } from '../world/rng.ts';
import { writtenService } from '../world/functions.ts';
import { aDeployment } from '../../support/settings.ts';
import type { DeploymentScenario, ExportInput, ExportScenario, Scenario } from './scenario.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

export function createDaysScenario(seed: string, pages: number): Scenario {
  const rng = createRng(seed, 'days');
  const start = Date.UTC(2026, 10, 20) + rng.integerBelow(24) * hour;
  const faultsEndAt = start + rng.pick([2, 3]) * day;
  const hasDays = rng.chance(0.25);
  const deployment = createDeployment(rng, hasDays);
  const exports = rng
    .pick([['nightly'], ['nightly'], ['nightly', 'hourly']])
    .map((name) => createExport(createRng(seed, `days of ${name}`), name, { start, pages, deployment }));
  return {
    start,
    faultsEndAt,
    lastStartAt: faultsEndAt + 1.5 * day,
    end: faultsEndAt + 1.5 * day + 5 * hour,
    rates: drawRates(rng, hasDays),
    timedOutFunctionsContinue: rng.chance(0.5),
    maxFunctionSkewMs: 0,
    clocksJump: false,
    table: { returnsExisting: true, maxBatch: 500 },
    exports,
    otherExports: [],
    maxListed: 1_000,
    deployment,
  };
}

const createDeployment = (rng: Rng, hasDays: boolean): DeploymentScenario => ({
  describedApi: hasDays ? 'link' : rng.pick([undefined, undefined, 'xml body']),
  hasDays,
  hasUpperBound: true,
  cursorIn: 'query',
  maxConcurrentPages: undefined,
  hasProxy: false,
  apiKeyField: '',
  kmsKeyArn: undefined,
  compresses: false,
  maxInFlight: undefined,
  partBytes: undefined,
});

/** Whether these settings cannot be deployed: they are drawn from beyond the borders of what is allowed, too. */
function isRefused(service: object, input: ExportInput): boolean {
  try {
    aDeployment(service, input);
    return false;
  } catch (error) {
    if (isExportError(error, 'ConfigurationError')) return true;
    throw error;
  }
}

function createExport(
  rng: Rng,
  name: string,
  at: { readonly start: number; readonly pages: number; readonly deployment: DeploymentScenario },
): ExportScenario {
  const { start, pages, deployment } = at;
  const intervalMs = rng.pick([4, 6, 8, 12]) * hour;
  const pageSize = 2;
  const input: ExportInput = {
    name,
    since: drawSince(rng, start),
    filter: {},
    ...(deployment.describedApi === undefined ? { format: 'XML' } : {}),
    ...(deployment.hasDays || rng.chance(0.6)
      ? {}
      : { slices: { parallel: 2, length: rng.pick(['PT3H', 'PT7H'] as const) } }),
    size: pageSize,
    publishEmptyRuns: rng.chance(0.7),
    iterationsPerExecution: rng.pick([2, 150]),
    pagesPerInvocation: rng.pick([1, 3]),
    maxCursorRestarts: 1,
    maxPages: 1_000,
    maxRetryAfter: 'PT1H',
  };
  if (isRefused(writtenService(deployment), input)) return createExport(rng, name, at);
  const settings = { ...exportSettingsSchema.parse(input), format: 'XML' };
  const { lag: lagMs = 0 } = settings.since;
  return {
    input,
    settings,
    intervalMs,
    service: {
      skewMs: 0,
      hasDate: rng.chance(0.8),
      maxDateLagMs: 0,
      singleUseCursors: false,
      snapshots: false,
      cursors: 'contract',
      freshCursors: false,
      framing: 'length',
      compresses: false,
      paddingBytes: 0,
      maxLatencyMs: 900,
      pageSize,
      upperBounds: 'honored',
    },
    reports: {
      backlog: rng.integerBelow(pages * pageSize),
      arriving: pages * pageSize * 3,
      maxBackdatingMs: lagMs === 0 ? 0 : rng.pick([0, lagMs - minute]),
      changing: false,
      redating: false,
    },
  };
}

/** Often close to settings that leave nothing to export: an initial date in the future, a window of nearly the lag. */
function drawSince(rng: Rng, start: number): NonNullable<ExportInput['since']> {
  const lag = rng.pick([undefined, 'PT10M', 'PT2H', 'PT10H', 'P1D'] as const);
  const lagFields = lag === undefined ? {} : { lag };
  if (rng.chance(0.3)) {
    const near = { PT10M: 'PT10M30S', PT2H: 'PT2H30S', PT10H: 'PT10H1S', P1D: 'P1DT1S' } as const;
    const lookbackWindow = rng.pick(['PT3H', 'PT12H', 'P1D', 'P2D', ...(lag === undefined ? [] : [near[lag]])]);
    return { lookbackWindow, ...lagFields };
  }
  const initialMs = start + rng.pick([-72, -30, -20, -12, -1, 5, 15]) * hour;
  return {
    ...(rng.chance(0.7) ? { initial: rng.chance(0.3) ? instantOf(initialMs).slice(0, 10) : instantOf(initialMs) } : {}),
    overlap: rng.pick(['PT0S', 'PT0S', 'PT1H', 'PT30H']),
    ...lagFields,
  };
}

/** What operators do, and what ends runs at any point. */
const rates: Partial<FaultRates> = {
  'manual-start': 0.02,
  'manual-start-since': 0.02,
  'manual-restart': 0.01,
  'manual-abandon': 0.02,
  'manual-start-sliced': 0.01,
  'execution-stopped': 0.02,
  'bounded-start': 0.02,
  'bounded-start-again': 0.01,
  'bounded-restart': 0.01,
  'start-delayed': 0.1,
  'start-repeated': 0.1,
  'killed-before-request': 0.01,
  'killed-during-request': 0.01,
  'killed-after-request': 0.01,
  'response-lost': 0.01,
  'service-error': 0.02,
  'service-rejects-request': 0.1,
  'service-rejects-key': 0.05,
  'cursor-rejected': 0.05,
};

/** With days as dates, hours are refused as bounds and as lengths of slices. */
const drawRates = (rng: Rng, hasDays: boolean): FaultRates =>
  Object.fromEntries(
    faultKinds.map((kind: FaultKind) => {
      const rate = rng.chance(0.7) ? (rates[kind] ?? 0) * rng.pick([0.5, 1, 2, 4]) : 0;
      return [kind, hasDays && /^bounded|sliced$/.test(kind) ? 0 : rate];
    }),
  ) as unknown as FaultRates;
