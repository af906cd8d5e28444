/** The status of exports: a line for each, or the details of one with its newest runs. */

import type { Instant, RunFailure } from '../../core/model.ts';
import { shorten, toPrintable } from '../../core/sanitize.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import type { ScheduleState } from '../target.ts';
import {
  canResume,
  type Category,
  categories,
  categoryOf,
  type ExportView,
  needsAttention,
  needsCorrection,
  type RunState,
  type RunView,
  type ViewedJob,
  type ViewedExport,
} from '../run-view.ts';
import { bytes, coarseDuration, missingCounts, plural, sliceCounts, sliceName } from './format.ts';
import { type Column, countKinds, type TableOptions, tableLines } from './table.ts';
import { ellipsize, type Style, wrapText } from './terminal.ts';

export interface StatusTableOptions extends TableOptions {
  readonly now: number;
  /** `npx --no -- report-exporter` and `--stack ReportExporter`: for the commands that the table suggests. */
  readonly program: string;
  readonly option: string;
  /** Why the exports cannot be started, by name: then no table suggests it. */
  readonly problems?: ReadonlyMap<string, string> | undefined;
}

/** A summary and a line per export; or the details of one whose runs were read, or that cannot be read. */
export function statusLines(entries: readonly ViewedExport[], summary: string, options: StatusTableOptions): string[] {
  const [only, ...others] = entries;
  if (only === undefined) return ['No exports yet.'];
  const isDetailed = others.length === 0 && ('error' in only || only.runs !== undefined);
  if (isDetailed) return detailLines(only, options);
  const { style, program, option, columns, now } = options;
  const command = `${program} status <export> ${option}`;
  const hint = `→ for details: ${command}`;
  // A command is never cut, so that it can be copied. On a narrow terminal it has its own line, which the terminal
  // wraps.
  const hints = hint.length <= columns ? [hint] : [ellipsize('→ for details:', columns), command];
  return [
    ellipsize(summary, columns),
    '',
    ...tableLines(entries, exportColumns(entries, now), options),
    ...(entries.some(needsAttention) ? ['', ...hints.map((line) => style('dim', line))] : []),
  ];
}

/** `100 exports: 2 failed, 1 stale, 5 running, 92 completed`. Each export counts once. */
export function summarizeStatuses(entries: readonly ViewedExport[]): string {
  const text = (category: Category) => (category === 'never' ? 'never completed' : category);
  return countKinds(entries.map(categoryOf).map(text), categories.map(text));
}

const stateStyles: Readonly<Record<Category | RunState, Style>> = {
  unreadable: 'red',
  damaged: 'red',
  failed: 'red',
  interrupted: 'yellow',
  stale: 'yellow',
  running: 'cyan',
  completed: 'green',
  empty: 'green',
  never: 'dim',
};

const ago = (instant: Instant, now: number): string => `${coarseDuration(now - epochMsOf(instant))} ago`;
const number = (count: number | null): string => count?.toLocaleString('en') ?? '–';

const runColumns = (now: number): readonly Column<RunView>[] => [
  { heading: 'RUN', text: ({ run }) => run },
  { heading: 'STATE', text: ({ state }) => state, color: ({ state }) => stateStyles[state] },
  { heading: 'PAGES', alignRight: true, text: ({ pages }) => number(pages) },
  { heading: 'REPORTS', alignRight: true, text: ({ reports }) => number(reports) },
  { heading: 'BYTES', alignRight: true, optional: true, text: (run) => bytes(run.bytes) },
  { heading: 'STARTED', optional: true, text: ({ startedAt }) => ago(startedAt, now) },
  { heading: 'TOOK', optional: true, text: (run) => tookText(run, now) },
  { heading: 'PARENTS', optional: true, text: ({ slices }) => missingCounts(slices ?? {}).join(', ') },
  { heading: 'SINCE', optional: true, text: ({ since }) => since ?? '–' },
];

function tookText({ state, startedAt, completedAt }: RunView, now: number): string {
  const endedMs = completedAt === null ? (state === 'running' ? now : undefined) : epochMsOf(completedAt);
  return endedMs === undefined ? '–' : coarseDuration(endedMs - epochMsOf(startedAt));
}

