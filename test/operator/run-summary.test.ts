/** What a person, a program and a shell learn at the end of a run. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../lib/core/errors.ts';
import type { RunEnd } from '../../lib/target/target.ts';
import {
  formatSummary,
  type ObservedRun,
  type StartSummary,
  summarizeRun,
  unobservedRun,
} from '../../lib/operator/run-summary.ts';
import { aRunResult, at } from '../support/builders.ts';

const next = { help: 'report-exporter local --help', watch: 'report-exporter status' };
const diskFull = { error: 'ConfigurationError', message: 'the disk is full; make room, then start again' };
const unknownRun = { export: 'reports', run: null, since: null, pages: 0, reports: 0, bytes: 0, resumable: true };
const observed: ObservedRun = {
  ...unobservedRun('reports'),
  run: '20261120T020000Z-1f3a5c',
  pages: 7,
  reports: 70,
  bytes: 7_000,
};
const unobserved = unobservedRun('reports');
const textOf = (summary: StartSummary) => formatSummary(summary, 0, (_, text) => text);

describe('a completed run', () => {
  it('shows its totals, where the next run starts, and its manifest', () => {
    const result = aRunResult({ pages: 3, reports: 250 });
    const summary = summarizeRun({ status: 'completed', result, manifest: '/out/manifest.json' }, observed, next);
    expect(summary).toMatchObject({ exitStatus: 0, json: { status: 'completed', run: result.run, pages: 3 } });
    expect(textOf(summary)).toBe(
      'Completed: 3 pages, 250 reports, 123.5 kB in 0.0 s\n' +
        `  run        ${result.run}\n` +
        '  since      2026-11-01T00:00:00Z\n' +
        '  watermark  2026-11-20T02:00:01Z  (the next run starts here)\n' +
        '  manifest   /out/manifest.json\n',
    );
  });

  it('says if it was not published, because it found no reports', () => {
    const result = aRunResult({ pages: 1, reports: 0, manifest: null });
    const summary = summarizeRun({ status: 'completed', result, manifest: null }, observed, next);
    expect(summary).toMatchObject({ exitStatus: 0, json: { status: 'completed', manifest: null } });
    expect(textOf(summary)).toContain(
      '  manifest   none: a run without reports is not published (publishEmptyRuns is false)\n',
    );
  });

  it('names the bounds of a bounded run instead of a watermark, and its slices', () => {
    const bounds = { since: at('2026-01-01T00:00:00Z'), until: at('2026-02-01T00:00:00Z') };
    const result = aRunResult({ ...bounds, bounded: true, watermark: null });
    const sliced = { ...observed, slices: { done: 63, count: 64 } };
    const summary = summarizeRun({ status: 'completed', result, manifest: 'm' }, sliced, next);
    expect(summary.json).toMatchObject({ ...bounds, bounded: true, slices: { done: 64, count: 64 } });
    expect(textOf(summary).split('\n').slice(1)).toEqual([
      `  run        ${result.run}`,
      '  slices     64',
      '  period     bounded run from 2026-01-01T00:00:00Z to 2026-02-01T00:00:00Z',
      '  manifest   m',
      '',
    ]);
  });

  it('says if there is no watermark yet', () => {
    const outcome = { status: 'completed', result: aRunResult({ watermark: null }), manifest: 'm' } as const;
    expect(textOf(summarizeRun(outcome, observed, next))).toContain(
      '  watermark  none: the run started after since.initial',
    );
  });
});

describe('an interrupted run', () => {
  const interrupted: RunEnd = { status: 'interrupted' };

  it('says after which page, and how to resume, and is not called failed', () => {
    const summary = summarizeRun(interrupted, { ...observed, pages: 12 }, next);
    expect(summary).toMatchObject({ exitStatus: 130, json: { status: 'interrupted', pages: 12 } });
    expect(summary.json.error).toBeUndefined();
    expect(textOf(summary)).toBe('Interrupted after page 12. Run again to resume.\n');
  });

  it('with slices says how many are done', () => {
    const sliced = { ...observed, pages: 418, slices: { done: 12, count: 64 } };
    expect(textOf(summarizeRun(interrupted, sliced, next))).toBe(
      'Interrupted after 418 pages, with 12 of 64 slices done. Run again to resume.\n',
    );
  });

  it('before its first page says so', () => {
    expect(textOf(summarizeRun(interrupted, unobserved, next))).toBe(
      'Interrupted before page 1 was stored. Run again to resume.\n',
    );
  });
});

describe('a run that failed', () => {
  const outage = { error: 'ServiceUnavailableError', message: 'Report service answered 503 for page 8' };

  const retry = { state: 'ExportPage', ...outage, attempt: 20, maxAttempts: 20 };

  it('says after how many retries it gave up', () => {
    const failed = { ...unknownRun, ...outage, run: observed.run as never, pages: 7, reports: 70, bytes: 7_000 };
    expect(textOf(summarizeRun({ status: 'failed', failed }, observed, next, retry))).toBe(
      'Error: Run 20261120T020000Z-1f3a5c failed after 7 pages, 70 reports, 7 kB:\n' +
        '  ServiceUnavailableError: Report service answered 503 for page 8\n' +
        'Gave up after 20 retries. Run again to resume after page 7.\n',
    );
  });

  it.each([
    ['there was none', 'ServiceUnavailableError', undefined],
    ['the error is one that is not retried', 'CursorRejectedError', retry],
  ])('does not say so if %s', (_, error, lastRetry) => {
    const failed = { ...unknownRun, error, message: '' };
    expect(summarizeRun({ status: 'failed', failed }, observed, next, lastRetry).next).toBe(
      'Run again to resume after page 7.',
    );
  });

  it('does not advise to resume if the message says that a restart may be needed', () => {
    const failed = { ...unknownRun, error: 'ContractError', message: 'not valid XML. Start with --restart' };
    expect(summarizeRun({ status: 'failed', failed }, observed, next).next).toBe('');
  });
});

describe('a run whose failure could not be recorded', () => {
  it('is reported as far as it was observed, and is not a usage error', () => {
    const summary = summarizeRun({ status: 'failed', failed: { ...unknownRun, ...diskFull } }, observed, next);
    expect(summary).toMatchObject({ exitStatus: 1, json: { status: 'failed', run: observed.run, pages: 7 } });
    expect(textOf(summary)).toBe(
      'Error: Run 20261120T020000Z-1f3a5c failed after 7 pages, 70 reports, 7 kB:\n' +
        '  ConfigurationError: the disk is full; make room, then start again\n' +
        'Run again to resume after page 7.\n',
    );
    const error = new ExportError('ConfigurationError', diskFull.message);
    const thrown = summarizeRun({ status: 'error', error }, observed, next);
    expect(thrown).toMatchObject({ exitStatus: 1, json: { run: observed.run } });
  });

  it('is not said to be unpublished, because that is unknown', () => {
    const failed = { ...unknownRun, error: 'EventBridge.FailedEntry', message: 'No', resumable: false };
    const summary = summarizeRun({ status: 'failed', failed }, observed, next);
    expect(summary).toMatchObject({ exitStatus: 1, next: 'To see the state of the run: report-exporter status' });
  });

  it('is a usage error if it was refused before a run began', () => {
    const summary = summarizeRun({ status: 'failed', failed: { ...unknownRun, ...diskFull } }, unobserved, next);
    expect(summary).toMatchObject({ exitStatus: 2, json: { run: null } });
    expect(textOf(summary)).toBe(
      'Error: the disk is full; make room, then start again\nFor help: report-exporter local --help\n',
    );
  });
});

it('a start whose bounds have been exported already is done', () => {
  const reason = 'run x has exported nightly';
  const summary = summarizeRun({ status: 'skipped', reason, done: true }, unobserved, next);
  expect(summary).toMatchObject({ exitStatus: 0, json: { status: 'skipped', done: true, reason } });
  expect(textOf(summary)).toBe(`Done: ${reason}\n`);
});
