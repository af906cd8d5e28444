/** `report-exporter plan`: the next requests of exports, and why; with `--request`, also the responses. */

import type { Runtime } from '../../core/ports.ts';
import { toPrintable } from '../../core/sanitize.ts';
import type { ExportTarget, ScheduleState } from '../target.ts';
import type { RequestedStart } from '../bounded-start.ts';
import { type Call, exitStatuses, openExport, print, runOnTarget } from '../context.ts';
import { coarseDuration } from '../output/format.ts';
import { scheduleText } from '../output/status-table.ts';
import { type TextStyle, textStyleFor } from '../output/terminal.ts';
import { type Plan, planRun } from '../plan-run.ts';
import { findJob, planJob } from '../plan/job.ts';
import { notesOn } from '../plan/notes.ts';
import {
  type PlannedRequest,
  plannedRequest,
  type Requested,
  requestLines,
  requestPages,
  responseLines,
  walkLine,
} from '../plan/requests.ts';
import { readStartRequest } from '../run-options.ts';

export async function planCommand(call: Call): Promise<number> {
  const { names, options, problems, stdout, stderr, env, runtime, program } = call;
  const { json = false } = options;
  const start = readStartRequest(options, runtime.now(), problems);
  const style = textStyleFor(stdout, env);
  const notify = (text: string) => stderr.write(`${text}\n`);
  return await runOnTarget(call, async (target) => {
    const opened = await openExport(target, names[0]);
    const row: Row = { export: opened.name };
    const show = async () => {
      const command = `${program} start ${row.export} ${target.option}`;
      const lines = row.plan === undefined ? [] : planLines(row, row.plan, command, style);
      if (!json) await print(stdout, lines.map((line) => `${line}\n`).join(''));
    };
    try {
      await planExport(opened, row, { start, notify, runtime, options });
    } finally {
      // The request that was sent is shown above the error of the service.
      await show();
    }
    if (json) await print(stdout, `${JSON.stringify(row)}\n`);
    return row.plan?.act === 'refuse' ? exitStatuses.failed : exitStatuses.ok;
  });
}

/** The object of `--json`, as far as it is known. */
interface Row extends Requested {
  readonly export: string;
  /** The settings file; null if the settings come from elsewhere. */
  settings?: string | null;
  schedule?: ScheduleState;
  /** Only if two passes prove the pages. */
  proof?: 'twice';
  plan?: Plan;
  /** The first request of the run; null if it would send none. */
  request?: PlannedRequest | null;
  notes?: readonly string[];
}

interface PlanOptions extends Pick<Call, 'options'> {
  readonly start: RequestedStart;
  readonly notify: (text: string) => void;
  readonly runtime: Runtime;
}

/** Adds to `row` what becomes known: an error does not hide what was known before. */
async function planExport(
  target: ExportTarget,
  row: Row,
  { start, notify, runtime, options }: PlanOptions,
): Promise<void> {
  const { definition, service, settings } = target;
  if (settings?.problem !== undefined) throw settings.problem;
  const schedule = await target.readSchedule();
  if (definition.provedBy !== undefined) row.proof = 'twice';
  const { walk, ...plan } = { walk: undefined, ...(await planRun({ ...target, runtime }, start)) };
  Object.assign(row, { settings: settings?.file ?? null, schedule, plan, request: null });
  if (walk === undefined) return;
  const { first } = walk;
  const known = await findJob(target, 'run' in plan ? plan.run : null, first.slice ?? 1);
  row.request = plannedRequest(service, { ...first, job: known.id }, known.isWaiting);
  if (options.request !== true && options.toEnd !== true) return;
  const requesting = { notify, runtime, toEnd: options.toEnd === true };
  if (definition.job === undefined) {
    row.notes = notesOn(target, row, await requestPages(target, walk, row, requesting));
    return;
  }
  const job = await planJob(target, first, known, { mayCreate: options.createJob === true, ...requesting });
  row.notes = job.notes;
  if (job.id === undefined) return;
  // A proof of bounds, or the pages of another chain, would need further jobs.
  const result = { first: { ...first, job: job.id }, further: undefined, begun: undefined };
  row.notes = [...job.notes, ...notesOn(target, row, await requestPages(target, result, row, requesting))];
}

