/** `npm run simulate -- --pairs`, and the replay of one pair. docs/simulation.md */

import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { type HistoryPlan, runHistory } from './histories/history.ts';
import { shrink } from './histories/shrink.ts';
import { type SmallHistory, smallHistories } from './histories/small-histories.ts';
import { everything, type Failure, planOf, type Slice } from './pairs/pairs.ts';
import { digestOfCode, openProgressFile } from './pairs/progress-file.ts';
import { type PairProgress, runAllPairs } from './pairs/run-all-pairs.ts';
import { type SmallOptions, UsageError } from './pairs/options.ts';
import { formatEventLog } from './world/event-log.ts';
import { faultName } from './world/world.ts';

type Print = (text: string) => void;

/** The cause of a violation is near the end of a shrunk history. */
export const maxLogLines = 150;

/** Of each invariant, the first failure is explained, for at most so many invariants. */
const maxExplained = 3;
const defaultMaxFailures = 20;

/** Returns the exit status. @throws StaleProgressError */
export async function simulateSmallHistories(options: SmallOptions, print: Print): Promise<number> {
  const { pairs, small } = options;
  return pairs || small === undefined
    ? await simulatePairs(options, print)
    : await simulateSmall({ ...options, small }, print);
}

async function simulatePairs(options: SmallOptions, print: Print): Promise<number> {
  const { small, faults, slice = everything, json, maxFailures = defaultMaxFailures } = options;
  const histories = small === undefined ? smallHistories : [small];
  const path = options.state ?? defaultStatePath(options);
  const header = { digest: digestOfCode(), slice: formatSlice(slice), histories, faults };
  const progress = openProgressFile(path, header);
  const command = pairsCommand(options);
  print(`Running all pairs of faults of ${histories.join(', ')}`);
  if (slice.parts > 1) print(`Only slice ${header.slice}. To repeat it: ${command}`);
  if (progress.counted.size > 0) print(`Continuing what ${path} has recorded`);

  const interruption = new AbortController();
  let signalNumber = 0;
  const onSignal = (number: number) => () => {
    signalNumber = number;
    interruption.abort();
  };
  const [onInt, onTerm] = [onSignal(2), onSignal(15)];
  process.on('SIGINT', onInt).on('SIGTERM', onTerm);
  const startedAt = performance.now();
  const onProgress = createProgressLine(progress);
  let result: PairProgress;
  try {
    result = await runAllPairs({
      histories,
      faults,
      slice,
      progress,
      maxFailures,
      signal: interruption.signal,
      onProgress,
    });
  } finally {
    process.off('SIGINT', onInt).off('SIGTERM', onTerm);
    onProgress?.end();
  }
  const isComplete = !interruption.signal.aborted && result.failures.length < maxFailures;
  const seconds = (performance.now() - startedAt) / 1_000;
  print(formatResult(result, seconds));
  if (interruption.signal.aborted) print(`Interrupted. To continue: ${command}`);
  else if (result.failures.length === 0) print('All invariants hold.');
  else {
    await explainFailures(result.failures, print);
    if (!isComplete) print(`\nStopped at ${result.failures.length} failures. --max-failures N sets another limit.`);
  }
  if (isComplete) progress.remove();
  if (json) {
    const { failures, ...counts } = result;
    const violations = failures.map(({ history, faults, violation }) => ({ history, faults, ...violation }));
    printJson({ slice: header.slice, ...counts, isComplete, violations });
  }
  if (interruption.signal.aborted) return 128 + signalNumber;
  return result.failures.length === 0 ? 0 : 1;
}

/** One small history with exactly these faults, with its event log. Returns the exit status. */
async function simulateSmall(
  { small, faults, json }: { readonly small: SmallHistory; readonly faults: readonly string[]; readonly json: boolean },
  print: Print,
): Promise<number> {
  const history = await runHistory({ ...planOf(small, faults), recordLog: true });
  const { violation, stats, injectedFaults, logLines, start } = history;
  print(formatEventLog(logLines, start));
  const occurred = new Set(injectedFaults.map(faultName));
  print(`${occurred.size} of ${faults.length} faults occurred, ${stats.runsPublished} runs published.`);
  const missing = faults.find((fault) => !occurred.has(fault));
  if (violation === undefined && missing !== undefined) {
    throw new UsageError(
      `${missing} did not occur in ${small}. Another version of the code may name the site differently`,
    );
  }
  print(violation === undefined ? 'All invariants hold.' : `FAILED: ${violation.invariant}\n  ${violation.details}`);
  if (json) printJson({ history: small, faults, ...stats, violations: violation ? [violation] : [] });
  return violation === undefined ? 0 : 1;
}

