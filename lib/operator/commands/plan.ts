/** `report-exporter plan`: what the next start of exports would request, and why. With `--request`, also what the service responds. */

import { systemRuntime } from '../../core/clock.ts';
import { mapConcurrently } from '../../core/concurrency.ts';
import { isExportError } from '../../core/errors.ts';
import { shellQuote, toPrintable } from '../../core/sanitize.ts';
import { parseStartInput } from '../../core/steps/start-input.ts';
import { describeLocalExport, noSettingsFile } from '../../local/directory.ts';
import type { LocalExport } from '../../local/settings.ts';
import {
  type ExportTarget,
  type Target,
  type ScheduleState,
  type StartRequest,
  type UnreadableExport,
  unreadableExport,
} from '../../target/target.ts';
import { findDone } from '../bounded-start.ts';
import {
  allExports,
  type CommandContext,
  exitStatuses,
  openExport,
  print,
  runOn,
  runOnDeployment,
  type TargetOptions,
} from '../context.ts';
import { readExports } from '../local-settings.ts';
import { countKinds, type ExportColumns, exportTable } from '../output/export-table.ts';
import { coarseDuration } from '../output/format.ts';
import { errorText, scheduleText } from '../output/status-table.ts';
import { type Cell, ellipsize, textStyleFor } from '../output/terminal.ts';
import { type Plan, planRun } from '../plan-run.ts';
import {
  nextPageNumber,
  nextPageOf,
  notesOn,
  type PlannedRequest,
  plannedRequest,
  type RequestedPage,
  requestLines,
  requestPages,
  responseLines,
  responseText,
} from '../planned-requests.ts';
import { readStartRequest, type RunOptions } from '../run-options.ts';

/** With those of `start` that decide what it would do. */
export interface PlanOptions extends TargetOptions, RunOptions {
  /** A settings file whose exports need not have run. */
  readonly settings?: string;
  readonly all?: boolean;
  /** Send the first request. */
  readonly request?: boolean;
}

const concurrency = 8;

export async function planCommand(
  names: readonly string[],
  options: PlanOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { stdout, program } = context;
  const { all = false, request = false, json = false, settings: file, out, stack } = options;
  const problems = [...usageErrors];
  const start = readStartRequest(options, problems);
  if (all && names.length > 0) problems.push('--all: plans every export; leave out the names of exports');
  const run = async (exports: readonly (ExportToPlan | UnreadableExport)[], startCommand: (name: string) => string) => {
    const isOne = !all && names.length <= 1;
    const rows = await mapConcurrently(exports, concurrency, async (each): Promise<Row> => {
      if ('error' in each) return each;
      const show = async (lines: readonly string[]) => {
        if (isOne && !json) await print(stdout, lines.map((line) => `${line}\n`).join(''));
      };
      const planned = planExport(each, start, request, startCommand(each.name), context, show);
      // One that cannot be planned does not hide the others.
      return await (isOne
        ? planned
        : planned.catch((error: unknown) => unreadableExport(each.name, each.serviceName, error)));
    });
    if (json) await print(stdout, `${JSON.stringify(isOne ? rows[0] : { exports: rows })}\n`);
    else if (!isOne) await print(stdout, `${tableOf(rows, context).join('\n')}\n`);
    return rows.some((row) => 'error' in row || row.plan.act === 'refuse') ? exitStatuses.failed : exitStatuses.ok;
  };
  if (file === undefined) {
    return await runOnDeployment(options, problems, context, async (deployment) => {
      const startCommand = (name: string) => `${program} start ${name} ${deployment.option}`;
      return await run(await openExports(deployment, names, all), startCommand);
    });
  }
  if (out !== undefined || stack !== undefined) {
    problems.push('--settings: plans what has not run yet; leave out --out and --stack');
  }
  const open = async () => {
    const exports = (await readExports({ settings: file, all }, names, [])).map((each) => newExport(each, context));
    return { exports, [Symbol.asyncDispose]: async () => {} };
  };
  return await runOn(open, options, problems, context, async ({ exports }) =>
    run(exports, (name) => `${program} local --settings ${shellQuote(file)} ${name}`),
  );
}

