/** `report-exporter status`: where exports stand and how their recent runs went, at a glance, or for a program. */

import { systemRuntime } from '../../core/clock.ts';
import type { Deployment } from '../../core/operations/deployment.ts';
import { type ExportStatus, readExportStatus } from '../../core/operations/run-status.ts';
import { BrokenPipe, type CommandContext, exitStatuses, operate, type PlaceOptions, print } from '../context.ts';
import { statusLines, statusValues } from '../output/status-table.ts';
import { paintFor } from '../output/terminal.ts';

export interface StatusOptions extends PlaceOptions {
  readonly watch?: boolean;
  readonly runs: string;
}

/** An export that could not be looked at, and why. */
interface UnreadableExport {
  readonly export: string;
  readonly error: { readonly name: string; readonly message: string };
}

export type ExportStatusJson = ExportStatus | UnreadableExport;

/** Milliseconds between two looks: a look at AWS costs requests, one at a disk next to nothing. */
const paces = { directory: 1_000, stack: 5_000 };

export async function statusCommand(
  exportName: string | undefined,
  options: StatusOptions,
  problems: readonly string[],
  world: CommandContext,
): Promise<number> {
  const most = Number(options.runs);
  const found = [...problems];
  if (!Number.isInteger(most) || most < 1 || most > 1_000) found.push('--runs: must be a whole number from 1 to 1000');
  return await operate(
    options,
    found,
    world,
    async (installation) => {
      const look = async () => await statusOf(installation, exportName, most);
      const status = await show(await look(), options, installation, world, '');
      if (options.watch !== true) return status;
      const pace = options.stack === undefined ? paces.directory : paces.stack;
      const clear = world.stdout.isTTY === true && options.json !== true ? '\x1b[H\x1b[2J' : '';
      for (;;) {
        await systemRuntime.sleep(pace, world.signal).catch(() => {});
        if (world.signal.aborted) return exitStatuses.ok;
        try {
          await show(await look(), options, installation, world, clear);
        } catch (error) {
          if (error instanceof BrokenPipe) throw error;
          // It could be looked at a moment ago: the next look may well succeed.
          const { name, message } = error instanceof Error ? error : new Error(String(error));
          world.stderr.write(`${name}: ${message}\n`);
        }
      }
    },
    { endsItself: options.watch === true },
  );
}

async function statusOf(
  installation: Deployment,
  exportName: string | undefined,
  most: number,
): Promise<ExportStatusJson[]> {
  const names = exportName === undefined ? await installation.exportNames() : [exportName];
  const statuses: ExportStatusJson[] = [];
  for (const name of names) {
    try {
      statuses.push(await readExportStatus(await installation.open(name), most));
    } catch (error) {
      // One whose state was damaged must not hide the others.
      if (exportName !== undefined) throw error;
      const { name: errorName, message } = error instanceof Error ? error : new Error(String(error));
      statuses.push({ export: name, error: { name: errorName, message } });
    }
  }
  return statuses;
}

async function show(
  statuses: readonly ExportStatusJson[],
  { json }: StatusOptions,
  { option }: Deployment,
  { stdout, env }: CommandContext,
  before: string,
): Promise<number> {
  const now = systemRuntime.now();
  const lines =
    json === true
      ? [JSON.stringify({ at: new Date(now).toISOString(), exports: statuses })]
      : stdout.isTTY === true
        ? statusLines(statuses, { now, paint: paintFor(stdout, env), option })
        : statusValues(statuses, now);
  await print(stdout, `${before}${lines.join('\n')}\n`);
  return statuses.some((status) => 'error' in status) ? exitStatuses.failed : exitStatuses.ok;
}
