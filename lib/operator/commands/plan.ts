/** `report-exporter plan`: what the next start would request, and why. It sends and changes nothing. */

import { systemRuntime } from '../../core/clock.ts';
import { asCursor } from '../../core/model.ts';
import type { DeployedExport, NextStart } from '../../target/target.ts';
import { type Plan, planRun } from '../plan-run.ts';
import { type CommandContext, exitStatuses, openExport, runOnDeployment, type TargetOptions } from '../context.ts';
import { type PlannedRequest, plannedRequest, requestLines } from '../planned-request.ts';

export async function planCommand(
  exportName: string | undefined,
  options: TargetOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  return await runOnDeployment(options, usageErrors, context, async (deployment) => {
    const deployed = await openExport(deployment, exportName);
    const next = await deployed.nextStart();
    const startInput = next.kind === 'scheduled' ? { scheduledTime: next.at } : {};
    const plan = await planRun({ ...deployed, runtime: systemRuntime }, startInput);
    const request = firstRequest(deployed, plan);
    const { name } = deployed;
    const when = describeNextStart(next, `${context.program} start ${name} ${deployment.option}`);
    const details = request === undefined ? [] : requestLines(request);
    context.stdout.write(
      options.json === true
        ? `${JSON.stringify({ export: name, next, plan, request: request ?? null })}\n`
        : `${[...planLines(name, plan, when), ...details].join('\n')}\n`,
    );
    return plan.act === 'refuse' ? exitStatuses.failed : exitStatuses.ok;
  });
}

/** The first request of the planned run; undefined if it would send none. */
function firstRequest({ service }: DeployedExport, plan: Plan): PlannedRequest | undefined {
  if (plan.act === 'skip' || plan.act === 'refuse' || (plan.act === 'resume' && plan.page === null)) return undefined;
  const { since, request } = plan;
  const cursor = plan.act === 'resume' && plan.cursor !== null ? asCursor(plan.cursor) : null;
  return plannedRequest(service, { request, since, cursor });
}

function describeNextStart(next: NextStart, startCommand: string): string {
  switch (next.kind) {
    case 'scheduled':
      return `${next.approximate ? 'about ' : ''}${next.at}  (${next.expression})`;
    case 'disabled':
      return `schedule disabled (${next.expression}); to start a run: ${startCommand}`;
    case 'manual':
      return `no schedule; to start a run: ${startCommand}`;
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