/** What a plan needs of an export. */
type ExportToPlan = Pick<
  ExportTarget,
  'name' | 'definition' | 'service' | 'serviceName' | 'settings' | 'store' | 'log' | 'executions' | 'readSchedule'
>;

async function openExports(deployment: Target, names: readonly string[], all: boolean) {
  if (names.length <= 1 && !all) return [await openExport(deployment, names[0])];
  await allExports(deployment);
  return all ? await deployment.openAll() : await Promise.all(names.map((name) => deployment.open(name)));
}

/** An export of a settings file that has not run. Without a state, nothing else of its log or store is read. */
function newExport(settings: LocalExport, { env }: CommandContext): ExportToPlan {
  return {
    ...describeLocalExport(settings, { env, runtime: systemRuntime }),
    log: { exportState: async () => undefined, async *boundedStates() {} } as unknown as ExportTarget['log'],
    store: { find: async () => undefined } as unknown as ExportTarget['store'],
    executions: { isRunning: async () => false, hasEnded: async () => false },
    readSchedule: async () => ({ kind: 'manual', awsSchedule: settings.export.schedule?.expression }),
  };
}

interface PlannedExport {
  readonly export: string;
  /** The settings file, in a directory; null if the settings come from elsewhere. */
  readonly settings: string | null;
  readonly schedule: ScheduleState;
  readonly plan: Plan;
  /** The first request of the run; null if it would send none. */
  readonly request: PlannedRequest | null;
  /** With `--request`: what was found, and what a person who describes an API should know. */
  readonly pages?: readonly RequestedPage[];
  readonly notes?: readonly string[];
}

/** `show` is called as soon as there is something to show: a request is shown above the error of the service. */
async function planExport(
  planned: ExportToPlan,
  start: StartRequest,
  sends: boolean,
  startCommand: string,
  { stdout, stderr, env }: CommandContext,
  show: (lines: readonly string[]) => Promise<void>,
): Promise<PlannedExport> {
  if (planned.settings?.problem !== undefined) throw planned.settings.problem;
  const { name, settings: { file = null } = {} } = planned;
  const schedule = await planned.readSchedule();
  const plan = await planStart(planned, start);
  const page = nextPageOf(plan);
  const request = page === undefined ? null : plannedRequest(planned.service, page);
  const result = { export: name, settings: file, schedule, plan, request };
  await show(planLines(name, plan, describeSchedule(schedule, startCommand)));
  if (planned.settings !== undefined) await show([`  settings ${file ?? noSettingsFile}`]);
  if (!sends || request === null) {
    await show(request === null ? [] : requestLines(request));
    return result;
  }
  const pages: RequestedPage[] = [];
  for await (const each of requestPages(planned, plan, (text) => stderr.write(`${text}\n`))) {
    await show('contentType' in each ? responseLines(each) : requestLines(each));
    if ('contentType' in each) pages.push(each);
  }
  const notes = notesOn(planned, pages);
  const mark = textStyleFor(stdout, env)('yellow', '!');
  await show([...notes.map((note) => `${mark} ${note}`), 'Nothing was stored.']);
  return { ...result, pages, notes };
}

/** As `start` decides, before it starts anything, and BeginRun then. */
async function planStart(planned: ExportToPlan, request: StartRequest): Promise<Plan> {
  try {
    const done = await findDone(planned, request, systemRuntime.now());
    if (done !== undefined) return { act: 'skip', reason: done };
    return await planRun({ ...planned, runtime: systemRuntime }, parseStartInput(request));
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError')) throw error;
    return { act: 'refuse', reason: error.message };
  }
}

function tableOf(rows: readonly Row[], { stdout, env }: CommandContext): string[] {
  const columns = stdout.columns || 80;
  const options = { now: systemRuntime.now(), style: textStyleFor(stdout, env), columns };
  return [...exportTable(rows, tableColumns, options), '', ellipsize(countKinds(rows.map(actOf), acts), columns)];
}

const acts = ['unreadable', 'refuse', 'skip', 'resume', 'start'] as const;
type Row = PlannedExport | UnreadableExport;

