/** `npm run simulate`: runs the export in a world full of faults and checks the invariants. docs/simulation.md */

import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { type HistoryPlan, runHistory } from './histories/history.ts';
import { pairPlans, planOf, type Slice } from './histories/pairs.ts';
import { runHistories, type Summary } from './histories/run-histories.ts';
import { shrink } from './histories/shrink.ts';
import { type SmallHistory, smallHistories } from './histories/small-histories.ts';
import { formatEventLog } from './world/event-log.ts';
import { faultName } from './world/world.ts';

const help = `Usage: npm run simulate -- [options]

Runs the real steps, state machine, AWS adapters and service client in a simulated world, injects faults, and checks the
invariants at every write. A seed determines its history: the same seed always gives the same events.

  --runs N     number of histories (1 with --seed, otherwise 100)
  --seed S     seed of the first history (default: random). Without --runs and --each: prints the event log of this history
  --pages P    size of the largest run, in pages, approximately (12)
  --exports N  number of exports of the service, all due at the same moments (by default, the seed decides: 1 to 5)
  --limit L    with --exports: how many pages are requested at the same time (maxConcurrentPages)
  --jobs       all exports have report jobs, if the service can; --no-jobs: none (by default, the seed decides)
  --days       histories of several days with right clocks, in which it is known exactly what each run must contain
  --each       with --seed: runs the history without faults, then once for each fault that can occur in it
  --pairs      runs a few small histories, once for each pair of faults that can occur in them
  --slice K/N  with --pairs: only part K of N parts of all pairs
  --small NAME one small history: with --pairs, only its pairs; otherwise prints its event log
  --fault F    with --small: this fault occurs; no others do. With --pairs: only pairs that begin with it. Can be repeated
  --help       prints this help

If an invariant is violated, the history is shrunk to the pages and faults that violate it, and its event log is printed
with the command that replays it.

The small histories are ${smallHistories.join(', ')}.

Exit status: 0 all invariants hold, 1 an invariant was violated, 2 invalid options.

Examples:
  npm run simulate -- --runs 1000                     1,000 new histories
  npm run simulate -- --seed 4711                     one history, with its event log
  npm run simulate -- --each --seed 4711 --pages 2    one history, once for each fault
  npm run simulate -- --days --runs 100               100 new histories of several days
  npm run simulate -- --runs 1 --exports 100 --limit 2 --pages 5
  npm run simulate -- --pairs                         every pair of faults; two hours
  npm run simulate -- --pairs --slice 3/200           a part of them
`;

interface Options {
  /** The first history, or the only one. */
  readonly plan: HistoryPlan;
  readonly mode: 'log' | 'seeds' | 'each' | 'pairs';
  readonly runs: number;
  readonly small: SmallHistory | undefined;
  readonly faults: readonly string[];
  readonly slice: Slice;
}

class UsageError extends Error {}

/** The cause of a violation is near the end of a shrunk history. */
const maxLogLines = 150;

// A closed pipe, such as that of `head`, ends the output.
process.stdout.on('error', () => process.exit(0));
try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  process.stderr.write(`Error: ${error.message}\nRun npm run simulate -- --help for the options.\n`);
  process.exitCode = 2;
}

async function main(): Promise<number> {
  const args = process.argv.slice(2);
  if (args.includes('--help') || args.includes('-h')) {
    process.stdout.write(help);
    return 0;
  }
  const options = parseOptions(args);
  return options.mode === 'log' ? await simulateOne(options) : await simulateMany(options);
}

