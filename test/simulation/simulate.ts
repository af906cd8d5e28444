/** `npm run simulate`: runs the export in a simulated world full of faults and checks the invariants. docs/simulation.md */

import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { type HistoryPlan, runHistory } from './histories/history.ts';
import type { Crowd } from './histories/scenario.ts';
import { runHistories, type Summary } from './histories/run-histories.ts';
import { shrink } from './histories/shrink.ts';
import { smallHistories } from './histories/small-histories.ts';
import { parseSmallOptions, UsageError } from './pairs/options.ts';
import { StaleProgressError } from './pairs/progress-file.ts';
import { maxLogLines, simulateSmallHistories } from './simulate-pairs.ts';
import { formatEventLog } from './world/event-log.ts';
import { faultName, type Violation } from './world/world.ts';

const help = `Usage: npm run simulate -- [options]

Runs the real steps, state machine, AWS adapters and service client in a simulated world, injects faults, and checks the
invariants at every write. A seed determines its history: the same seed always gives the same events.

  --runs N     number of histories (1 with --seed, otherwise 100)
  --seed S     seed of the first history (default: random). Without --runs and --each: prints the event log of this history
  --pages P    size of the largest run, in pages, approximately (12)
  --exports N  number of exports of the service, all due at the same moments (by default, the seed decides: 1 to 5)
  --limit L    with --exports: how many pages are requested at the same time (maxConcurrentPages)
  --each       with --seed: runs the history without faults, then once for each fault that can occur in it
  --pairs      runs a few small histories, once for each pair of faults that can occur in them
  --slice K/N  with --pairs: only part K of N parts of all pairs
  --state FILE with --pairs: where to keep the progress (.cache/simulation/pairs.jsonl)
  --max-failures N
               with --pairs: stops after so many failing histories (20)
  --small NAME one small history: with --pairs, only its pairs; otherwise prints its event log
  --fault F    with --small: this fault occurs; no others do. With --pairs: only pairs that begin with it. Can be repeated
  --json       prints one JSON object as the last line of stdout; everything else goes to stderr
  --help       prints this help

If an invariant is violated, the history is shrunk to the pages and faults that violate it, and its event log is printed
with the command that replays it.

--pairs continues where it was interrupted, unless the code has changed since. The small histories are
${smallHistories.join(', ')}.

Exit status: 0 all invariants hold, 1 an invariant was violated, 2 invalid options, 130 interrupted.

Examples:
  npm run simulate -- --runs 1000                     1,000 new histories
  npm run simulate -- --seed 4711                     one history, with its event log
  npm run simulate -- --each --seed 4711 --pages 2    one history, once for each fault
  npm run simulate -- --runs 1 --exports 100 --limit 2 --pages 5
  npm run simulate -- --pairs                         every pair of faults; an hour
  npm run simulate -- --pairs --slice 3/200           a part of them
`;

interface Options {
  readonly seed: number;
  readonly runs: number;
  readonly pages: number;
  readonly crowd: Crowd | undefined;
  readonly each: boolean;
  /** Prints the event log of the one history. */
  readonly showLog: boolean;
  readonly json: boolean;
}

// A closed pipe, such as that of `head`, ends the output.
process.stdout.on('error', () => process.exit(0));
try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof UsageError || error instanceof StaleProgressError)) throw error;
  process.stderr.write(`Error: ${error.message}\nRun npm run simulate -- --help for the options.\n`);
  process.exitCode = 2;
}

async function main(): Promise<number> {
  const args = process.argv.slice(2);
  if (args.includes('--help') || args.includes('-h')) {
    process.stdout.write(help);
    return 0;
  }
  const small = parseSmallOptions(args);
  if (small !== undefined) return await simulateSmallHistories(small, createPrinter(small));
  const options = parseOptions(args);
  return options.showLog ? await simulateOne(options) : await simulateMany(options);
}

function parseOptions(args: readonly string[]): Options {
  const { values } = parse(args);
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
  const each = values.each === true;
  if (each && (seed === undefined || runs !== undefined)) problems.push('--each requires --seed and excludes --runs');
  if ((values.exports === undefined) !== (values.limit === undefined))
    problems.push('--exports and --limit go together');
  if (problems.length > 0) throw new UsageError(problems.join('\n'));
  return {
    seed: seed ?? randomInt(2 ** 47),
    runs: runs ?? (seed === undefined ? 100 : 1),
    pages: pages ?? 12,
    crowd: exports === undefined || limit === undefined ? undefined : { exports, maxConcurrentPages: limit },
    each,
    showLog: seed !== undefined && runs === undefined && !each,
    json: values.json === true,
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        seed: { type: 'string' },
        runs: { type: 'string' },
        pages: { type: 'string' },
        exports: { type: 'string' },
        limit: { type: 'string' },
        each: { type: 'boolean' },
        json: { type: 'boolean' },
      },
    });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

