/** `report-exporter plan`: what the next start of exports would request, and why. With `--request`, also what the service responds. */

import { systemRuntime } from '../../core/clock.ts';
import { mapConcurrently } from '../../core/concurrency.ts';
import type { PageRequest } from '../../core/ports.ts';
import { shellQuote } from '../../core/sanitize.ts';
import { describeLocalExport, noSettingsFile } from '../../local/directory.ts';
import type { LocalExport } from '../../local/settings.ts';
import {
  type ExportTarget,
  type ScheduleState,
  type StartRequest,
  type UnreadableExport,
  unreadableExport,
} from '../../target/target.ts';
import {
  type CommandContext,
  exitStatuses,
  print,
  runOn,
  runOnDeployment,
  selectExports,
  type TargetOptions,
  unreadableLines,
} from '../context.ts';
import { readExports } from '../local-settings.ts';
import { countKinds } from '../output/export-table.ts';
import { coarseDuration } from '../output/format.ts';
import { scheduleText } from '../output/status-table.ts';
import { type TextStyle, textStyleFor } from '../output/terminal.ts';
import { type Plan, planRun } from '../plan-run.ts';
import {
  notesOn,
  type PlannedRequest,
  plannedRequest,
  type RequestedPage,
  requestLines,
  requestPages,
  responseLines,
} from '../planned-requests.ts';
import { readStartRequest, type RunOptions } from '../run-options.ts';

/** With those of `start` that decide what it would do. */
export interface PlanOptions extends TargetOptions, RunOptions {
  /** A settings file whose exports need not have run. */
  readonly settings?: string;
  readonly all?: boolean;
  /** Send the next request. */
  readonly request?: boolean;
}

const concurrency = 8;

