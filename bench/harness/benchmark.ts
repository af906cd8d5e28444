/** What a benchmark is, and what it comes to: figures as they were measured, and tables made of them. */

/** What one repetition of one contender came to. */
export type Figures = Readonly<Record<string, number>>;

export interface BenchOptions {
  /** How often each contender runs; the first round, which warms caches up, is not counted. */
  readonly repetitions: number;
  /** Less of everything, to see that it works; its figures mean nothing. */
  readonly quick: boolean;
  /** Tells a person who waits how far it is. */
  readonly say: (line: string) => void;
}

export interface Table {
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

interface BenchResult {
  readonly tables: readonly Table[];
  /** Every figure of every repetition, for whoever wants to reckon anew. */
  readonly measured: unknown;
  /** What must be known to read the tables. */
  readonly notes?: readonly string[];
}

export interface Bench {
  /** As it is called on the command line. */
  readonly name: string;
  readonly title: string;
  readonly run: (options: BenchOptions) => Promise<BenchResult>;
}