/** When the newest regular run was completed; before the first one, the newest bounded run. */
function completedText({ completedAt, bounded: { newest } }: ExportView, now: number): string {
  if (completedAt !== null) return ago(completedAt, now);
  return newest === null || newest.completedAt === null ? 'never' : `${ago(newest.completedAt, now)} (bounded)`;
}

function exportColumns(entries: readonly ViewedExport[], now: number): readonly Column<ViewedExport>[] {
  const readable = (text: (view: ExportView) => string) => (entry: ViewedExport) =>
    'error' in entry ? '' : text(entry);
  const hasServices = new Set(entries.map((entry) => entry.service)).size > 1;
  return [
    { heading: 'EXPORT', text: (entry) => entry.export, color: () => 'bold' },
    { heading: 'STATE', text: categoryOf, color: (entry) => stateStyles[categoryOf(entry)] },
    { heading: 'COMPLETED', text: readable((view) => completedText(view, now)) },
    { heading: 'SERVICE', optional: true, text: (entry) => (hasServices ? (entry.service ?? '') : '') },
    { heading: 'REPORTS', optional: true, alignRight: true, text: readable(({ reports }) => number(reports)) },
    { heading: 'BYTES', optional: true, alignRight: true, text: readable((view) => bytes(view.bytes)) },
    { heading: 'PAGES', optional: true, alignRight: true, text: readable(({ pages }) => number(pages)) },
    { heading: 'SCHEDULE', optional: true, text: readable(({ schedule }) => scheduleText(schedule)) },
    { heading: 'NOTE', text: (entry) => noteOf(entry, now) },
  ];
}

/** Shows `cron(0 2 * * ? *) Europe/Berlin`. A rate has no time zone. */
export function scheduleText(schedule: ScheduleState): string {
  if (schedule.kind === 'manual')
    return schedule.awsSchedule === undefined ? '–' : `${schedule.awsSchedule} on AWS only`;
  const { kind, expression, timeZone } = schedule;
  const text = expression.startsWith('rate') ? expression : `${expression} ${timeZone}`;
  return kind === 'disabled' ? `${text} (disabled)` : text;
}

/** Why the export needs attention, or how far its run has come; and which of its bounded runs are unfinished. */
function noteOf(entry: ViewedExport, now: number): string {
  if ('error' in entry) return errorText(entry.error.name, entry.error.message);
  const { state, stale, freshnessSeconds, reportsOverdue, reportsEverySeconds, startedAt, lastFailure } = entry;
  const place = `${placeText(entry)}${startedAt === null ? '' : `, started ${ago(startedAt, now)}`}`;
  const hasFailed = state === 'failed' || state === 'interrupted';
  const bounded = Map.groupBy(entry.bounded.unfinished, (run) => run.state);
  return [
    state === 'failed' && lastFailure !== null ? errorText(lastFailure.error, lastFailure.message) : '',
    state === 'interrupted' ? `no execution is working on it: ${place}` : '',
    stale && !hasFailed ? `not completed for ${coarseDuration((freshnessSeconds ?? 0) * 1_000)}` : '',
    reportsOverdue && !hasFailed ? `no reports for ${coarseDuration((reportsEverySeconds ?? 0) * 1_000)}` : '',
    state === 'running' ? `running: ${place}` : '',
    ...[...bounded].map(([each, runs]) => `${plural(runs.length, 'bounded run')} ${each}`),
  ]
    .filter(Boolean)
    .join('; ');
}

const placeText = ({ pages, slices }: Pick<RunView, 'pages' | 'slices'>): string =>
  slices === null
    ? plural(pages, 'page')
    : [sliceCounts(slices), plural(pages, 'page'), ...missingCounts(slices)].join(', ');

/** On one line, whatever the service returned. */
const errorText = (name: string, message: string): string => toPrintable(`${name}: ${message}`);