function parseOptions(args: readonly string[]): Options {
  const values = parse(args);
  const problems: string[] = [];
  const integer = (
    name: 'seed' | 'runs' | 'pages' | 'exports' | 'limit',
    min: number,
    max: number,
  ): number | undefined => {
    const text = values[name];
    if (text === undefined) return undefined;
    if (/^\d+$/.test(text) && Number(text) >= min && Number(text) <= max) return Number(text);
    problems.push(`--${name} must be an integer from ${min} to ${max}`);
    return undefined;
  };
  const seed = integer('seed', 0, Number.MAX_SAFE_INTEGER - 10_000_000);
  const runs = integer('runs', 1, 10_000_000);
  const pages = integer('pages', 1, 1_000);
  const exports = integer('exports', 1, 1_000);
  const limit = integer('limit', 1, 100);
  const { jobs, days = false, each = false, pairs = false, fault: faults = [] } = values;
  if (each && (seed === undefined || runs !== undefined)) problems.push('--each requires --seed and excludes --runs');
  if ((exports === undefined) !== (limit === undefined)) problems.push('--exports and --limit go together');
  const small = smallHistories.find((name) => name === values.small);
  if (values.small !== undefined && small === undefined)
    problems.push(`--small must be one of ${smallHistories.join(', ')}`);
  const isSmall = pairs || values.small !== undefined;
  if (
    isSmall &&
    (each ||
      [values.seed, values.runs, values.pages, values.exports, values.days, values.jobs].some(
        (value) => value !== undefined,
      ))
  )
    problems.push('--pairs and --small exclude --seed, --runs, --pages, --exports, --jobs, --days and --each');
  if (days && exports !== undefined) problems.push('--days excludes --exports');
  if (faults.length > 0 && !isSmall) problems.push('--fault requires --small or --pairs');
  const [, part, parts] = /^([1-9]\d{0,5})\/([1-9]\d{0,5})$/.exec(values.slice ?? '1/1') ?? [];
  const slice = { part: Number(part), parts: Number(parts) };
  if (!(slice.part <= slice.parts)) problems.push('--slice must be two integers K/N, K from 1 to N');
  if (values.slice !== undefined && !pairs) problems.push('--slice requires --pairs');
  if (problems.length > 0) throw new UsageError(problems.join('\n'));
  const crowd = exports === undefined || limit === undefined ? undefined : { exports, maxConcurrentPages: limit };
  const isOne = small !== undefined || (seed !== undefined && runs === undefined);
  return {
    plan:
      small === undefined
        ? { seed: String(seed ?? randomInt(2 ** 47)), pages: pages ?? 12, crowd, days, jobs }
        : planOf(small, faults),
    mode: pairs ? 'pairs' : each ? 'each' : isOne ? 'log' : 'seeds',
    runs: runs ?? 100,
    small,
    faults,
    slice,
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowNegative: true,
      options: {
        seed: { type: 'string' },
        runs: { type: 'string' },
        pages: { type: 'string' },
        exports: { type: 'string' },
        limit: { type: 'string' },
        jobs: { type: 'boolean' },
        days: { type: 'boolean' },
        each: { type: 'boolean' },
        pairs: { type: 'boolean' },
        slice: { type: 'string' },
        small: { type: 'string' },
        fault: { type: 'string', multiple: true },
      },
    }).values;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

async function simulateOne({ plan, faults }: Options): Promise<number> {
  const history = await runHistory({ ...plan, recordLog: true });
  const { violation, stats, injectedFaults } = history;
  print(formatEventLog(history.logLines, history.start));
  print(`${injectedFaults.length} faults, ${stats.runsPublished} runs published.`);
  const occurred = new Set(injectedFaults.map(faultName));
  const missing = faults.find((fault) => !occurred.has(fault));
  if (violation !== undefined) await explainFailure({ plan, violation });
  else if (missing !== undefined)
    throw new UsageError(`${missing} did not occur. Another version of the code may name the site differently`);
  else print('All invariants hold.');
  return violation === undefined ? 0 : 1;
}

async function simulateMany(options: Options): Promise<number> {
  const { plans, what } = await plansOf(options);
  print(`Running ${what}`);
  const summary = await runHistories(plans, showProgress);
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  if (summary.histories === 0)
    throw new UsageError('No such fault can occur. Another version of the code may name the site differently');
  print(formatSummary(summary));
  const { failure } = summary;
  if (failure === undefined) print('All invariants hold.');
  else await explainFailure(failure, options.mode === 'each');
  return failure === undefined ? 0 : 1;
}

