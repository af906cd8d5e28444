/**
 * A benchmark, and how it measures: its contenders take turns within each round, so that other load on the
 * machine affects all of them, and each is compared with the baseline of its own round.
 */

export interface BenchmarkOptions {
  /** How often each contender is measured, after a first round that warms up caches and is not counted. */
  readonly rounds: number;
  /** Less of everything, and nothing to warm up: shows that the benchmark works, and nothing else. */
  readonly quick: boolean;
  readonly reportProgress: (line: string) => void;
}

export interface Table {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

export interface Benchmark {
  /** Its name on the command line. */
  readonly name: string;
  readonly title: string;
  readonly run: (options: BenchmarkOptions) => Promise<Table>;
}

export interface Contender<Figures> {
  readonly name: string;
  readonly measure: () => Promise<Figures>;
}

/** The figures of each contender, one per round. */
export type Rounds<Figures> = ReadonlyMap<string, readonly Figures[]>;

/** Measures every contender once per round. Each round begins with another contender. */
export async function measureRounds<Figures>(
  contenders: readonly Contender<Figures>[],
  { rounds: count, quick, reportProgress }: BenchmarkOptions,
  label: string,
): Promise<Rounds<Figures>> {
  const rounds = new Map<string, Figures[]>(contenders.map(({ name }) => [name, []]));
  for (let round = quick ? 1 : 0; round <= count; round += 1) {
    reportProgress(`${label}: ${round === 0 ? 'warming up' : `round ${round} of ${count}`}`);
    const shift = round % contenders.length;
    for (const { name, measure } of [...contenders.slice(shift), ...contenders.slice(0, shift)]) {
      const figures = await measure();
      if (round > 0) rounds.get(name)?.push(figures);
    }
  }
  return rounds;
}

/** The median, minimum and maximum over all rounds. */
interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** One figure of a contender over all rounds. */
export function figureOf<Figures>(rounds: Rounds<Figures>, name: string, figure: (figures: Figures) => number): Spread {
  return spreadOf((rounds.get(name) ?? []).map(figure));
}

/** One figure of a contender divided by that of the baseline, round by round. */
export function ratioOf<Figures>(
  rounds: Rounds<Figures>,
  name: string,
  baseline: string,
  figure: (figures: Figures) => number,
): Spread {
  const base = rounds.get(baseline) ?? [];
  return spreadOf((rounds.get(name) ?? []).map((figures, round) => figure(figures) / figure(base[round] ?? figures)));
}

function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (index: number) => sorted[index] ?? Number.NaN;
  const middle = (sorted.length - 1) / 2;
  return { median: (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2, min: at(0), max: at(sorted.length - 1) };
}

/** With three digits: `12.3`, `0.412`, `1,234`. */
export function formatNumber(value: number): string {
  return new Intl.NumberFormat('en', { maximumSignificantDigits: 3 }).format(value);
}

/** `12.3 (11.9 to 14)`. */
export function formatSpread({ median, min, max }: Spread): string {
  return `${formatNumber(median)} (${formatNumber(min)} to ${formatNumber(max)})`;
}

/** `1.08 (1.02 to 1.15)`. */
export function formatRatio({ median, min, max }: Spread): string {
  return `${median.toFixed(2)} (${min.toFixed(2)} to ${max.toFixed(2)})`;
}

/** In Markdown, with aligned columns. */
export function formatTable({ columns, rows }: Table): string {
  const widths = columns.map((column, index) => Math.max(column.length, ...rows.map((row) => row[index]?.length ?? 0)));
  const line = (cells: readonly string[]) => `| ${cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(' | ')} |`;
  const separator = `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`;
  return [line(columns), separator, ...rows.map(line), ''].join('\n');
}
