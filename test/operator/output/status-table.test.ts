/** The status of exports, as a table on a terminal and as tab-separated values for a shell. */

import { stripVTControlCharacters } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { RunStatus } from '../../../lib/operator/run-status.ts';
import { type ExportStatusJson, statusLines, statusValues } from '../../../lib/operator/output/status-table.ts';
import { textStyleFor } from '../../../lib/operator/output/terminal.ts';
import { at } from '../../support/builders.ts';

const terminal = { isTTY: true, write: () => true };
const now = Date.parse('2026-11-20T16:00:00Z');
const options = {
  now,
  style: textStyleFor(terminal, {}),
  program: 'npx report-exporter',
  option: '--stack ReportExporter',
};

const aRunStatus = (overrides: Partial<RunStatus> = {}): RunStatus => ({
  export: 'nightly',
  run: '20261120T020000Z-1f3a5c' as RunStatus['run'],
  state: 'completed',
  since: at('2026-11-19T02:00:00Z'),
  startedAt: at('2026-11-20T02:00:00Z'),
  completedAt: at('2026-11-20T02:03:20Z'),
  serviceStartedAt: at('2026-11-20T02:00:00Z'),
  endedAt: at('2026-11-20T02:03:20Z'),
  lastPageAt: at('2026-11-20T02:03:10Z'),
  pages: 1_204,
  reports: 12_031,
  bytes: 8_400_000,
  folder: 'nightly/date=2026-11-20/run=20261120T020000Z-1f3a5c',
  manifest: 'nightly/date=2026-11-20/run=20261120T020000Z-1f3a5c/manifest.json',
  lastIncident: null,
  ...overrides,
});
const anExportStatus = (overrides: Partial<Extract<ExportStatusJson, { runs: unknown }>> = {}): ExportStatusJson => ({
  export: 'nightly',
  watermark: at('2026-11-20T02:00:00Z'),
  completedAt: at('2026-11-20T02:03:20Z'),
  lastReportsAt: at('2026-11-17T02:03:20Z'),
  reportsEverySeconds: null,
  reportsOverdue: false,
  next: { kind: 'scheduled', at: at('2026-11-21T02:00:00Z'), approximate: false, expression: 'cron(0 2 * * ? *) UTC' },
  backfill: null,
  runs: [aRunStatus()],
  ...overrides,
});
const linesOf = (...statuses: ExportStatusJson[]) => statusLines(statuses, options).map(stripVTControlCharacters);

