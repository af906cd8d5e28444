/** What a benchmark is and what it returns: the measured figures, and tables made of them. */

/** The figures of one repetition of one contender. */
export type Figures = Readonly<Record<string, number>>;

export interface BenchmarkOptions {
  /** How often each contender runs. The first round, which warms up caches, is not counted. */
  readonly repetitions: number;
  /** Absent: true. */
  readonly warmUp?: boolean;
  /** Less of everything: shows that the benchmark works, and nothing else. */
  readonly quick: boolean;
  readonly reportProgress: (line: string) => void;
}

export interface Table {
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

interface BenchmarkResult {
  readonly tables: readonly Table[];
  /** Every figure of every repetition. */
  readonly measured: unknown;
  /** What a reader of the tables must know. */
  readonly notes?: readonly string[];
}

export interface Benchmark {
  /** Its name on the command line. */
  readonly name: string;
  readonly title: string;
  readonly run: (options: BenchmarkOptions) => Promise<BenchmarkResult>;
}