export async function planCommand(
  names: readonly string[],
  options: PlanOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { stdout, stderr, env, program } = context;
  const { all = false, request: sends = false, json = false, settings: file, out, stack } = options;
  const problems = [...usageErrors];
  const start = readStartRequest(options, problems);
  if (all && names.length > 0) problems.push('--all: plans every export; leave out the names of exports');
  const run = async (exports: readonly (ExportToPlan | UnreadableExport)[], startCommand: (name: string) => string) => {
    const isOne = !all && names.length <= 1;
    const notify = (text: string) => stderr.write(`${text}\n`);
    const style = textStyleFor(stdout, env);
    const planned = await mapConcurrently(exports, concurrency, async (each) => {
      if ('error' in each) return { row: each, lines: unreadableLines(each, style) };
      const lines: string[] = [];
      const given = { start, sends, startCommand: startCommand(each.name), notify, style };
      try {
        return { row: await planExport(each, given, lines), lines };
      } catch (error) {
        // The request that was sent is shown above the error of the service.
        if (isOne && !json) await print(stdout, linesText(lines));
        if (isOne) throw error;
        // One that cannot be planned does not hide the others.
        const row = unreadableExport(each.name, each.serviceName, error);
        return { row, lines: [...lines, ...unreadableLines(row, style)] };
      }
    });
    const rows = planned.map(({ row }) => row);
    if (json) await print(stdout, `${JSON.stringify(isOne ? rows[0] : { exports: rows })}\n`);
    else await print(stdout, linesText(planned.flatMap(({ lines }) => lines)));
    const found = rows.map((row) => ('error' in row ? 'unreadable' : row.plan.act));
    if (!isOne && !json) await print(stdout, `${countKinds(found, acts)}\n`);
    return found.some((act) => act === 'unreadable' || act === 'refuse') ? exitStatuses.failed : exitStatuses.ok;
  };
  if (file === undefined) {
    return await runOnDeployment(options, problems, context, async (deployment) => {
      const startCommand = (name: string) => `${program} start ${name} ${deployment.option}`;
      const selected = await selectExports(deployment, names, all);
      const exports = all
        ? await deployment.openAll()
        : await Promise.all(selected.map((name) => deployment.open(name)));
      return await run(exports, startCommand);
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

const acts = ['unreadable', 'refuse', 'skip', 'resume', 'start'] as const;

const linesText = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join('');

/** What a plan needs of an export. */
type ExportToPlan = Pick<
  ExportTarget,
  'name' | 'definition' | 'service' | 'serviceName' | 'settings' | 'store' | 'log' | 'executions' | 'readSchedule'
>;

/** An export of a settings file that has not run. Without a state, nothing else of its log or store is read. */
function newExport(settings: LocalExport, { env }: CommandContext): ExportToPlan {
  return {
    ...describeLocalExport(settings, { env, runtime: systemRuntime }),
    log: { exportState: async () => undefined, async *boundedStates() {} } as unknown as ExportTarget['log'],
    store: { find: async () => undefined } as unknown as ExportTarget['store'],
    executions: { status: async () => 'unknown' },
    readSchedule: async () => ({ kind: 'manual', awsSchedule: settings.export.schedule?.expression }),
  };
}

/** The object of `--json`. */
interface PlannedExport {
  readonly export: string;
  /** The settings file, in a directory; null if the settings come from elsewhere. */
  readonly settings: string | null;
  readonly schedule: ScheduleState;
  readonly plan: { readonly act: Plan['act']; readonly reason: string };
  /** The first request of the run; null if it would send none. */
  readonly request: PlannedRequest | null;
  /** With `--request`: what was found, and what a person who describes an API should know. */
  readonly pages?: readonly RequestedPage[];
  readonly notes?: readonly string[];
}

/** Adds what a person reads to `lines`, also if it fails later. */
async function planExport(
  planned: ExportToPlan,
  given: {
    readonly start: StartRequest;
    readonly sends: boolean;
    readonly startCommand: string;
    readonly notify: (text: string) => void;
    readonly style: TextStyle;
  },
  lines: string[],
): Promise<PlannedExport> {
  if (planned.settings?.problem !== undefined) throw planned.settings.problem;
  const { name, settings: { file = null } = {} } = planned;
  const schedule = await planned.readSchedule();
  const plan = await planRun({ ...planned, runtime: systemRuntime }, given.start);
  lines.push(...planLines(name, plan, describeSchedule(schedule, given.startCommand)));
  if (planned.settings !== undefined) lines.push(`  settings ${file ?? noSettingsFile}`);
  const page = nextRequest(plan);
  const request = page === undefined ? null : plannedRequest(planned.service, page);
  const result = { export: name, settings: file, schedule, plan: planJson(plan), request };
  if (page === undefined || !given.sends) {
    lines.push(...(request === null ? [] : requestLines(request)));
    return result;
  }
  const pages: RequestedPage[] = [];
  const onRequest = (sent: PlannedRequest) => lines.push(...requestLines(sent));
  for await (const found of requestPages(planned, page, { notify: given.notify, onRequest })) {
    lines.push(...responseLines(found));
    pages.push(found);
  }
  const notes = notesOn(planned, pages);
  lines.push(...notes.map((note) => `${given.style('yellow', '!')} ${note}`), 'Nothing was stored.');
  return { ...result, pages, notes };
}

function nextRequest(plan: Plan): PageRequest | undefined {
  if (!('run' in plan) || plan.next === null) return undefined;
  const { run, next } = plan;
  const { since, until } = next.slice;
  return {
    request: run.request,
    since,
    until,
    begunAt: run.startedAt,
    cursor: next.cursor,
    label: `page ${next.page}`,
  };
}

function planJson(plan: Plan) {
  if (!('run' in plan)) return plan;
  const { act, reason, run, abandons, next } = plan;
  const { since, until = null, bounded = false, slices } = run;
  return {
    act,
    reason,
    run: act === 'resume' ? run.run : null,
    abandons,
    since,
    until,
    bounded,
    slices:
      slices === undefined
        ? null
        : { ...plan.slices, lengthSeconds: slices.lengthMs / 1_000, parallel: slices.parallel },
    slice: next?.slice.slice ?? null,
    page: next?.page ?? null,
    cursor: next?.cursor ?? null,
  };
}

function describeSchedule(schedule: ScheduleState, startCommand: string): string {
  if (schedule.kind === 'scheduled') return scheduleText(schedule);
  const isNone = schedule.kind === 'manual' && schedule.awsSchedule === undefined;
  return `${isNone ? 'no schedule' : scheduleText(schedule)}; to start a run: ${startCommand}`;
}

function planLines(name: string, plan: Plan, when: string): string[] {
  if (!('run' in plan)) {
    const outcome = plan.act === 'skip' ? 'be skipped' : 'fail';
    return [`A start of ${name} would ${outcome}: ${plan.reason}`, `  when     ${when}`];
  }
  const { act, reason, run, abandons, next } = plan;
  const { since, until, bounded, slices } = run;
  const what = bounded ? 'bounded run' : 'run';
  const abandoned = abandons === null ? '' : ` and abandons run ${abandons}`;
  const place = next === null ? 'none: all pages are stored, and the run only has to be published' : `${next.page}`;
  const ofSlice = next?.slice.slice === undefined ? '' : ` of slice ${next.slice.slice}`;
  return [
    `The next start of ${name} ${act === 'start' ? `begins a new ${what}${abandoned}` : `resumes run ${run.run}`}`,
    ...(bounded ? [] : [`  when     ${when}`]),
    `  why      ${reason}`,
    `  since    ${since}`,
    ...(until === undefined ? [] : [`  until    ${until}`]),
    ...(slices === undefined ? [] : [`  slices   ${slicesText(slices, plan.slices.done)}`]),
    ...(act === 'start' ? [] : [`  page     ${place}${ofSlice}`]),
  ];
}

type Slices = NonNullable<Extract<Plan, { readonly run: object }>['run']['slices']>;

function slicesText({ count, lengthMs, parallel }: Slices, done: number): string {
  const isDone = done === 0 ? '' : `; ${done} are done`;
  return `${count.toLocaleString('en')} of ${coarseDuration(lengthMs)}, ${parallel} at a time${isDone}`;
}