describe('the status on a terminal', () => {
  it('shows an export in one line and its runs in a table below', () => {
    expect(linesOf(anExportStatus())).toEqual([
      'nightly  completed 13 h ago · watermark 2026-11-20T02:00:00Z · next run 2026-11-21T02:00:00Z (in 10 h)',
      '  RUN                      STATE      PAGES  REPORTS   BYTES  SINCE                 STARTED   TOOK',
      '  20261120T020000Z-1f3a5c  completed  1,204   12,031  8.4 MB  2026-11-19T02:00:00Z  14 h ago  3 min',
    ]);
  });

  it('says why and when a run stopped, and how to resume it', () => {
    const failed = aRunStatus({
      state: 'failed',
      completedAt: null,
      reports: null,
      lastIncident: {
        kind: 'failed-run',
        at: at('2026-11-20T15:30:00Z'),
        page: 8,
        error: 'ServiceUnavailableError',
        message: 'Report service responded with 503\nfor page 8',
      },
    });
    const lines = linesOf(
      anExportStatus({ runs: [failed], completedAt: null, next: { kind: 'disabled', expression: 'x' } }),
    );
    expect(lines[0]).toContain('never completed');
    expect(lines[0]).toContain('schedule disabled');
    expect(lines.slice(3)).toEqual([
      '  last error 30 min ago: ServiceUnavailableError: Report service responded with 503 for page 8',
      '  → to resume: npx report-exporter start nightly --stack ReportExporter',
    ]);
  });

  it('says if no run has had reports for longer than expected', () => {
    expect(linesOf(anExportStatus({ reportsEverySeconds: 93_600, reportsOverdue: true })).slice(0, 3)).toEqual([
      expect.stringMatching(/^nightly {2}completed/),
      '  no completed run has had reports for 3 days; expected within 26 h (expect.reportsEvery)',
      expect.stringMatching(/^ {2}RUN/),
    ]);
  });

  it('says when a running run logged its last page, and how long the service made it wait', () => {
    const running = aRunStatus({
      state: 'running',
      completedAt: null,
      lastPageAt: at('2026-11-20T15:58:00Z'),
      lastIncident: { kind: 'wait', at: at('2026-11-20T15:58:30Z'), page: 9, seconds: 600 },
    });
    expect(linesOf(anExportStatus({ runs: [running] })).slice(3)).toEqual([
      '  last page 2 min ago',
      '  last wait 90 s ago: the service sent Retry-After: 600 s',
    ]);
  });

  it('shows an export without runs, and one whose state cannot be read, next to the others', () => {
    const unreadable = { export: 'weekly', error: { name: 'PageConflictError', message: 'The state was edited' } };
    expect(linesOf(anExportStatus({ runs: [], completedAt: null, watermark: null }), unreadable)).toEqual([
      expect.stringMatching(/^nightly {2}never completed · watermark none/),
      '  no runs yet',
      '  → npx report-exporter start nightly --stack ReportExporter',
      '',
      'weekly  state cannot be read',
      '  PageConflictError: The state was edited',
    ]);
  });

  it('has colors, unless NO_COLOR is set', () => {
    expect(statusLines([anExportStatus()], options).join()).toContain('\x1b[32m');
    const plain = { ...options, style: textStyleFor(terminal, { NO_COLOR: '1' }) };
    expect(statusLines([anExportStatus()], plain).join()).not.toContain('\x1b');
  });
});

describe('the status for a shell', () => {
  const rowsOf = (...statuses: ExportStatusJson[]) => {
    const [heading = '', ...lines] = statusValues(statuses, now);
    return lines.map((line) =>
      Object.fromEntries(line.split('\t').map((value, column) => [heading.split('\t')[column], value])),
    );
  };

  it('has as many fields in each line as in its heading, even if an error contains tabs', () => {
    const failed = aRunStatus({
      state: 'failed',
      lastIncident: { kind: 'failed-run', at: at('2026-11-20T15:30:00Z'), page: 1, error: 'X', message: 'a\tb\nc' },
    });
    const unreadable = { export: 'weekly', error: { name: 'PageConflictError', message: 'a\tb' } };
    const lines = statusValues([anExportStatus({ runs: [failed] }), anExportStatus({ runs: [] }), unreadable], now);
    expect(lines).toHaveLength(5);
    expect(new Set(lines.map((line) => line.split('\t').length)).size).toBe(1);
    expect(lines[2]).toMatch(/\tX: a b c$/);
    expect(lines[4]).toMatch(/^weekly\t\tunreadable\t.*\tPageConflictError: a b$/);
  });

  it('shows the values of an export once, in a line without a run, and not as if they were those of each run', () => {
    const [ofExport, ...ofRuns] = rowsOf(
      anExportStatus({ runs: [aRunStatus(), aRunStatus({ run: '20261119T020000Z-2f3a5c' as RunStatus['run'] })] }),
    );
    expect(ofExport).toMatchObject({
      export: 'nightly',
      run: '',
      watermark: '2026-11-20T02:00:00Z',
      completed: '2026-11-20T02:03:20Z',
      completed_age_s: String(14 * 3_600 - 200),
      next: '2026-11-21T02:00:00Z',
      reports_overdue: 'false',
    });
    expect(ofRuns).toHaveLength(2);
    for (const row of ofRuns) {
      expect(row).toMatchObject({
        export: 'nightly',
        state: 'completed',
        watermark: '',
        completed_age_s: '',
        next: '',
        reports_overdue: '',
      });
    }
    expect(ofRuns.map(({ run }) => run)).toEqual(['20261120T020000Z-1f3a5c', '20261119T020000Z-2f3a5c']);
  });
});
