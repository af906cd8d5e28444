/** The status as a person sees it on a terminal. */

import { stripVTControlCharacters } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { RunStatus } from '../../../lib/core/operations/run-status.ts';
import type { ExportStatusJson } from '../../../lib/operator/commands/status.ts';
import { fromNow, span } from '../../../lib/operator/output/format.ts';
import { statusLines, statusValues } from '../../../lib/operator/output/status-table.ts';
import { paintFor, table } from '../../../lib/operator/output/terminal.ts';
import { at } from '../../support/builders.ts';

const terminal = { isTTY: true, write: () => true };
const now = Date.parse('2026-11-20T16:00:00Z');
const shown = { now, paint: paintFor(terminal, {}), option: '--stack ReportExporter' };

const aRunOverview = (overrides: Partial<RunStatus> = {}): RunStatus => ({
  export: 'nightly',
  run: '20261120T020000Z-1f3a5c' as RunStatus['run'],
  state: 'completed',
  since: at('2026-11-19T02:00:00Z'),
  startedAt: at('2026-11-20T02:00:00Z'),
  completedAt: at('2026-11-20T02:03:20Z'),
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
const aStatus = (overrides: Partial<Extract<ExportStatusJson, { runs: unknown }>> = {}): ExportStatusJson => ({
  export: 'nightly',
  watermark: at('2026-11-20T02:00:00Z'),
  completedAt: at('2026-11-20T02:03:20Z'),
  next: { kind: 'scheduled', at: at('2026-11-21T02:00:00Z'), about: false, expression: 'cron(0 2 * * ? *) UTC' },
  runs: [aRunOverview()],
  ...overrides,
});
const linesOf = (...statuses: ExportStatusJson[]) => statusLines(statuses, shown).map(stripVTControlCharacters);

describe('the status on a terminal', () => {
  it('says what matters of an export in one line, and its runs below', () => {
    expect(linesOf(aStatus())).toEqual([
      'nightly  completed 13 h ago · watermark 2026-11-20T02:00:00Z · next run 2026-11-21T02:00:00Z (in 10 h)',
      '  RUN                      STATE      PAGES  REPORTS   BYTES  SINCE                 STARTED   TOOK',
      '  20261120T020000Z-1f3a5c  completed  1,204   12,031  8.4 MB  2026-11-19T02:00:00Z  14 h ago  3 min',
    ]);
  });

  it('says why a run stopped, when, and what to type next', () => {
    const failed = aRunOverview({
      state: 'failed',
      completedAt: null,
      reports: null,
      lastIncident: {
        kind: 'failed-run',
        at: at('2026-11-20T15:30:00Z'),
        page: 8,
        error: 'ServiceUnavailableError',
        message: 'Report service answered 503\nfor page 8',
      },
    });
    const lines = linesOf(aStatus({ runs: [failed], completedAt: null, next: { kind: 'disabled', expression: 'x' } }));
    expect(lines[0]).toContain('never completed');
    expect(lines[0]).toContain('its schedule is off');
    expect(lines.slice(3)).toEqual([
      '  last trouble 30 min ago: ServiceUnavailableError: Report service answered 503 for page 8',
      '  → npx report-exporter start nightly --stack ReportExporter    goes on where it stopped',
    ]);
  });

  it('says of a run under way when its last page came, and how long the service makes it wait', () => {
    const running = aRunOverview({
      state: 'running',
      completedAt: null,
      lastPageAt: at('2026-11-20T15:58:00Z'),
      lastIncident: { kind: 'wait', at: at('2026-11-20T15:58:30Z'), page: 9, seconds: 600 },
    });
    expect(linesOf(aStatus({ runs: [running] })).slice(3)).toEqual([
      '  last page 2 min ago',
      '  last trouble 90 s ago: the service asked to wait 600 s',
    ]);
  });

  it('shows an export without runs, and one whose state cannot be read, beside the others', () => {
    const unreadable = { export: 'weekly', error: { name: 'PageConflictError', message: 'The head was edited' } };
    expect(linesOf(aStatus({ runs: [], completedAt: null, watermark: null }), unreadable)).toEqual([
      expect.stringMatching(/^nightly {2}never completed · watermark none/),
      '  no runs yet',
      '  → npx report-exporter start nightly --stack ReportExporter',
      '',
      'weekly  its state cannot be read',
      '  PageConflictError: The head was edited',
    ]);
  });

  it('is painted on a terminal, unless NO_COLOR says not to', () => {
    expect(statusLines([aStatus()], shown).join()).toContain('\x1b[32m');
    const plain = { ...shown, paint: paintFor(terminal, { NO_COLOR: '1' }) };
    expect(statusLines([aStatus()], plain).join()).not.toContain('\x1b');
    expect(paintFor({ write: () => true }, {})('red', 'x')).toBe('x');
  });
});

describe('the status for a shell', () => {
  it('has as many fields in each line as in its heading, whatever an error holds', () => {
    const failed = aRunOverview({
      state: 'failed',
      lastIncident: { kind: 'failed-run', at: at('2026-11-20T15:30:00Z'), page: 1, error: 'X', message: 'a\tb\nc' },
    });
    const unreadable = { export: 'weekly', error: { name: 'PageConflictError', message: 'a\tb' } };
    const lines = statusValues([aStatus({ runs: [failed] }), aStatus({ runs: [] }), unreadable], now);
    expect(lines).toHaveLength(4);
    expect(new Set(lines.map((line) => line.split('\t').length)).size).toBe(1);
    expect(lines[1]).toMatch(/\tX: a b c$/);
    const age = lines[0]?.split('\t').indexOf('completed_age_s') ?? -1;
    expect(lines[1]?.split('\t')[age]).toBe(String(16 * 3_600 - (2 * 3_600 + 200)));
  });
});

describe('figures in words', () => {
  it.each([
    [0, '0 s'],
    [119_999, '119 s'],
    [120_000, '2 min'],
    [7_199_000, '119 min'],
    [7_200_000, '2 h'],
    [47 * 3_600_000, '47 h'],
    [48 * 3_600_000, '2 days'],
    [-5, '0 s'],
  ])('%i ms are %s', (ms, text) => {
    expect(span(ms)).toBe(text);
  });

  it('look back and ahead', () => {
    expect(fromNow(now - 60_000, now)).toBe('60 s ago');
    expect(fromNow(now + 86_400_000, now)).toBe('in 24 h');
  });

  it('stand in columns, text to the left, numbers to the right', () => {
    const rows = [
      [{ text: 'a' }, { text: '1', right: true }],
      [{ text: 'bcd' }, { text: '22', right: true }],
    ];
    expect(table(rows, (_, text) => text)).toEqual(['a     1', 'bcd  22']);
  });
});
