/** `report-exporter verify`: reads a run again, from its manifest to its last byte, and says what is wrong where. */

import { ExportError } from '../../core/errors.ts';
import type { RunResult } from '../../core/model.ts';
import type { DeployedExport } from '../../core/operations/deployment.ts';
import type { Finding } from '../../core/operations/expected-pages.ts';
import { type VerifiedRun, verifyPublishedRun, verifyUnpublishedRun } from '../../core/operations/verify-run.ts';
import { manifestKey, manifestKeyFromRunId } from '../../core/storage/keys.ts';
import { findManifest, readLatestPointer } from '../../core/storage/published-runs.ts';
import { type CommandContext, exitStatuses, openExport, operate, type PlaceOptions } from '../context.ts';
import { bytes, plural } from '../output/format.ts';
import { createMeter } from '../output/progress.ts';
import { paintFor } from '../output/terminal.ts';

export interface VerifyOptions extends PlaceOptions {
  readonly run?: string;
}

/** More findings than a person reads are counted, not told. */
const maxFindings = 100;

export async function verifyCommand(
  exportName: string | undefined,
  options: VerifyOptions,
  problems: readonly string[],
  world: CommandContext,
): Promise<number> {
  return await operate(options, problems, world, async (installation) => {
    const installed = await openExport(installation, exportName);
    const meter = createMeter(world.stderr, 'Verified');
    const findings: Finding[] = [];
    let count = 0;
    const { run, published, audited } = await audit(installed, options.run, {
      onPage: meter.page,
      onFinding: (finding) => {
        count += 1;
        if (findings.length < maxFindings) findings.push(finding);
      },
    });
    meter.end();
    const status = count === 0 ? 'ok' : 'wrong';
    const json = { status, export: installed.name, run, published, ...audited, findings, findingsInAll: count };
    const text = verdict({ run, published, audited, findings, count }, world);
    (options.json === true ? world.stderr : world.stdout).write(text);
    if (options.json === true) world.stdout.write(`${JSON.stringify(json)}\n`);
    return count === 0 ? exitStatuses.ok : exitStatuses.failed;
  });
}

type Watching = Pick<Parameters<typeof verifyPublishedRun>[0], 'onPage' | 'onFinding'>;

interface Verdict {
  readonly run: string;
  readonly published: boolean;
  readonly audited: VerifiedRun;
}

/** The run that was named; otherwise the newest that is published, or, where none is, the unfinished one. */
async function audit(installed: DeployedExport, named: string | undefined, watching: Watching): Promise<Verdict> {
  const { store, log, name } = installed;
  const deps = { store, log, ...watching };
  const { active, lastCompleted } = (await log.exportState(name)) ?? {};
  const key = named === undefined ? await newestKey(store, name, lastCompleted?.result) : manifestKeyFromRunId(name, named);
  const found = key === undefined ? undefined : await findManifest(store, key);
  if (found !== undefined)
    return { run: found.head.run, published: true, audited: await verifyPublishedRun(deps, found) };
  if (active !== undefined && (named === active.run || (named === undefined && key === undefined))) {
    return { run: active.run, published: false, audited: await verifyUnpublishedRun(deps, active) };
  }
  if (key === undefined) {
    throw new ExportError(
      'ConfigurationError',
      `Export ${name} has neither a published nor an unfinished run to verify`,
    );
  }
  if (named === undefined || named === lastCompleted?.result.run) {
    // A manifest is gone: readers are misled, so that is a finding, not a mistake in the usage.
    watching.onFinding({ page: null, message: `${store.locate(key)} is gone, the manifest of the newest run` });
    return {
      run: /run=([^/]+)/.exec(key)?.[1] ?? key,
      published: true,
      audited: { pages: 0, reports: 0, bytes: 0, notes: [] },
    };
  }
  const where =
    active === undefined ? '' : `; the unfinished run is ${active.run}, ${store.locate(manifestKey(active))}`;
  throw new ExportError(
    'ConfigurationError',
    `Run ${named} of export ${name} has no manifest at ${store.locate(key)}: it was given up or never was${where}`,
  );
}

/** As `latest.json` has it, or the state where that knows of a newer one: then the pointer is gone, or was put back. */
async function newestKey(
  store: DeployedExport['store'],
  exportName: string,
  completed: RunResult | undefined,
): Promise<string | undefined> {
  const pointer = await readLatestPointer(store, exportName);
  if (completed === undefined || pointer?.run === completed.run) return pointer?.manifest;
  const newest = await findManifest(store, completed.manifest);
  if (newest !== undefined) for await (const _ of newest.pages) break;
  const isNewer = pointer === undefined || (newest !== undefined && newest.head.sequence > pointer.sequence);
  return isNewer ? completed.manifest : pointer.manifest;
}

function verdict(
  {
    run,
    published,
    audited,
    findings,
    count,
  }: Verdict & { readonly findings: readonly Finding[]; readonly count: number },
  { stdout, env }: CommandContext,
): string {
  const paint = paintFor(stdout, env);
  const { pages, reports, bytes: size, notes } = audited;
  const amount = [plural(pages, 'page'), ...(reports === null ? [] : [plural(reports, 'report')]), bytes(size)].join(
    ', ',
  );
  const lines =
    count === 0
      ? [`${paint('green', 'OK')}: ${published ? '' : 'unfinished '}run ${run} is as it was exported: ${amount}`]
      : [
          `${paint('red', 'WRONG')}: run ${run} is not as it was exported: ${plural(count, 'finding')} in ${amount}`,
          ...findings.map(({ message }) => `  ${message}`),
          ...(count > findings.length ? [`  and ${plural(count - findings.length, 'more finding')}`] : []),
          'Readers should not rely on it. Put things back as they were (a version of the object, a backup), or start again',
          'with a --since at or before that of this run: a new run exports the same reports anew.',
        ];
  return `${[...lines, ...notes.map((note) => paint('dim', `  ${note}`))].join('\n')}\n`;
}
