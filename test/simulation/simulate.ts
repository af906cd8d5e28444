/** `npm run simulate`: makes histories in which everything goes wrong, and tells whether every promise was kept. */

import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { timelineOf } from './histories/event-log.ts';
import { type HistoryPlan, makeHistory } from './histories/history.ts';
import { makeHistories, type Sum } from './histories/run-histories.ts';
import { shrink } from './histories/shrink.ts';
import { strikeName } from './world/world.ts';

const help = `Usage: npm run simulate -- [options]

Runs the real steps, state machine and page log in a simulated world where everything that can go wrong does, and checks
every promise at every write. One seed is one history, the same every time.

  --runs N     how many histories (1 with --seed, else 100)
  --seed S     the first one's seed, a whole number; by itself: that one history, told line by line
  --pages P    about how many pages the largest run has (12)
  --each       with --seed: that history without its faults, then with each that might strike in it, one by one
  --json       one JSON object on the last line of stdout
  --help       this

Exit status: 0 every promise was kept, 1 one was broken, 2 wrong usage.

  npm run simulate -- --runs 1000        a thousand new histories
  npm run simulate -- --seed 4711        what happened in this one
  npm run simulate -- --each --seed 4711 --pages 2
`;

interface Options {
  readonly seed: number;
  readonly runs: number;
  readonly pages: number;
  readonly tells: boolean;
  readonly each: boolean;
  readonly json: boolean;
}

/** Of a shrunk history: what led to its end stands near it. */
const mostLinesTold = 150;

class UsageError extends Error {}

function optionsIn(args: readonly string[]): Options | undefined {
  const { values } = parsed(args);
  if (values.help === true) return undefined;
  const problems: string[] = [];
  const number = (name: 'seed' | 'runs' | 'pages', low: number, high: number): number | undefined => {
    const text = values[name];
    if (text === undefined) return undefined;
    if (/^\d+$/.test(text) && Number(text) >= low && Number(text) <= high) return Number(text);
    problems.push(`--${name}: must be a whole number from ${low} to ${high}`);
    return undefined;
  };
  const seed = number('seed', 0, Number.MAX_SAFE_INTEGER - 10_000_000);
  const runs = number('runs', 1, 10_000_000);
  const pages = number('pages', 1, 1_000);
  const each = values.each === true;
  if (each && (seed === undefined || runs !== undefined)) problems.push('--each: goes with --seed, and without --runs');
  if (problems.length > 0) throw new UsageError(problems.join('\n'));
  return {
    seed: seed ?? randomInt(2 ** 47),
    runs: runs ?? (seed === undefined ? 100 : 1),
    pages: pages ?? 12,
    tells: seed !== undefined && runs === undefined && !each,
    each,
    json: values.json === true,
  };
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        seed: { type: 'string' },
        runs: { type: 'string' },
        pages: { type: 'string' },
        each: { type: 'boolean' },
        json: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

async function main(): Promise<number> {
  const options = optionsIn(process.argv.slice(2));
  if (options === undefined) {
    process.stdout.write(help);
    return 0;
  }
  // With --json stdout is the machine's.
  const say = (text: string) => (options.json ? process.stderr : process.stdout).write(`${text}\n`);
  if (options.tells) return tellOne({ seed: String(options.seed), pages: options.pages }, options, say);

  const plans = options.each ? await oneByOne(options) : seedBySeed(options);
  say(`${plans.length} histories from seed ${options.seed}`);
  const sum = await makeHistories(plans, { enough: 1, onMade: progress(plans.length) });
  say(wordsOf(sum));
  const [broken] = sum.broken;
  if (broken !== undefined) await tellBroken(broken.plan, say);
  say(
    broken === undefined
      ? 'Every promise was kept.'
      : `Again: npm run simulate -- ${options.each ? '--each ' : ''}--seed ${broken.plan.seed} --pages ${options.pages}`,
  );
  if (options.json) {
    const { faults, broken: all, ...figures } = sum;
    const violations = all.map(({ plan, violation }) => ({ seed: plan.seed, ...violation }));
    process.stdout.write(
      `${JSON.stringify({ seed: options.seed, ...figures, faults: Object.fromEntries(faults), violations })}\n`,
    );
  }
  return broken === undefined ? 0 : 1;
}

function seedBySeed({ seed, runs, pages }: Options): HistoryPlan[] {
  return Array.from({ length: runs }, (_, index) => ({ seed: String(seed + index), pages }));
}

/** The history without a fault, and with each fault that might have struck in it, alone. */
async function oneByOne({ seed, pages }: Options): Promise<HistoryPlan[]> {
  const calm = { seed: String(seed), pages, exactly: new Set<string>() };
  const { possible } = await makeHistory({ ...calm, writeDown: true });
  const names = new Set(possible.map(strikeName));
  return [calm, ...[...names].map((name) => ({ ...calm, exactly: new Set([name]) }))];
}

async function tellOne(plan: HistoryPlan, { json }: Options, say: (text: string) => void): Promise<number> {
  const history = await makeHistory({ ...plan, writeDown: true });
  const { violation, figures, seed } = history;
  say(timelineOf(history));
  say(`${history.strikes.length} faults, ${figures.runsPublished} runs published.`);
  if (violation === undefined) say('Every promise was kept.');
  else await tellBroken(plan, say);
  if (json)
    process.stdout.write(
      `${JSON.stringify({ seed, ...figures, violations: violation ? [{ seed, ...violation }] : [] })}\n`,
    );
  return violation === undefined ? 0 : 1;
}

async function tellBroken(plan: HistoryPlan, say: (text: string) => void): Promise<void> {
  const broken = await makeHistory(plan);
  say(`\nBROKEN, seed ${plan.seed}: ${broken.violation?.invariant}\n  ${broken.violation?.what}`);
  const { history, plan: shortest, replays } = await shrink(plan, broken);
  say(
    `\nShrunk in ${replays} replays to ${shortest.pages} pages and ${history.strikes.length} of ${broken.strikes.length} faults:\n`,
  );
  const tail = history.lines.length - mostLinesTold;
  const lines = history.lines.filter(({ who }, index) => index >= tail || who === 'FAULT');
  if (lines.length < history.lines.length)
    say(`(${history.lines.length - lines.length} lines without a fault left out)`);
  say(timelineOf({ ...history, lines }));
}

function wordsOf(sum: Sum): string {
  const number = (value: number) => value.toLocaleString('en-GB');
  const faults = [...sum.faults.values()].reduce((total, count) => total + count, 0);
  return [
    `${number(sum.histories)} histories, ${number(sum.events)} events: ${number(sum.runsPublished)} runs published by ` +
      `${number(sum.executions)} executions and ${number(sum.invocations)} invocations, ${number(sum.pagesStored)} pages stored`,
    `${number(faults)} faults of ${sum.faults.size} kinds: ${[...sum.faults].map(([kind, count]) => `${kind} ${number(count)}`).join(', ')}`,
  ].join('\n');
}

function progress(runs: number): ((made: number) => void) | undefined {
  if (!process.stderr.isTTY) return undefined;
  return (made) => {
    if (made % 10 === 0 || made === runs)
      process.stderr.write(made === runs ? '\r\x1b[K' : `\r${made} of ${runs} histories`);
  };
}

// Whoever reads no further has seen enough.
process.stdout.on('error', () => process.exit(0));
try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  process.stderr.write(`${error.message}\nSee npm run simulate -- --help\n`);
  process.exitCode = 2;
}