const maxErrorLength = 300;
/** Not shortened if it says what to do before the next start. */
const shortError = ({ error, message }: Pick<RunFailure, 'error' | 'message'>): string =>
  message.includes('--restart') ? errorText(error, message) : shorten(errorText(error, message), maxErrorLength);

/** A text is wrapped between words. A command is not, so that it can be copied: its label begins with an arrow. */
type Detail = readonly [label: string, text: string, color?: Style];

const labelWidth = 13;

/** Notes about the export, its unfinished and damaged runs and its bounded runs; and a table of its runs. */
function detailLines(entry: ViewedExport, options: StatusTableOptions): string[] {
  const { style, columns, now } = options;
  const state: Detail = ['state', categoryOf(entry), stateStyles[categoryOf(entry)]];
  const details: readonly Detail[] = 'error' in entry ? [['error', noteOf(entry, now)]] : detailsOf(entry, options);
  const runs = 'error' in entry ? [] : (entry.runs ?? []);
  return [
    style('bold', entry.export),
    ...[state, ...details].flatMap(([label, text, color]) => {
      const line = `  ${label.padEnd(labelWidth)} ${color === undefined ? text : style(color, text)}`;
      return label.startsWith('→') ? [line] : wrapText(line, columns, ' '.repeat(labelWidth + 3));
    }),
    ...(runs.length === 0 ? [] : ['', ...tableLines(runs, runColumns(now), options)]),
  ];
}

function detailsOf(view: ExportView, options: StatusTableOptions): readonly Detail[] {
  const { now } = options;
  const { export: name, watermark, schedule, failedStart, runs = [], bounded } = view;
  const details: Detail[] = [
    ['completed', completedText(view, now)],
    ['watermark', watermark ?? 'none'],
    ['schedule', scheduleText(schedule) === '–' ? 'none' : scheduleText(schedule)],
    ...overdueDetails(view, now),
  ];
  if (failedStart !== null) {
    details.push(['last start', `failed ${ago(failedStart.at, now)}: ${shortError(failedStart)}`, 'red']);
  }
  if (runs.length === 0) {
    details.push(startDetail(options, name, bounded.newest === null ? 'first run' : 'regular run'));
  }
  return [
    ...details,
    ...runs.flatMap((run) => regularDetails(run, options)),
    ...bounded.unfinished.flatMap((run) => boundedDetails(run, options)),
    ...completedBoundedDetails(bounded, now),
  ];
}

const commandDetail = ({ program, option }: StatusTableOptions, label: string, words: string): Detail => [
  `→ ${label}`,
  `${program} ${words} ${option}`,
];

/** `words` select the run. */
function startDetail(options: StatusTableOptions, name: string, label: string, words = ''): Detail {
  const problem = options.problems?.get(name);
  return problem === undefined
    ? commandDetail(options, label, `start ${name}${words}`)
    : ['settings', problem, 'yellow'];
}

function overdueDetails(view: ExportView, now: number): readonly Detail[] {
  const { reportsOverdue, lastReportsAt, reportsEverySeconds } = view;
  if (!reportsOverdue) return [];
  const every = coarseDuration((reportsEverySeconds ?? 0) * 1_000);
  const without = coarseDuration(lastReportsAt === null ? 0 : now - epochMsOf(lastReportsAt));
  const text = `no completed run has had any for ${without}; expected within ${every} (expect.reportsEvery)`;
  return [['reports', text, 'yellow']];
}

/** A regular run that is damaged or unfinished, and the command for it. */
function regularDetails(run: RunView, options: StatusTableOptions): readonly Detail[] {
  if (run.state === 'completed' || run.state === 'empty') return [];
  if (run.state === 'damaged') {
    const text = `run ${run.run} was published, but its manifest is missing or was changed`;
    const command = commandDetail(options, 'to see what', `verify ${run.export} --run ${run.run}`);
    return [['damaged', text, 'red'], command];
  }
  return [...runDetails(run, options.now), ...resumeDetails(run, '', options)];
}