async function plansOf({ plan, mode, runs, small, faults, slice }: Options) {
  if (mode === 'pairs') {
    const histories = small === undefined ? smallHistories : [small];
    return {
      plans: pairPlans(histories, { faults, slice }),
      what: `slice ${slice.part}/${slice.parts} of all pairs of faults of ${histories.join(', ')}`,
    };
  }
  if (mode === 'each') {
    const plans = await oneFaultEach(plan);
    const what = `seed ${plan.seed} without faults, then with each of its ${plans.length - 1} possible faults`;
    return { plans, what };
  }
  const plans = Array.from({ length: runs }, (_, index) => ({ ...plan, seed: String(Number(plan.seed) + index) }));
  return { plans, what: `${runs} histories from seed ${plan.seed}` };
}

/** The history without faults, and once for each fault that can occur in it. */
async function oneFaultEach(plan: HistoryPlan): Promise<HistoryPlan[]> {
  const withoutFaults = { ...plan, forcedFaults: new Set<string>() };
  const { candidateFaults } = await runHistory({ ...withoutFaults, recordCandidates: true });
  const names = new Set(candidateFaults.map(faultName));
  return [withoutFaults, ...[...names].map((name) => ({ ...withoutFaults, forcedFaults: new Set([name]) }))];
}

type Failure = NonNullable<Summary['failure']>;

/** Shrinks the failing history, and prints its event log and how to replay it. */
async function explainFailure({ plan, violation }: Failure, isOfEach = false): Promise<void> {
  print(`\nFAILED at seed ${plan.seed}: ${violation.invariant}\n  ${violation.details}`);
  const failing = await runHistory(plan);
  if (failing.violation === undefined) {
    print('\nThe same history on its own violates nothing, so something outlasts the histories before it.');
    return;
  }
  const { history, plan: shortest, replays } = await shrink(plan, failing);
  const faults = `${history.injectedFaults.length} of ${failing.injectedFaults.length} faults`;
  print(`\nShrunk to --pages ${shortest.pages} and ${faults} in ${replays} replays:\n`);
  const firstLine = history.logLines.length - maxLogLines;
  const lines = history.logLines.filter(({ actor }, index) => index >= firstLine || actor === 'FAULT');
  const omitted = history.logLines.length - lines.length;
  if (omitted > 0) print(`(${omitted} earlier lines omitted)`);
  print(formatEventLog(lines, history.start));
  print(`\nTo replay: npm run simulate -- ${replayOptions(plan.small === undefined ? plan : shortest, isOfEach)}`);
}

function replayOptions(
  { seed, pages, crowd, small, jobs, days = false, forcedFaults = new Set() }: HistoryPlan,
  isOfEach: boolean,
): string {
  if (small !== undefined)
    return [`--small ${small}`, ...[...forcedFaults].map((fault) => `--fault ${quote(fault)}`)].join(' ');
  const crowdOptions = crowd === undefined ? '' : ` --exports ${crowd.exports} --limit ${crowd.maxConcurrentPages}`;
  const jobOption = jobs === undefined ? '' : jobs ? '--jobs ' : '--no-jobs ';
  return `${days ? '--days ' : ''}${jobOption}${isOfEach ? '--each ' : ''}--seed ${seed} --pages ${pages}${crowdOptions}`;
}

/** For a POSIX shell. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function formatSummary(summary: Summary): string {
  const number = (value: number) => value.toLocaleString('en');
  const faults = [...summary.faultCounts.values()].reduce((total, count) => total + count, 0);
  const byKind = [...summary.faultCounts].map(([kind, count]) => `${kind} ${number(count)}`).join(', ');
  return [
    `${number(summary.histories)} histories, ${number(summary.events)} events: ${number(summary.runsPublished)} runs, ` +
      `${number(summary.slicedRunsPublished)} of them in slices, ${number(summary.parentRunsPublished)} with parents and ${number(summary.boundedRunsPublished)} bounded, published by ${number(summary.executions)} executions and ${number(summary.invocations)} invocations, ` +
      `${number(summary.pagesStored)} pages stored, ${number(summary.reportJobs)} report jobs`,
    `${number(faults)} faults of ${summary.faultCounts.size} kinds: ${byKind}`,
  ].join('\n');
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

function showProgress(completed: number): void {
  if (process.stderr.isTTY && completed % 10 === 0) process.stderr.write(`\r${completed} histories`);
}
