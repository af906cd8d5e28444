/** `report-exporter plan`: what the next start would ask the service for, and why; nothing is asked, nothing changed. */

import { systemRuntime } from '../../core/clock.ts';
import { asCursor } from '../../core/model.ts';
import type { DeployedExport, NextStart } from '../../core/operations/deployment.ts';
import { type Plan, planRun } from '../../core/operations/plan-run.ts';
import { headerNames, httpRequest } from '../../report-service/client/request.ts';
import { type CommandContext, exitStatuses, openExport, operate, type PlaceOptions } from '../context.ts';

export async function planCommand(
  exportName: string | undefined,
  options: PlaceOptions,
  problems: readonly string[],
  world: CommandContext,
): Promise<number> {
  return await operate(options, problems, world, async (installation) => {
    const installed = await openExport(installation, exportName);
    const next = await installed.nextStart();
    const deps = { ...installed, runtime: systemRuntime };
    const plan = await planRun(deps, next.kind === 'scheduled' ? { scheduledTime: next.at } : {});
    const request = requestOf(installed, plan);
    if (options.json === true) {
      world.stdout.write(`${JSON.stringify({ export: installed.name, next, plan, request: request ?? null })}\n`);
    } else {
      world.stdout.write(`${linesOf(installed.name, plan, next, request, installation.option).join('\n')}\n`);
    }
    return plan.act === 'refuse' ? exitStatuses.failed : exitStatuses.ok;
  });
}

interface PlannedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** The first request of the planned run, but for the key. */
function requestOf({ service }: DeployedExport, plan: Plan): PlannedRequest | undefined {
  if (plan.act === 'skip' || plan.act === 'refuse' || (plan.act === 'resume' && plan.page === null)) return undefined;
  const { since, request } = plan;
  const cursor = plan.act === 'resume' && plan.cursor !== null ? asCursor(plan.cursor) : null;
  const base = URL.parse(service.address) ?? new URL('http://simulator');
  const apiKey = { name: headerNames(service.vendor).apiKey, key: `(${service.keySource})` };
  const { method, path, headers, body } = httpRequest(
    base,
    { request, since, cursor, label: '' },
    service.cursorIn,
    apiKey,
  );
  return { method, url: `${base.origin}${path}`, headers, body: JSON.parse(body) };
}

function linesOf(
  name: string,
  plan: Plan,
  next: NextStart,
  request: PlannedRequest | undefined,
  option: string,
): string[] {
  const when = `  when     ${whenInWords(next, name, option)}`;
  switch (plan.act) {
    case 'skip':
      return [`A start of ${name} would do nothing: ${plan.reason}`, when];
    case 'refuse':
      return [`A start of ${name} would fail:`, `  ${plan.reason}`, when];
    case 'start':
      return [
        `The next start of ${name} begins a new run${plan.abandons === null ? '' : `, and gives up run ${plan.abandons}`}`,
        when,
        `  since    ${plan.since}  (${plan.reason})`,
        ...requestLines(request),
      ];
    case 'resume':
      return [
        `The next start of ${name} goes on with run ${plan.run}`,
        when,
        `  why      ${plan.reason}`,
        `  since    ${plan.since}`,
        plan.page === null ? '  page     none: all are stored, and the run is published' : `  page     ${plan.page}`,
        ...requestLines(request),
      ];
  }
}

function requestLines(request: PlannedRequest | undefined): string[] {
  if (request === undefined) return [];
  const headers = Object.entries(request.headers).map(([name, value]) => `           ${name}: ${value}`);
  return [`  request  ${request.method} ${request.url}`, ...headers, `           ${JSON.stringify(request.body)}`];
}

function whenInWords(next: NextStart, name: string, option: string): string {
  switch (next.kind) {
    case 'scheduled':
      return `${next.about ? 'about ' : ''}${next.at}  (${next.expression})`;
    case 'disabled':
      return `its schedule is off (${next.expression}); npx report-exporter start ${name} ${option}`;
    case 'by-hand':
      return `by hand: npx report-exporter start ${name} ${option}`;
  }
}