const formatSlice = ({ part, parts }: Slice): string => `${part}/${parts}`;

function defaultStatePath({ small, faults, slice }: SmallOptions): string {
  const name = [
    'pairs',
    ...(small === undefined ? [] : [small]),
    ...(faults.length === 0 ? [] : [createHash('sha256').update(faults.join('\n')).digest('hex').slice(0, 8)]),
    ...(slice === undefined ? [] : [`${slice.part}-of-${slice.parts}`]),
  ];
  return join('.cache', 'simulation', `${name.join('-')}.jsonl`);
}

function pairsCommand({ small, faults, slice, state, maxFailures }: SmallOptions): string {
  const options = [
    ...(small === undefined ? [] : ['--small', small]),
    ...faults.map((fault) => `--fault ${quote(fault)}`),
    ...(slice === undefined ? [] : ['--slice', formatSlice(slice)]),
    ...(state === undefined ? [] : ['--state', quote(state)]),
    ...(maxFailures === undefined ? [] : ['--max-failures', String(maxFailures)]),
  ];
  return ['npm run simulate -- --pairs', ...options].join(' ');
}

const replayCommand = (history: SmallHistory, faults: readonly string[]): string =>
  [`npm run simulate -- --small ${history}`, ...faults.map((fault) => `--fault ${quote(fault)}`)].join(' ');

/** For a POSIX shell. */
const quote = (text: string): string => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function formatResult({ firstFaults, counted, pairs, done, failures }: PairProgress, seconds: number): string {
  const number = (value: number) => value.toLocaleString('en');
  const firsts = `${number(firstFaults)} first ${firstFaults === 1 ? 'fault' : 'faults'}`;
  const known = counted < firstFaults ? ` (${number(counted)} of them counted)` : '';
  const failed = failures.length === 0 ? '' : `, ${failures.length} failed`;
  return `${firsts}${known}, ${number(done)} of ${number(pairs)} pairs done${failed}, in ${formatDuration(seconds)}`;
}

async function explainFailures(failures: readonly Failure[], print: Print): Promise<void> {
  const firstOfEach = new Map(failures.toReversed().map((failure) => [failure.violation.invariant, failure]));
  for (const failure of [...firstOfEach.values()].reverse().slice(0, maxExplained)) await explain(failure, print);
  print(`\n${failures.length} failing histories:\n`);
  for (const { history, faults, violation } of failures) {
    print(`${violation.invariant}: ${violation.details}\n  ${replayCommand(history, faults)}`);
  }
}

/** Shrinks the failing history, and prints its event log and how to replay it. */
async function explain({ history: small, faults }: Failure, print: Print): Promise<void> {
  const plan: HistoryPlan = planOf(small, faults);
  const failing = await runHistory(plan);
  print(`\nFAILED in ${small}: ${failing.violation?.invariant}\n  ${failing.violation?.details}`);
  const { history, plan: shortest } = await shrink(plan, failing);
  const remaining = [...(shortest.forcedFaults ?? [])];
  print(`\nIt takes ${remaining.length} of ${faults.length} faults:\n`);
  const firstLine = history.logLines.length - maxLogLines;
  const lines = history.logLines.filter(({ actor }, index) => index >= firstLine || actor === 'FAULT');
  const omitted = history.logLines.length - lines.length;
  if (omitted > 0) print(`(${omitted} earlier lines omitted)`);
  print(formatEventLog(lines, history.start));
  print(`\nTo replay: ${replayCommand(small, remaining)}`);
}

function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

/** Shows the progress on a terminal: pairs done of all, pairs per second, and the time left. */
function createProgressLine(progress: { readonly done: ReadonlyMap<string, { readonly pairs: number }> }) {
  if (!process.stderr.isTTY) return undefined;
  const startedAt = performance.now();
  const doneBefore = [...progress.done.values()].reduce((total, { pairs }) => total + pairs, 0);
  const show = ({ firstFaults, counted, pairs, done, failures }: PairProgress) => {
    const failed = failures.length === 0 ? '' : `, ${failures.length} failed`;
    let text = `${counted} of ${firstFaults} first faults${failed}`;
    if (counted === firstFaults && done > doneBefore) {
      const perSecond = ((done - doneBefore) / (performance.now() - startedAt)) * 1_000;
      const left = formatDuration((pairs - done) / perSecond);
      text = `${done} of ${pairs} pairs${failed}, ${Math.round(perSecond)} per second, ${left} left`;
    }
    process.stderr.write(`\r\x1b[K${text}`);
  };
  return Object.assign(show, { end: () => void process.stderr.write('\r\x1b[K') });
}

function formatDuration(seconds: number): string {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
