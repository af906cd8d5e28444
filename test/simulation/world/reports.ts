/** The reports of the simulated service: when each is dated, shows up, is revised and goes again, by the service's clock. */

import type { Dice } from './rng.ts';

export interface SimulatedReport {
  readonly ordinal: number;
  readonly id: string;
  /** Milliseconds since the epoch, as are all moments here. */
  readonly date: number;
  /** After `date` where it was dated back. */
  readonly visibleAt: number;
  readonly revisedAt: number | undefined;
  readonly goneAt: number | undefined;
}

export interface ReportTimeline {
  /** In the service's order: by date, then by ordinal. */
  readonly reports: readonly SimulatedReport[];
  /** Those there are at `at`, dated from `since` on, in order. */
  matching(since: number, at: number): readonly SimulatedReport[];
}

export interface ReportTimelineOptions {
  readonly dice: Dice;
  /** How many there are at `from`. */
  readonly backlog: number;
  /** How many arrive from `from` to `until`. */
  readonly arriving: number;
  readonly from: number;
  readonly until: number;
  /** From one scheduled start to the next: many arrive just as a run begins to ask. */
  readonly everyMs: number;
  /** How far a report may be dated back, in milliseconds; 0: each is dated when it shows up. */
  readonly latenessMs: number;
  /** Whether reports are revised, and go. */
  readonly changing: boolean;
}

export function reportTimeline(options: ReportTimelineOptions): ReportTimeline {
  const { dice, backlog, arriving, from, until, everyMs, latenessMs, changing } = options;
  const day = 86_400_000;
  const starts = Math.floor((until - from) / everyMs);
  const asARunBegins = () => from + (1 + dice.below(starts)) * everyMs + dice.between(0, 5_000);
  const arrivals = [
    ...Array.from({ length: backlog }, () => dice.between(from - day, from)),
    ...Array.from({ length: arriving }, () => (dice.happens(0.5) ? asARunBegins() : dice.between(from, until))),
  ].map(Math.floor);
  // Several may be dated the same: whole seconds are what many services know.
  const coarse = dice.happens(0.3);
  const made = arrivals.map((visibleAt, ordinal) => {
    const late = latenessMs > 0 && dice.happens(0.3) ? dice.between(0, latenessMs) : 0;
    const date = Math.floor(visibleAt - late);
    const changes = changing && dice.happens(0.1);
    return {
      ordinal,
      id: `r${ordinal}`,
      date: coarse && late > 0 ? Math.floor(date / 1_000) * 1_000 : date,
      visibleAt,
      revisedAt: changes ? visibleAt + dice.between(0, day / 4) : undefined,
      goneAt: changes && dice.happens(0.5) ? visibleAt + dice.between(0, day / 4) : undefined,
    };
  });
  const reports = made.sort((one, other) => one.date - other.date || one.ordinal - other.ordinal);
  return {
    reports,
    matching: (since, at) =>
      reports.filter(
        ({ date, visibleAt, goneAt }) => date >= since && visibleAt <= at && (goneAt === undefined || goneAt > at),
      ),
  };
}
