/** What is said at the end of a run on this machine, and with which exit status. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../lib/core/errors.ts';
import { reportOf, seenNothing, summaryOf } from '../../lib/operator/run-summary.ts';

const next = { help: 'report-exporter local --help', watch: 'report-exporter status' };
const full = { error: 'ConfigurationError', message: 'the disk is full; make room, then start again' };
const unknown = { export: 'reports', run: null, since: null, pages: 0, reports: 0, bytes: 0, resumable: true };
const seen = { ...seenNothing('reports'), run: '20261120T020000Z-1f3a5c', pages: 7, reports: 70, bytes: 7_000 };

describe('a run that failed where not even its failure could be written down', () => {
  it('is told as far as it was seen, and is no wrong usage', () => {
    const report = reportOf({ status: 'failed', failed: { ...unknown, ...full } }, seen, next);
    expect(report).toMatchObject({ exitStatus: 1, json: { status: 'failed', run: seen.run, pages: 7 } });
    expect(summaryOf(report, 0)).toBe(
      'Run 20261120T020000Z-1f3a5c failed, 7 pages, 70 reports, 7 kB into it:\n' +
        '  the disk is full; make room, then start again\n' +
        'It is not completed. The next start goes on where it stopped\n',
    );
    const thrown = reportOf(
      { status: 'error', error: new ExportError('ConfigurationError', full.message) },
      seen,
      next,
    );
    expect(thrown).toMatchObject({ exitStatus: 1, json: { run: seen.run } });
  });

  it('is not said to be unpublished, as nobody knows', () => {
    const failed = { ...unknown, error: 'EventBridge.FailedEntry', message: 'No', resumable: false };
    const report = reportOf({ status: 'failed', failed }, seen, next);
    expect(report).toMatchObject({ exitStatus: 1, next: 'See what became of it with report-exporter status' });
  });

  it('before a run was seen, is', () => {
    const report = reportOf({ status: 'failed', failed: { ...unknown, ...full } }, seenNothing('reports'), next);
    expect(report).toMatchObject({ exitStatus: 2, json: { run: null } });
    expect(summaryOf(report, 0)).toMatch(/^This cannot be run:\n/);
  });
});
