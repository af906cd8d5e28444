/** `report-exporter abandon`: says what would be abandoned and, with `--yes`, abandons the unfinished run. */

import { definitionOfStart } from '../../core/bounded-runs.ts';
import { ExportError } from '../../core/errors.ts';
import { readProgress } from '../../core/run-progress.ts';
import { instantOf } from '../../core/timestamps.ts';
import { abandonRun, requireAbandonableRun } from '../abandon-run.ts';
import { boundsIn } from '../bounded-start.ts';
import { type Call, exitStatuses, openExport, runOnTarget } from '../context.ts';
import { plural } from '../output/format.ts';
import { readBounds } from '../run-options.ts';

export async function abandonCommand(call: Call): Promise<number> {
  const { names, options, problems, stdout, stderr, runtime, program } = call;
  const bounds = readBounds(options, runtime.now(), problems);
  return await runOnTarget(call, async (target) => {
    const { name, definition, log, store, executions } = await openExport(target, names[0]);
    const named = { parents: options.parents, ...(bounds && boundsIn(definition.dates, bounds)) };
    const { stateName } = definitionOfStart(definition, named);
    const state = await log.exportState(stateName);
    const run = await requireAbandonableRun({ store }, state, stateName);
    const { pages } = (await readProgress(log, run)).totals;
    const { since, until, bounded, parents } = run;
    const isOfChildren = parents?.isNamed === true;
    const period = until !== undefined && bounded === true ? `from ${since} to ${until}` : `since ${since}`;
    stderr.write(`Run ${run.run} of export ${name}, ${period}: ${plural(pages, 'page')} stored, none published.\n`);
    stderr.write(
      bounded === true
        ? 'An abandoned run is never published. Another start of this bounded run begins a new one.\n'
        : 'An abandoned run is never published. The next start begins a new run, which exports its reports again.\n',
    );
    if ((await executions.status(run.execution)) === 'running') {
      stderr.write(`Execution ${run.execution} is working on it and will end at its next step.\n`);
    }
    if (options.yes !== true) {
      throw new ExportError('ConfigurationError', '--yes: required to abandon the run. Nothing was changed');
    }
    // Without a watermark, nothing else has the since of the run.
    const ofFirst = state?.watermark === undefined && since !== instantOf(0) ? ` --since ${since}` : '';
    const ofBounds = isOfChildren ? `--parents ${parents.run}` : `--since ${since} --until ${until}`;
    const next = bounded === true ? `start ${name} ${ofBounds}` : `plan ${name}${ofFirst}`;
    await abandonRun({ log, store }, run);
    stdout.write(
      options.json === true
        ? `${JSON.stringify({ status: 'abandoned', export: name, run: run.run, ...(bounded && { since, until, bounded }), pages })}\n`
        : `Abandoned: run ${run.run}\n  → next: ${program} ${next} ${target.option}\n`,
    );
    return exitStatuses.ok;
  });
}
