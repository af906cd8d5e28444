/** The circumstances of one history, drawn from its seed: what is exported, how the service is, and what goes wrong how often. */

import { type ExportSettings, exportSettingsSchema } from '../../../lib/core/settings/settings.ts';
import { type FaultRates, ratesFor } from '../world/faults.ts';
import { diceFor } from '../world/rng.ts';

const minute = 60_000;
const hour = 60 * minute;

export interface Setting {
  readonly start: number;
  /** From then on nothing goes wrong any more. */
  readonly calmFrom: number;
  /** From then on nothing is started any more. */
  readonly lastStartAt: number;
  /** By then all must be done. */
  readonly end: number;
  readonly rates: FaultRates;
  readonly zombies: boolean;
  /** How far the functions' clocks are off at most. */
  readonly functionSkewMs: number;
  readonly table: { readonly returnsStanding: boolean; readonly batch: number };
  readonly exports: readonly ExportSetting[];
}

export interface ExportSetting {
  readonly settings: ExportSettings;
  /** At once, where an invocation exports several pages: as in a function, or as in a local run. */
  readonly maxInFlight: number;
  /** From one scheduled start to the next. */
  readonly everyMs: number;
  readonly cursorIn: 'query' | 'body';
  readonly service: {
    readonly skewMs: number;
    readonly hasDate: boolean;
    readonly dateLagMs: number;
    readonly snapshots: boolean;
    readonly cursors: 'contract' | 'long';
    readonly freshCursors: boolean;
    readonly framing: 'length' | 'chunked' | 'none';
    readonly paddingBytes: number;
    readonly slowestMs: number;
    readonly pageSize: number;
  };
  readonly reports: {
    readonly backlog: number;
    readonly arriving: number;
    readonly latenessMs: number;
    readonly changing: boolean;
  };
}

/** `pages`: about how many pages the largest run has. */
export function settingFor(seed: string, pages: number): Setting {
  const dice = diceFor(seed, 'setting');
  const start = Date.UTC(2026, 10, 20) + dice.below(24) * hour;
  const calmFrom = start + dice.between(1, 6) * hour;
  const functionSkewMs = dice.pick([0, 0, 2_000, 5 * minute]);
  const names = dice.happens(0.15) ? ['daily', 'hourly'] : ['reports'];
  return {
    start,
    calmFrom,
    lastStartAt: calmFrom + 4 * hour,
    end: calmFrom + 9 * hour,
    rates: ratesFor(dice),
    zombies: dice.happens(0.5),
    functionSkewMs,
    table: { returnsStanding: dice.happens(0.5), batch: dice.pick([2, 5, 500]) },
    exports: names.map((name) => exportSettingFor(seed, name, pages, functionSkewMs)),
  };
}

function exportSettingFor(seed: string, name: string, pages: number, functionSkewMs: number): ExportSetting {
  const dice = diceFor(seed, `setting of ${name}`);
  const pageSize = 1 + dice.below(3);
  const size = dice.happens(0.7) ? pageSize : undefined;
  const most = 1 + dice.below(pages * pageSize);
  const overlap = dice.pick(['PT0S', 'PT0S', 'PT10M']);
  const lookbackWindow = dice.happens(0.15) ? { lookbackWindow: dice.pick(['PT30M', 'PT3H']) } : undefined;
  const initial = dice.happens(0.3) ? { initial: '2026-11-19T12:00:00Z' } : {};
  // Now and then pages so large that they go in parts; as no XML, whose check would take too long here.
  const large = dice.happens(0.004);
  const format = large || dice.happens(0.05) ? 'CSV' : 'XML';
  const hasDate = functionSkewMs > 0 || dice.happens(0.9);
  return {
    settings: exportSettingsSchema.parse({
      name,
      since: lookbackWindow ?? { ...initial, overlap },
      filter: dice.happens(0.3) ? { type: 'invoice', amount: { gt: 1.5 } } : {},
      format,
      size,
      iterationsPerExecution: dice.pick([1, 2, 3, 5, 250]),
      // By dice of its own: those behind it must not change what becomes of a seed.
      pagesPerInvocation: diceFor(seed, `pages of ${name}`).pick([1, 1, 2, 3, 25]),
      maxCursorRestarts: dice.below(3),
      // Far beyond any walk here that comes to an end: one that does not is to be noticed soon.
      maxPages: 1_000,
      maxRetryAfter: 'PT1H',
    }),
    maxInFlight: diceFor(seed, `pages in hand of ${name}`).pick([2, 2, 4]),
    everyMs: dice.pick([30 * minute, hour, hour]),
    cursorIn: dice.pick(['query', 'body']),
    service: {
      // Without a Date of its own there is only our clock to go by: then the two must agree.
      skewMs: hasDate ? Math.round(dice.pick([0, 0, -30_000, 30_000, 2 * hour, -2 * hour, 72 * hour])) : 0,
      hasDate,
      dateLagMs: dice.pick([0, 0, 0, 70 * minute]),
      snapshots: dice.happens(0.3),
      cursors: dice.happens(0.1) ? 'long' : 'contract',
      freshCursors: dice.happens(0.3),
      framing: format === 'XML' ? dice.pick(['length', 'chunked', 'none']) : dice.pick(['length', 'chunked']),
      paddingBytes: large ? 8_500_000 : dice.pick([0, 0, 1_000]),
      slowestMs: dice.pick([50, 900, 900, 20_000]),
      pageSize,
    },
    reports: {
      backlog: large ? 3 : dice.below(most + 1),
      arriving: large ? 3 : dice.below(most * 2 + 1),
      latenessMs: overlap === 'PT10M' && lookbackWindow === undefined ? dice.pick([0, 9 * minute]) : 0,
      changing: dice.happens(0.3),
    },
  };
}
