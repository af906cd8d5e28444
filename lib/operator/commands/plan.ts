/** `report-exporter plan`: what the next start of one export, or of each, would request, and why. It sends and changes nothing. */

import { systemRuntime } from '../../core/clock.ts';
import { isExportError } from '../../core/errors.ts';
import { parseStartInput } from '../../core/steps/start-input.ts';
import { mapConcurrently } from '../../core/concurrency.ts';
import { asCursor } from '../../core/model.ts';
import { toPrintable } from '../../core/sanitize.ts';
import { noSettingsFile } from '../../local/directory.ts';
import {
  type DeployedExport,
  type Deployment,
  type ScheduleState,
  type StartRequest,
  type UnreadableExport,
  unreadableExport,
} from '../../target/target.ts';
import { findDone } from '../bounded-start.ts';
import { type Plan, planRun } from '../plan-run.ts';
import { readStartRequest, type RunOptions } from '../run-options.ts';
import {
  allExports,
  type CommandContext,
  exitStatuses,
  openExport,
  print,
  runOnDeployment,
  type TargetOptions,
} from '../context.ts';
import { countKinds, type ExportColumns, exportTable } from '../output/export-table.ts';
import { coarseDuration } from '../output/format.ts';
import { errorText, scheduleText } from '../output/status-table.ts';
import { type Cell, ellipsize, textStyleFor } from '../output/terminal.ts';
import { type PlannedRequest, plannedRequest, requestLines } from '../planned-request.ts';

/** With those of `start` that decide what it would do. */
export interface PlanOptions extends TargetOptions, RunOptions {
  readonly all?: boolean;
}

export async function planCommand(
  exportName: string | undefined,
  options: PlanOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { all = false, json = false } = options;
  const problems = [...usageErrors];
  const start = readStartRequest(options, problems);
  if (all && exportName !== undefined) problems.push('--all: plans every export; leave out the name of the export');
  return await runOnDeployment(options, problems, context, async (deployment) => {
    if (all) return await planAll(deployment, start, json, context);
    const deployed = await openExport(deployment, exportName);
    const planned = await planExport(deployed, start);
    const { name } = deployed;
    const { schedule, plan, request, settings } = planned;
    const when = describeSchedule(schedule, `${context.program} start ${name} ${deployment.option}`);
    const details = [
      ...(deployed.settings === undefined ? [] : [`  settings ${settings ?? noSettingsFile}`]),
      ...(request === null ? [] : requestLines(request)),
    ];
    context.stdout.write(
      json ? `${JSON.stringify(planned)}\n` : `${[...planLines(name, plan, when), ...details].join('\n')}\n`,
    );
    return plan.act === 'refuse' ? exitStatuses.failed : exitStatuses.ok;
  });
}

interface PlannedExport {
  readonly export: string;
  /** The settings file, in a directory; null if the settings come from elsewhere. */
  readonly settings: string | null;
  readonly schedule: ScheduleState;
  readonly plan: Plan;
  /** The first request of the run; null if it would send none. */
  readonly request: PlannedRequest | null;
}

async function planExport(deployed: DeployedExport, request: StartRequest): Promise<PlannedExport> {
  if (deployed.settings?.problem !== undefined) throw deployed.settings.problem;
  const schedule = await deployed.readSchedule();
  const plan = await planStart(deployed, request);
  const settings = deployed.settings?.file ?? null;
  return { export: deployed.name, settings, schedule, plan, request: firstRequest(deployed, plan) ?? null };
}

/** As `start` decides, before it starts anything, and BeginRun then. */
async function planStart(deployed: DeployedExport, request: StartRequest): Promise<Plan> {
  try {
    const done = await findDone(deployed, request, systemRuntime.now());
    if (done !== undefined) return { act: 'skip', reason: done };
    return await planRun({ ...deployed, runtime: systemRuntime }, parseStartInput(request));
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError')) throw error;
    return { act: 'refuse', reason: error.message };
  }
}

const concurrency = 8;

/** An export that cannot be planned does not hide the others. */
async function planAll(
  deployment: Deployment,
  request: StartRequest,
  json: boolean,
  { stdout, env }: CommandContext,
): Promise<number> {
  await allExports(deployment);
  const rows = await mapConcurrently(
    await deployment.openAll(),
    concurrency,
    async (opened): Promise<PlannedExport | UnreadableExport> => {
      if ('error' in opened) return opened;
      return await planExport(opened, request).catch((error: unknown) =>
        unreadableExport(opened.name, opened.serviceName, error),
      );
    },
  );
  const now = systemRuntime.now();
  const lines = () => {
    if (json) return [JSON.stringify({ exports: rows })];
    const columns = stdout.columns || 80;
    const summary = countKinds(rows.map(actOf), acts);
    return [
      ...exportTable(rows, tableColumns, { now, style: textStyleFor(stdout, env), columns }),
      '',
      ellipsize(summary, columns),
    ];
  };
  await print(stdout, `${lines().join('\n')}\n`);
  return rows.some((row) => 'error' in row || row.plan.act === 'refuse') ? exitStatuses.failed : exitStatuses.ok;
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
const reasonOf = (row: Row): string =>
  'error' in row ? errorText(row.error.name, row.error.message) : toPrintable(row.plan.reason);
const sinceOf = (row: Row) => ('plan' in row && 'since' in row.plan ? row.plan.since : undefined);
const pageOf = (row: Row) =>
  'plan' in row ? (row.plan.act === 'start' ? 1 : row.plan.act === 'resume' ? row.plan.page : undefined) : undefined;

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
  noteOf: reasonOf,
};

/** The first request of the planned run; undefined if it would send none. */
function firstRequest({ service }: DeployedExport, plan: Plan): PlannedRequest | undefined {
  if (plan.act === 'skip' || plan.act === 'refuse' || (plan.act === 'resume' && plan.page === null)) return undefined;
  const { next, begunAt, request } = plan;
  const cursor = plan.act === 'resume' && plan.cursor !== null ? asCursor(plan.cursor) : null;
  return plannedRequest(service, { request, since: next.since, until: next.until ?? undefined, begunAt, cursor });
}

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
