/** `report-exporter plan`: what the next start of one export, or of each, would request, and why. It sends and changes nothing. */

import { systemRuntime } from '../../core/clock.ts';
import { instantOf } from '../../core/timestamps.ts';
import { mapConcurrently } from '../../core/concurrency.ts';
import { asCursor } from '../../core/model.ts';
import { toPrintable } from '../../core/sanitize.ts';
import { noSettingsFile } from '../../local/directory.ts';
import {
  type DeployedExport,
  type Deployment,
  type NextStart,
  type UnreadableExport,
  unreadableExport,
} from '../../target/target.ts';
import { type Plan, planRun } from '../plan-run.ts';
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
import { errorText, nextText } from '../output/status-table.ts';
import { type Cell, ellipsize, textStyleFor } from '../output/terminal.ts';
import { type PlannedRequest, plannedRequest, requestLines } from '../planned-request.ts';

export interface PlanOptions extends TargetOptions {
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
  if (all && exportName !== undefined) problems.push('--all: plans every export; leave out the name of the export');
  return await runOnDeployment(options, problems, context, async (deployment) => {
    if (all) return await planAll(deployment, json, context);
    const deployed = await openExport(deployment, exportName);
    const planned = await planExport(deployed);
    const { name } = deployed;
    const { next, plan, request, settings } = planned;
    const when = describeNextStart(next, `${context.program} start ${name} ${deployment.option}`);
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
  readonly next: NextStart;
  readonly plan: Plan;
  /** The first request of the run; null if it would send none. */
  readonly request: PlannedRequest | null;
}

async function planExport(deployed: DeployedExport): Promise<PlannedExport> {
  if (deployed.settings?.problem !== undefined) throw deployed.settings.problem;
  const next = await deployed.nextStart();
  const startInput = next.kind === 'scheduled' ? { scheduledTime: next.at } : {};
  const plan = await planRun({ ...deployed, runtime: systemRuntime }, startInput);
  const settings = deployed.settings?.file ?? null;
  return { export: deployed.name, settings, next, plan, request: firstRequest(deployed, plan) ?? null };
}

const concurrency = 8;

/** An export that cannot be planned does not hide the others. */
async function planAll(deployment: Deployment, json: boolean, { stdout, env }: CommandContext): Promise<number> {
  await allExports(deployment);
  const rows = await mapConcurrently(
    await deployment.openAll(),
    concurrency,
    async (opened): Promise<PlannedExport | UnreadableExport> => {
      if ('error' in opened) return opened;
      return await planExport(opened).catch((error: unknown) =>
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
    { heading: 'NEXT', cell: (row, now) => ({ text: 'error' in row ? '' : nextText(row.next, now) }) },
    { heading: 'PAGE', alignRight: true, cell: (row) => ({ text: pageOf(row)?.toLocaleString('en') ?? '–' }) },
    { heading: 'SINCE', cell: (row) => ({ text: sinceOf(row) ?? '–' }) },
  ],
  noteOf: reasonOf,
};

/** The first request of the planned run; undefined if it would send none. */
function firstRequest({ service }: DeployedExport, plan: Plan): PlannedRequest | undefined {
  if (plan.act === 'skip' || plan.act === 'refuse' || (plan.act === 'resume' && plan.page === null)) return undefined;
  const { since, request } = plan;
  const cursor = plan.act === 'resume' && plan.cursor !== null ? asCursor(plan.cursor) : null;
  return plannedRequest(service, { request, since, until: instantOf(systemRuntime.now()), cursor });
}

function describeNextStart(next: NextStart, startCommand: string): string {
  switch (next.kind) {
    case 'scheduled':
      return `${next.approximate ? 'about ' : ''}${next.at}  (${next.expression})`;
    case 'disabled':
      return `schedule disabled (${next.expression}); to start a run: ${startCommand}`;
    case 'manual':
      return `${next.awsSchedule === undefined ? 'no schedule' : `schedule ${next.awsSchedule} on AWS only`}; to start a run: ${startCommand}`;
  }
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
        `The next start of ${name} begins a new run${abandons}`,
        `  when     ${when}`,
        `  since    ${plan.since}  (${plan.reason})`,
      ];
    }
    case 'resume':
      return [
        `The next start of ${name} resumes run ${plan.run}`,
        `  when     ${when}`,
        `  why      ${plan.reason}`,
        `  since    ${plan.since}`,
        `  page     ${plan.page ?? 'none: all pages are stored, and the run only has to be published'}`,
      ];
  }
}