function planLines(row: Row, plan: Plan, startCommand: string, style: TextStyle): readonly string[] {
  const { export: name, settings = null, schedule } = row;
  const when = describeSchedule(schedule, startCommand);
  if (!('run' in plan)) {
    const outcome = plan.act === 'skip' ? 'be skipped' : 'fail';
    return [`A start of ${name} would ${outcome}: ${plan.reason}`, ...detailLines({ when, settings })];
  }
  const { act, reason, bounded, since, until, parents, slices } = plan;
  const details = {
    when: bounded ? null : when,
    why: reason,
    since,
    until,
    parents: parents && parentsText(plan, parents),
    slices: slices && slicesText(slices),
    page: act === 'start' ? null : nextPageText(plan),
    proof: row.proof ? 'each page is requested at least twice: two passes in a row must have the same reports' : null,
    settings,
  };
  return [`The next start of ${name} ${outcomeText(plan)}`, ...detailLines(details), ...sentLines(row, style)];
}

type PlannedRun = Extract<Plan, { readonly run: unknown }>;

function outcomeText({ run, bounded, abandons }: PlannedRun): string {
  if (run !== null) return `resumes run ${run}`;
  return `begins a new ${bounded ? 'bounded ' : ''}run${abandons === null ? '' : ` and abandons run ${abandons}`}`;
}

/** `open, closed`; of reports of another export `40 in run 20261120T020000Z-1f3a5cb2d407 of repos: a, b, c, …`. */
function parentsText({ parentRun, slices }: PlannedRun, first: readonly string[]): string {
  const count = slices?.count ?? 0;
  const shown = [...first, ...(count > first.length ? ['…'] : [])].join(', ');
  if (parentRun === null) return shown;
  return `${count.toLocaleString('en')} in run ${parentRun.run} of ${parentRun.export}${count === 0 ? '' : `: ${toPrintable(shown)}`}`;
}

function nextPageText({ page, slice, parents }: PlannedRun): string {
  const next = page === null ? 'none: all pages are stored, and the run only has to be published' : `${page}`;
  return `${next}${slice === null ? '' : ` of ${parents === null ? 'slice' : 'parent'} ${slice}`}`;
}

/** The requests that were sent with their responses; or the one that a start would send. */
function sentLines({ request, pages = [], unanswered, end, walk, notes }: Row, style: TextStyle): readonly string[] {
  const planned = pages.length === 0 && unanswered === undefined ? request : undefined;
  return [
    ...(planned ? requestLines(planned) : []),
    ...pages.flatMap((found) => [...requestLines(found.request), ...responseLines(found)]),
    ...(unanswered === undefined ? [] : requestLines(unanswered)),
    ...(end === undefined
      ? []
      : [...requestLines(end.request), `  response ${end.status}: the page before was the last one`]),
    ...(walk?.last === undefined ? [] : [walkLine(walk, walk.last, end)]),
    ...(notes === undefined ? [] : [...notes.map((note) => `${style('yellow', '!')} ${note}`), 'Nothing was stored.']),
  ];
}

const detailLines = (details: Readonly<Record<string, string | null>>): readonly string[] =>
  Object.entries(details).flatMap(([name, text]) => (text === null ? [] : [`  ${name.padEnd(8)} ${text}`]));

function describeSchedule(schedule: ScheduleState = { kind: 'manual' }, startCommand: string): string {
  if (schedule.kind === 'scheduled') return scheduleText(schedule);
  const isNone = schedule.kind === 'manual' && schedule.awsSchedule === undefined;
  return `${isNone ? 'no schedule' : scheduleText(schedule)}; to start a run: ${startCommand}`;
}

function slicesText({ done, count, lengthSeconds, parallel }: NonNullable<PlannedRun['slices']>): string {
  const isDone = done === 0 ? '' : `; ${done} are done`;
  const each = lengthSeconds === null ? ', one for each parent' : ` of ${coarseDuration(lengthSeconds * 1_000)}`;
  return `${count.toLocaleString('en')}${each}, ${parallel} at a time${isDone}`;
}