const actOf = (row: Row): (typeof acts)[number] => ('error' in row ? 'unreadable' : row.plan.act);
const actStyles: Readonly<Record<(typeof acts)[number], Cell['style']>> = {
  unreadable: 'red',
  refuse: 'red',
  skip: 'yellow',
  resume: 'cyan',
  start: 'green',
};
const noteOf = (row: Row): string => {
  if ('error' in row) return errorText(row.error.name, row.error.message);
  const [page] = row.pages ?? [];
  return page === undefined ? toPrintable(row.plan.reason) : [responseText(page), ...(row.notes ?? [])].join('; ');
};
const sinceOf = (row: Row) => ('plan' in row && 'since' in row.plan ? row.plan.since : undefined);
const pageOf = (row: Row) => ('plan' in row ? nextPageNumber(row.plan) : undefined);

const tableColumns: ExportColumns<Row> = {
  required: [
    { heading: 'EXPORT', cell: (row) => ({ text: row.export, style: 'bold' }) },
    { heading: 'START', cell: (row) => ({ text: actOf(row), style: actStyles[actOf(row)] }) },
  ],
  optional: [
    { heading: 'PAGE', alignRight: true, cell: (row) => ({ text: pageOf(row)?.toLocaleString('en') ?? '–' }) },
    { heading: 'SINCE', cell: (row) => ({ text: sinceOf(row) ?? '–' }) },
    { heading: 'SCHEDULE', cell: (row) => ({ text: 'error' in row ? '' : scheduleText(row.schedule) }) },
  ],
  noteOf,
};

function describeSchedule(schedule: ScheduleState, startCommand: string): string {
  if (schedule.kind === 'scheduled') return scheduleText(schedule);
  const isNone = schedule.kind === 'manual' && schedule.awsSchedule === undefined;
  return `${isNone ? 'no schedule' : scheduleText(schedule)}; to start a run: ${startCommand}`;
}

function planLines(name: string, plan: Plan, when: string): string[] {
  switch (plan.act) {
    case 'skip':
    case 'refuse': {
      const outcome = plan.act === 'skip' ? 'be skipped' : 'fail';
      return [`A start of ${name} would ${outcome}: ${plan.reason}`, `  when     ${when}`];
    }
    case 'start': {
      const abandons = plan.abandons === null ? '' : ` and abandons run ${plan.abandons}`;
      return [
        `The next start of ${name} begins a new ${plan.bounded ? 'bounded run' : 'run'}${abandons}`,
        ...(plan.bounded ? [] : [`  when     ${when}`]),
        `  since    ${plan.since}  (${plan.reason})`,
        ...cutLines(plan),
      ];
    }
    case 'resume':
      return [
        `The next start of ${name} resumes run ${plan.run}`,
        ...(plan.bounded ? [] : [`  when     ${when}`]),
        `  why      ${plan.reason}`,
        `  since    ${plan.since}`,
        ...cutLines(plan),
        `  page     ${nextPageText(plan)}`,
      ];
  }
}

function nextPageText({ page, next }: Extract<Plan, { readonly act: 'resume' }>): string {
  if (page === null) return 'none: all pages are stored, and the run only has to be published';
  return next.slice === null ? `${page}` : `${page} of slice ${next.slice}`;
}

/** Where the run ends, and its slices. */
function cutLines({ until, slices }: Extract<Plan, { readonly act: 'start' | 'resume' }>): string[] {
  const ends = until === null ? [] : [`  until    ${until}`];
  if (slices === null) return ends;
  const { done, count, lengthSeconds, parallel, first, last } = slices;
  const boundsText = ({ since, until: end }: typeof first) => `${since} to ${end ?? 'now'}`;
  return [
    ...ends,
    `  slices   ${count.toLocaleString('en')} of ${coarseDuration(lengthSeconds * 1_000)}, ${parallel} at a time${done === 0 ? '' : `; ${done} are done`}`,
    `           the first: ${boundsText(first)}`,
    `           the last:  ${boundsText(last)}`,
  ];
}
