/** Tells how a run ended: to a person in a few lines, to a program as one JSON object, to a shell as an exit status. */

import { isExportError } from '../core/errors.ts';
import type { RunId } from '../core/model.ts';
import { bytes } from './progress.ts';
import type { LocalOutcome } from './run-locally.ts';

/** The object of `--json`. What does not apply is null; `error` is there on failure only, `reason` on a skip only. */
export interface JsonReport {
  readonly status: 'completed' | 'skipped' | 'failed';
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
  readonly error?: { readonly name: string; readonly message: string };
}

export interface Report {
  readonly exitStatus: number;
  readonly json: JsonReport;
  /** Whether the next start goes on with the run. */
  readonly resumable: boolean;
}

export const exitStatuses = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;

/** What `outcome`, or an error that kept a run from having one, amounts to. */
export function reportOf(
  outcome: LocalOutcome | { readonly status: 'error'; readonly error: unknown },
  exportName: string,
  run: RunId | undefined,
): Report {
  const nothing = {
    export: exportName,
    run: run ?? null,
    since: null,
    watermark: null,
    pages: 0,
    reports: 0,
    bytes: 0,
    manifest: null,
  };
  switch (outcome.status) {
    case 'completed':
      return {
        exitStatus: exitStatuses.ok,
        resumable: false,
        json: { status: 'completed', ...outcome.result, manifest: outcome.manifest },
      };
    case 'skipped':
      return {
        exitStatus: exitStatuses.ok,
        resumable: false,
        json: { status: 'skipped', ...nothing, reason: outcome.reason },
      };
    case 'interrupted':
      return {
        exitStatus: exitStatuses.interrupted,
        resumable: run !== undefined,
        json: { status: 'failed', ...nothing, error: { name: 'Interrupted', message: 'The run was interrupted' } },
      };
    case 'failed': {
      const { error: name, message, since, pages, resumable } = outcome.failed;
      // Refused before any run was owned: what was asked for contradicts what is there, so the usage is wrong.
      const refused = outcome.failed.run === null && name === 'ConfigurationError';
      return {
        exitStatus: refused ? exitStatuses.usage : exitStatuses.failed,
        resumable,
        json: { status: 'failed', ...nothing, run: outcome.failed.run, since, pages, error: { name, message } },
      };
    }
    case 'error': {
      const { error } = outcome;
      const { name, message } = error instanceof Error ? error : { name: 'Error', message: String(error) };
      return {
        exitStatus: isExportError(error, 'ConfigurationError') ? exitStatuses.usage : exitStatuses.failed,
        resumable: run !== undefined,
        json: { status: 'failed', ...nothing, error: { name, message } },
      };
    }
  }
}

/** The lines a person reads at the end. */
export function summaryOf({ json, exitStatus, resumable }: Report, elapsedMs: number): string {
  const lines = (() => {
    switch (json.status) {
      case 'completed':
        return [
          `Completed: ${amount(json)} in ${(elapsedMs / 1_000).toFixed(1)} s`,
          `  run        ${json.run}`,
          `  since      ${json.since}`,
          `  watermark  ${json.watermark}  (the next run starts here)`,
          `  manifest   ${json.manifest}`,
        ];
      case 'skipped':
        return [`Skipped: ${json.reason}`];
      case 'failed':
        return [
          ...(exitStatus === exitStatuses.usage
            ? ['This cannot be run:']
            : [json.run === null ? 'Failed:' : `Run ${json.run} failed:`]),
          ...(json.error?.message ?? '').split('\n').map((line) => `  ${line}`),
          ...(exitStatus === exitStatuses.usage ? ['See report-exporter local --help'] : []),
          ...(resumable ? ['Nothing of it is published. The next start goes on from its last logged page'] : []),
        ];
    }
  })();
  return `${lines.join('\n')}\n`;
}

function amount({ pages, reports, bytes: size }: JsonReport): string {
  const counted = reports === null ? [] : [plural(reports, 'report')];
  return [plural(pages, 'page'), ...counted, bytes(size)].join(', ');
}

function plural(count: number, noun: string): string {
  return `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;
}
