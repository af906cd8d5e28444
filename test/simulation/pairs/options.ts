/** The options of `npm run simulate` for small histories: those with --pairs or --small. */

import { parseArgs } from 'node:util';
import { type SmallHistory, smallHistories } from '../histories/small-histories.ts';
import type { Slice } from './pairs.ts';

export class UsageError extends Error {}

export interface SmallOptions {
  /** All pairs of faults, and not one history. */
  readonly pairs: boolean;
  readonly small: SmallHistory | undefined;
  /** The faults of the one history, or the only first faults of pairs; empty: all. */
  readonly faults: readonly string[];
  readonly slice: Slice | undefined;
  /** Where the progress is kept. */
  readonly state: string | undefined;
  readonly maxFailures: number | undefined;
  readonly json: boolean;
}

/** @returns undefined if the options ask for other histories */
export function parseSmallOptions(args: readonly string[]): SmallOptions | undefined {
  if (!args.some((arg) => /^--(pairs|small)(=|$)/.test(arg))) return undefined;
  const values = parse(args);
  const { pairs = false, fault: faults = [], state, json = false } = values;
  const problems: string[] = [];
  const small = smallHistories.find((name) => name === values.small);
  if (values.small !== undefined && small === undefined) {
    problems.push(`--small must be one of ${smallHistories.join(', ')}`);
  }
  const slice = values.slice === undefined ? undefined : parseSlice(values.slice);
  if (values.slice !== undefined && slice === undefined)
    problems.push('--slice must be two integers K/N, K from 1 to N');
  const maxFailures = values['max-failures'];
  if (maxFailures !== undefined && !/^[1-9]\d{0,6}$/.test(maxFailures)) {
    problems.push('--max-failures must be a positive integer');
  }
  const onlyForPairs = [values.slice, state, maxFailures].some((value) => value !== undefined);
  if (!pairs && onlyForPairs) problems.push('--slice, --state and --max-failures require --pairs');
  if (problems.length > 0) throw new UsageError(problems.join('\n'));
  return {
    pairs,
    small,
    faults,
    slice,
    state,
    maxFailures: maxFailures === undefined ? undefined : Number(maxFailures),
    json,
  };
}

/** The slice that `K/N` names; undefined if it names none. */
function parseSlice(text: string): Slice | undefined {
  const [, part, parts] = /^([1-9]\d{0,5})\/([1-9]\d{0,5})$/.exec(text) ?? [];
  const slice = { part: Number(part), parts: Number(parts) };
  return slice.part <= slice.parts ? slice : undefined;
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        pairs: { type: 'boolean' },
        small: { type: 'string' },
        fault: { type: 'string', multiple: true },
        slice: { type: 'string' },
        state: { type: 'string' },
        'max-failures': { type: 'string' },
        json: { type: 'boolean' },
      },
    }).values;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}
