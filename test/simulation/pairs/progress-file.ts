/**
 * What a run of pairs has done so far, as lines of JSON: a header that says what the run is, then a line for each first fault
 * whose pairs were counted, and one for each whose pairs were run. An interruption can leave an incomplete last line.
 */

import { createHash } from 'node:crypto';
import { appendFileSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { FirstFault, PairResults } from './pairs.ts';

export interface ProgressFile {
  /** By `keyOf` the first fault. */
  readonly counted: ReadonlyMap<string, PairResults>;
  readonly done: ReadonlyMap<string, PairResults>;
  append(kind: 'counted' | 'done', first: FirstFault, results: PairResults): void;
  remove(): void;
}

/** What must be the same for a run to continue. */
export interface ProgressHeader {
  readonly digest: string;
  readonly slice: string;
  readonly histories: readonly string[];
  /** The only first faults; empty: all. */
  readonly faults: readonly string[];
}

export const keyOf = ({ history, index }: FirstFault): string => `${history}/${index}`;

export class StaleProgressError extends Error {}

/** @throws StaleProgressError if the file is of another run */
export function openProgressFile(path: string, header: ProgressHeader): ProgressFile {
  const { counted, done } = read(path, header);
  return {
    counted,
    done,
    append(kind, first, results) {
      const key = keyOf(first);
      (kind === 'counted' ? counted : done).set(key, results);
      appendFileSync(path, `${JSON.stringify({ kind, key, ...results })}\n`);
    },
    remove: () => rmSync(path, { force: true }),
  };
}

function read(path: string, header: ProgressHeader) {
  const counted = new Map<string, PairResults>();
  const done = new Map<string, PairResults>();
  const [first, ...lines] = completeLines(path);
  if (first === undefined) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, `${JSON.stringify(header)}\n`);
    return { counted, done };
  }
  const difference = differenceOf(parse(first), header);
  if (difference !== undefined) {
    throw new StaleProgressError(
      `${path} has the progress of ${difference}. Delete it to begin again, or name another file with --state.`,
    );
  }
  // Without the incomplete line, so that the next one begins a line of its own.
  writeFileSync(path, `${[first, ...lines].join('\n')}\n`);
  for (const line of lines) {
    const { kind, key, ...results } = parse(line) as PairResults & { kind: string; key: string };
    (kind === 'counted' ? counted : done).set(key, results);
  }
  return { counted, done };
}

function completeLines(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\n').slice(0, -1);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function differenceOf(found: unknown, { digest, slice, histories, faults }: ProgressHeader): string | undefined {
  const other = found as Partial<ProgressHeader> | undefined;
  if (typeof other?.digest !== 'string') return 'something else: its first line is not the header of a run of pairs';
  if (other.digest !== digest) return 'another version of the code';
  if (other.slice !== slice) return `the slice ${other.slice}, not ${slice}`;
  if (String(other.histories) !== String(histories)) return `other histories: ${String(other.histories)}`;
  if (String(other.faults) !== String(faults)) return 'other faults';
  return undefined;
}

const root = join(import.meta.dirname, '../../..');

/** A digest of everything that decides how a history goes. */
export function digestOfCode(): string {
  const files = globSync(['lib/**/*', 'functions/**/*', 'test/simulation/**/*.ts', 'package-lock.json'], {
    cwd: root,
    withFileTypes: true,
  })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  const hash = createHash('sha256').update(process.env.MUTANT ?? '');
  for (const file of files) hash.update(`\n${file.slice(root.length)}\n`).update(readFileSync(file));
  return hash.digest('hex');
}
