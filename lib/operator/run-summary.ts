/** Tells how a run ended: to a person in a few lines, to a program as one JSON object, to a shell as an exit status. */

import { isExportError } from '../core/errors.ts';
import type { RunEnd } from '../core/operations/deployment.ts';
import { exitStatuses } from './context.ts';
import { bytes, plural } from './output/format.ts';

/** The object of `--json`. What is not known is null; `error` is there on failure only, `reason` on a skip only. */
export interface JsonReport {
  readonly status: 'completed' | 'skipped' | 'failed' | 'started';
  readonly export: string;
  readonly run: string | null;
  readonly since: string | null;
  readonly watermark: string | null;
  readonly pages: number;
  readonly reports: number | null;
  readonly bytes: number;
  /** Where the manifest lies: a path that can be opened from here. */
  readonly manifest: string | null;
  readonly reason?: string;
  /** The execution that was started, where nobody followed it. */
  readonly execution?: string;
  readonly error?: { readonly name: string; readonly message: string };
}

/** What was seen of a run while it went on, for when it cannot tell itself. */
export type Seen = Pick<JsonReport, 'export' | 'run' | 'since' | 'pages' | 'reports' | 'bytes'>;

export const seenNothing = (exportName: string): Seen => ({
  export: exportName,
  run: null,
  since: null,
  pages: 0,
  reports: 0,
  bytes: 0,
});

export interface Report {
  readonly exitStatus: number;
  readonly json: JsonReport;
  /** What a person is to know or do next; empty where there is nothing to say. */
  readonly next: string;
}

const hasNextPage = 'It is not completed. The next start goes on where it stopped';
const beginsAnew = 'Nothing of it is published. It is given up, and the next start begins a new run';

/** Which commands to try next. */
export interface NextCommands {
  /** About the usage. */
  readonly help: string;
  /** To see how a run is getting on. */
  readonly watch: string;
}

/** What `outcome`, or an error that kept a run from having one, amounts to. */
export function reportOf(
  outcome: RunEnd | { readonly status: 'error'; readonly error: unknown },
  seen: Seen,
  { help, watch }: NextCommands,
): Report {
  const readHelp = `See ${help}`;
  const failed = (json: Partial<JsonReport>): JsonReport => ({
    status: 'failed',
    ...seen,
    watermark: null,
    manifest: null,
    ...json,
  });
  const unfinished = seen.run === null ? '' : hasNextPage;
  switch (outcome.status) {
    case 'completed': {
      const json = { status: 'completed', ...outcome.result, manifest: outcome.manifest } as const;
      return { exitStatus: exitStatuses.ok, json, next: '' };
    }
    case 'skipped':
      return {
        exitStatus: exitStatuses.ok,
        json: { ...failed({}), status: 'skipped', reason: outcome.reason },
        next: '',
      };
    case 'started':
      return {
        exitStatus: exitStatuses.ok,
        json: { ...failed({}), status: 'started', run: outcome.run ?? seen.run, execution: outcome.execution },
        next: `Watch it with ${watch}`,
      };
    case 'interrupted': {
      const error = { name: 'Interrupted', message: 'The run was interrupted' };
      return { exitStatus: exitStatuses.interrupted, json: failed({ error }), next: unfinished };
    }
    case 'failed': {
      const { run, since, pages, reports, resumable, error: name, message } = outcome.failed;
      // Where not even that could be written down, what was seen of the run is all there is to tell.
      const amount = run === null ? {} : { run, since, pages, reports, bytes: outcome.failed.bytes };
      const json = failed({ ...amount, error: { name, message } });
      // Refused before any run was owned: what was asked for contradicts what is there, so the usage is wrong.
      if (json.run === null && name === 'ConfigurationError')
        return { exitStatus: exitStatuses.usage, json, next: readHelp };
      // It was not the execution's own when it failed: given up by then, or published, by this one or by another.
      const unowned = run === null && seen.run !== null ? `See what became of it with ${watch}` : beginsAnew;
      return { exitStatus: exitStatuses.failed, json, next: resumable ? hasNextPage : unowned };
    }
    case 'error': {
      const { name, message } = outcome.error instanceof Error ? outcome.error : new Error(String(outcome.error));
      const json = failed({ error: { name, message } });
      return isExportError(outcome.error, 'ConfigurationError') && seen.run === null
        ? { exitStatus: exitStatuses.usage, json, next: readHelp }
        : { exitStatus: exitStatuses.failed, json, next: unfinished };
    }
  }
}

/** The lines a person reads at the end. */
export function summaryOf({ json, exitStatus, next }: Report, elapsedMs: number): string {
  const lines = [...linesOf(json, exitStatus, elapsedMs), next].filter((line) => line !== '');
  return `${lines.join('\n')}\n`;
}

function linesOf(json: JsonReport, exitStatus: number, elapsedMs: number): string[] {
  switch (json.status) {
    case 'completed':
      return [
        `Completed: ${amountOf(json)} in ${(elapsedMs / 1_000).toFixed(1)} s`,
        `  run        ${json.run}`,
        `  since      ${json.since}`,
        `  watermark  ${json.watermark ?? 'none, as the run began after the initial one'}  (the next run starts here)`,
        `  manifest   ${json.manifest}`,
      ];
    case 'skipped':
      return [`Skipped: ${json.reason}`];
    case 'started':
      return [
        `Started export ${json.export}${json.run === null ? '' : `: run ${json.run} is under way`}`,
        `  execution  ${json.execution}`,
      ];
    case 'failed': {
      const about = json.run === null ? 'Failed' : `Run ${json.run} failed, ${amountOf(json)} into it`;
      const what = (json.error?.message ?? '').split('\n').map((line) => `  ${line}`);
      return [exitStatus === exitStatuses.usage ? 'This cannot be run:' : `${about}:`, ...what];
    }
  }
}

function amountOf({ pages, reports, bytes: size }: JsonReport): string {
  return [plural(pages, 'page'), ...(reports === null ? [] : [plural(reports, 'report')]), bytes(size)].join(', ');
}