async function simulateOne(options: Options): Promise<number> {
  const plan = { seed: String(options.seed), pages: options.pages, crowd: options.crowd };
  const print = createPrinter(options);
  const history = await runHistory({ ...plan, recordLog: true });
  const { violation, stats, seed, injectedFaults } = history;
  print(formatEventLog(history.logLines, history.start));
  print(`${injectedFaults.length} faults, ${stats.runsPublished} runs published.`);
  if (violation === undefined) print('All invariants hold.');
  else await explainFailure(plan, options, print);
  if (options.json) printJson({ seed, ...stats, violations: violation ? [{ seed, ...violation }] : [] });
  return violation === undefined ? 0 : 1;
}

async function simulateMany(options: Options): Promise<number> {
  const print = createPrinter(options);
  const plans = options.each ? await oneFaultEach(options) : consecutiveSeeds(options);
  print(
    options.each
      ? `Running seed ${options.seed} without faults, then with each of its ${plans.length - 1} possible faults`
      : `Running ${plans.length} histories from seed ${options.seed}`,
  );
  const summary = await runHistories(plans, { maxFailures: 1, onProgress: createProgress(plans.length) });
  print(formatSummary(summary));
  const [failure] = summary.failures;
  if (failure === undefined) print('All invariants hold.');
  else await explainFailure(failure.plan, options, print);
  if (options.json) {
    const { faultCounts, failures, ...stats } = summary;
    const violations = failures.map(({ plan, violation }) => ({ seed: plan.seed, ...(violation as Violation) }));
    printJson({ seed: options.seed, ...stats, faults: Object.fromEntries(faultCounts), violations });
  }
  return failure === undefined ? 0 : 1;
}

function consecutiveSeeds({ seed, runs, pages, crowd }: Options): HistoryPlan[] {
  return Array.from({ length: runs }, (_, index) => ({ seed: String(seed + index), pages, crowd }));
}

/** The history without faults, and once for each fault that can occur in it. */
async function oneFaultEach({ seed, pages, crowd }: Options): Promise<HistoryPlan[]> {
  const withoutFaults = { seed: String(seed), pages, crowd, forcedFaults: new Set<string>() };
  const { candidateFaults } = await runHistory({ ...withoutFaults, recordCandidates: true });
  const names = new Set(candidateFaults.map(faultName));
  return [withoutFaults, ...[...names].map((name) => ({ ...withoutFaults, forcedFaults: new Set([name]) }))];
}

type Print = (text: string) => void;

/** Shrinks the failing history, and prints its event log and how to replay it. */
async function explainFailure(plan: HistoryPlan, { each, pages, crowd }: Options, print: Print): Promise<void> {
  const failing = await runHistory(plan);
  print(`\nFAILED at seed ${plan.seed}: ${failing.violation?.invariant}\n  ${failing.violation?.details}`);
  const { history, plan: shortest, replays } = await shrink(plan, failing);
  const faults = `${history.injectedFaults.length} of ${failing.injectedFaults.length} faults`;
  print(`\nShrunk to --pages ${shortest.pages} and ${faults} in ${replays} replays:\n`);
  const firstLine = history.logLines.length - maxLogLines;
  const lines = history.logLines.filter(({ actor }, index) => index >= firstLine || actor === 'FAULT');
  const omitted = history.logLines.length - lines.length;
  if (omitted > 0) print(`(${omitted} earlier lines omitted)`);
  print(formatEventLog(lines, history.start));
  const crowdOptions = crowd === undefined ? '' : ` --exports ${crowd.exports} --limit ${crowd.maxConcurrentPages}`;
  print(`\nTo replay: npm run simulate -- ${each ? '--each ' : ''}--seed ${plan.seed} --pages ${pages}${crowdOptions}`);
}

function formatSummary(summary: Summary): string {
  const number = (value: number) => value.toLocaleString('en');
  const faults = [...summary.faultCounts.values()].reduce((total, count) => total + count, 0);
  const byKind = [...summary.faultCounts].map(([kind, count]) => `${kind} ${number(count)}`).join(', ');
  return [
    `${number(summary.histories)} histories, ${number(summary.events)} events: ${number(summary.runsPublished)} runs, ` +
      `${number(summary.slicedRunsPublished)} of them in slices and ${number(summary.boundedRunsPublished)} bounded, published by ${number(summary.executions)} executions and ${number(summary.invocations)} invocations, ` +
      `${number(summary.pagesStored)} pages stored`,
    `${number(faults)} faults of ${summary.faultCounts.size} kinds: ${byKind}`,
  ].join('\n');
}

/** With --json, stdout is for JSON only. */
function createPrinter({ json }: { readonly json: boolean }): Print {
  return (text) => (json ? process.stderr : process.stdout).write(`${text}\n`);
}

function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

/** Shows the progress on a terminal, and clears it at the end. */
function createProgress(total: number): ((completed: number) => void) | undefined {
  if (!process.stderr.isTTY) return undefined;
  return (completed) => {
    if (completed === total) process.stderr.write('\r\x1b[K');
    else if (completed % 10 === 0) process.stderr.write(`\r${completed} of ${total} histories`);
  };
}
