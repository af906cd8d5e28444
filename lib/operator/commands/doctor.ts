/** `report-exporter doctor`: looks for whatever would keep an export from running, and says what to do about it. */

import { systemRuntime } from '../../core/clock.ts';
import type { Deployment } from '../../core/operations/deployment.ts';
import { type CommandContext, exitStatuses, operate, type PlaceOptions } from '../context.ts';
import { type Diagnosis, runHealthChecks } from '../health-checks.ts';
import { plural } from '../output/format.ts';
import { type Paint, paintFor } from '../output/terminal.ts';

/** Exit status: 0 where nothing stands in the way, 1 where something does. */
export async function doctorCommand(
  exportName: string | undefined,
  options: PlaceOptions & { readonly version: string },
  problems: readonly string[],
  world: CommandContext,
): Promise<number> {
  return await operate(options, problems, world, async (installation) => {
    const { stdout, stderr, env } = world;
    const paint = paintFor(stdout, env);
    const found: Diagnosis[] = [];
    for await (const diagnosis of diagnoses(installation, exportName, options.version, (text) =>
      stderr.write(`${text}\n`),
    )) {
      found.push(diagnosis);
      if (options.json !== true) stdout.write(linesOf(diagnosis, paint));
    }
    const count = (state: Diagnosis['state']) => found.filter((each) => each.state === state).length;
    const status = count('problem') > 0 ? 'problem' : count('warning') > 0 ? 'warning' : 'ok';
    if (options.json === true)
      stdout.write(`${JSON.stringify({ status, place: installation.name, findings: found })}\n`);
    else
      stdout.write(
        `${plural(count('problem'), 'problem')}, ${plural(count('warning'), 'warning')} (${installation.name})\n`,
      );
    return status === 'problem' ? exitStatuses.failed : exitStatuses.ok;
  });
}

async function* diagnoses(
  installation: Deployment,
  exportName: string | undefined,
  version: string,
  say: (text: string) => void,
): AsyncGenerator<Diagnosis> {
  const node = Number(process.versions.node.split('.')[0]);
  const versions = `report-exporter ${version} on Node ${process.versions.node}`;
  yield node >= 24
    ? { check: 'versions', export: null, state: 'ok', message: versions, remedy: null }
    : {
        check: 'versions',
        export: null,
        state: 'problem',
        message: versions,
        remedy: 'it needs Node 24: run it with npx, which brings it',
      };
  // That it could be opened at all shows that it is there, and that credentials are good.
  yield { check: 'place', export: null, state: 'ok', message: `${installation.name} can be reached`, remedy: null };
  const names = exportName === undefined ? await installation.exportNames() : [exportName];
  if (names.length === 0) {
    yield {
      check: 'exports',
      export: null,
      state: 'warning',
      message: 'there is no export',
      remedy: 'make a first run with npm start',
    };
  }
  yield* runHealthChecks(installation, names, systemRuntime, say);
}

const marks = { ok: ['green', '✓'], warning: ['yellow', '!'], problem: ['red', '✗'] } as const;

function linesOf({ check, export: name, state, message, remedy }: Diagnosis, paint: Paint): string {
  const [style, mark] = marks[state];
  const about = `${name === null ? '' : `${name} `}${check}`;
  const line = `${paint(style, mark)} ${about.padEnd(20)} ${message}\n`;
  return remedy === null ? line : `${line}  ${''.padEnd(20)} ${paint('bold', '→')} ${remedy}\n`;
}