function boundedDetails(run: RunView, options: StatusTableOptions): readonly Detail[] {
  const { since, until, parentRun, state } = run;
  const isOfChildren = until === undefined && parentRun !== undefined;
  const words = isOfChildren ? ` --parents ${parentRun.run}` : ` --since ${since} --until ${until}`;
  return [
    ['bounded run', `${boundsText(run)}: ${state}, ${placeText(run)}`, stateStyles[state]],
    ...runDetails(run, options.now),
    ...resumeDetails(run, words, options),
  ];
}

/** There may be hundreds, so only the newest one is shown. */
function completedBoundedDetails({ completed, newest }: ExportView['bounded'], now: number): readonly Detail[] {
  if (newest === null) return [];
  const at = newest.completedAt === null ? '' : `, ${ago(newest.completedAt, now)}`;
  return [['bounded runs', `${number(completed)} completed, the last one ${boundsText(newest)}${at}`]];
}

const boundsText = ({ since, until, parentRun }: RunView): string => {
  if (until !== undefined) return `${since} to ${until}`;
  return parentRun === undefined ? 'the children of one run' : `the children of run ${parentRun.run}`;
};

/** The command that continues the run. Until what has failed is corrected, a start fails again. */
function resumeDetails(run: RunView, words: string, options: StatusTableOptions): readonly Detail[] {
  if (!canResume(run)) return [];
  const isFirst = run.lastFailure !== null && needsCorrection(run.lastFailure.error);
  return [startDetail(options, run.export, isFirst ? 'then start' : 'to resume', words)];
}

/** `waiting for report 7f3a, IN_PROGRESS for 14 min`. */
function jobText(job: ViewedJob, slices: RunView['slices'], now: number): string {
  const { slice, id, phase, createdAt, status, statusSince } = job;
  const place = slice === null ? '' : `${sliceName(slice, slices)}: `;
  const forHow = `for ${coarseDuration(now - epochMsOf(statusSince ?? createdAt))}`;
  const named = `report ${toPrintable(id ?? '')}`;
  switch (phase) {
    case 'notCreated':
      return `${place}not created yet`;
    case 'creating':
      return `${place}requested ${ago(createdAt, now)}, and its ID is not known: requested again after ten minutes`;
    case 'waiting':
      // No poll has asked for it yet.
      if (status === 'created') return `${place}waiting for ${named}, created ${ago(createdAt, now)}`;
      return `${place}waiting for ${named}, ${toPrintable(status ?? '')} ${forHow}`;
    case 'failed':
      return `${place}${named} was given up (${toPrintable(status ?? '')}): the next start polls it once more`;
    case 'done':
      return `${place}${named} is over; its result is exported`;
  }
}

/** How far an unfinished run has come, what delayed or stopped it last, and why slices are set aside. */
function runDetails(run: RunView, now: number): readonly Detail[] {
  const { state, bounded, lastPageAt, slices, parentRun, lastIncident, jobs = [] } = run;
  const details: Detail[] = [];
  if (parentRun !== undefined) details.push(['parents of', `run ${parentRun.run} of ${parentRun.export}`]);
  if (slices !== null && !bounded) {
    const counts = [`${sliceCounts(slices)} done`, ...missingCounts(slices)];
    details.push([slices.parents ? 'parents' : 'slices', counts.join(', ')]);
  }
  if (state === 'running' && lastPageAt !== null) details.push(['last page', ago(lastPageAt, now)]);
  details.push(...jobs.map((job): Detail => ['report job', jobText(job, slices, now)]));
  if (lastIncident !== null) {
    const isWait = lastIncident.kind === 'wait';
    const what = isWait ? `the service sent Retry-After: ${lastIncident.seconds} s` : shortError(lastIncident);
    details.push([isWait ? 'last wait' : 'last error', `${ago(lastIncident.at, now)}: ${what}`, 'yellow']);
  }
  for (const { slice, parent, error, message } of slices?.setAside ?? []) {
    const named = parent === undefined ? '' : `(${toPrintable(parent)}) `;
    details.push([sliceName(slice, slices), `${named}is set aside: ${errorText(error, message)}`]);
  }
  return details;
}
