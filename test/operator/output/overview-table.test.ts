/** The overview of many exports, as a table on a terminal and as tab-separated values for a shell. */

import { describe, expect, it } from 'vitest';
import type { ExportOverview, OverviewEntry } from '../../../lib/target/target.ts';
import {
  needsAttention,
  type OverviewOptions,
  overviewLines,
  overviewValues,
  sortOverview,
  summarizeOverview,
} from '../../../lib/operator/output/overview-table.ts';
import { textStyleFor } from '../../../lib/operator/output/terminal.ts';
import { aRunId, at } from '../../support/builders.ts';

const now = Date.parse('2026-11-20T16:00:00Z');

const anOverview = (overrides: Partial<ExportOverview> = {}): ExportOverview => ({
  export: 'nightly',
  service: 'acme',
  state: 'completed',
  stale: false,
  freshnessSeconds: 93_600,
  lastReportsAt: at('2026-11-20T02:03:20Z'),
  reportsEverySeconds: null,
  reportsOverdue: false,
  run: aRunId(),
  since: at('2026-11-19T02:00:00Z'),
  startedAt: at('2026-11-20T02:00:00Z'),
  pages: 1_204,
  reports: 12_031,
  bytes: 8_400_000,
  watermark: at('2026-11-20T02:00:00Z'),
  completedAt: at('2026-11-20T02:03:20Z'),
  next: { kind: 'scheduled', at: at('2026-11-21T02:00:00Z'), approximate: false, expression: 'cron(0 2 * * ? *)' },
  lastFailure: null,
  ...overrides,
});
const failure = {
  error: 'ServiceUnavailableError',
  message: 'Report service responded with 503\nfor page 8',
  at: at('2026-11-20T03:00:00Z'),
};
const failed = (name: string) => anOverview({ export: name, state: 'failed', lastFailure: failure });
const unreadable = (name: string): OverviewEntry => ({
  export: name,
  service: 'acme',
  error: { name: 'PageConflictError', message: 'The state was edited' },
});
const never = (name: string) =>
  anOverview({
    export: name,
    state: 'never',
    run: null,
    since: null,
    startedAt: null,
    completedAt: null,
    watermark: null,
    pages: 0,
    reports: 0,
    bytes: 0,
    next: { kind: 'manual' },
  });

/** One of each, in alphabetical order. */
const mixed: readonly OverviewEntry[] = [
  anOverview({ export: 'a-completed' }),
  never('b-never'),
  anOverview({ export: 'c-running', state: 'running', pages: 812, startedAt: at('2026-11-20T14:00:00Z') }),
  anOverview({ export: 'd-stale', stale: true, next: { kind: 'disabled', expression: 'x' } }),
  anOverview({ export: 'e-stopped', state: 'stopped', stale: true, pages: 7, reports: null }),
  failed('f-failed'),
  unreadable('g-unreadable'),
  anOverview({ export: 'h-completed' }),
  failed('i-failed'),
  anOverview({ export: 'j-running-stale', state: 'running', stale: true, pages: 1 }),
];

const plain: OverviewOptions = {
  now,
  style: (_, text) => text,
  program: 'npx report-exporter',
  option: '--stack ReportExporter',
  columns: 160,
  failedOnly: false,
};

describe('the order', () => {
  it('begins with what needs attention: unreadable, failed, stopped, stale; then running, then the others by name', () => {
    expect(sortOverview(mixed).map((entry) => entry.export)).toEqual([
      'g-unreadable',
      'f-failed',
      'i-failed',
      'e-stopped',
      'd-stale',
      'j-running-stale',
      'c-running',
      'a-completed',
      'b-never',
      'h-completed',
    ]);
    expect(mixed.filter(needsAttention).map((entry) => entry.export)).toEqual([
      'd-stale',
      'e-stopped',
      'f-failed',
      'g-unreadable',
      'i-failed',
      'j-running-stale',
    ]);
  });
});

describe('the summary', () => {
  it('counts each export once', () => {
    expect(summarizeOverview(mixed)).toBe(
      '10 exports: 1 unreadable, 2 failed, 1 stopped, 2 stale, 1 running, 2 completed, 1 never completed',
    );
    const hundred = Array.from({ length: 100 }, (_, index) =>
      index < 2
        ? failed(`f${index}`)
        : index === 2
          ? anOverview({ stale: true })
          : anOverview({ state: index < 8 ? 'running' : 'completed' }),
    );
    expect(summarizeOverview(hundred)).toBe('100 exports: 2 failed, 1 stale, 5 running, 92 completed');
    expect(summarizeOverview([anOverview()])).toBe('1 export: 1 completed');
    expect(summarizeOverview([])).toBe('0 exports');
  });
});

describe('the overview on a terminal', () => {
  it('has a line per export, with why it needs attention, and a summary', () => {
    expect(overviewLines(mixed, plain)).toEqual([
      'EXPORT           STATE       COMPLETED  NEXT      REPORTS    BYTES  PAGES  NOTE',
      'g-unreadable     unreadable                                                PageConflictError: The state was edited',
      'f-failed         failed      13 h ago   in 10 h    12,031   8.4 MB  1,204  ServiceUnavailableError: Report service responded with 503 for page 8',
      'i-failed         failed      13 h ago   in 10 h    12,031   8.4 MB  1,204  ServiceUnavailableError: Report service responded with 503 for page 8',
      'e-stopped        stopped     13 h ago   in 10 h         –   8.4 MB      7  no execution is working on it: 7 pages, started 14 h ago',
      'd-stale          stale       13 h ago   disabled   12,031   8.4 MB  1,204  not completed for 26 h',
      'j-running-stale  stale       13 h ago   in 10 h    12,031   8.4 MB      1  not completed for 26 h; running: 1 page, started 14 h ago',
      'c-running        running     13 h ago   in 10 h    12,031   8.4 MB    812  running: 812 pages, started 2 h ago',
      'a-completed      completed   13 h ago   in 10 h    12,031   8.4 MB  1,204',
      'b-never          never       never      –               0  0 bytes      0',
      'h-completed      completed   13 h ago   in 10 h    12,031   8.4 MB  1,204',
      '',
      '10 exports: 1 unreadable, 2 failed, 1 stopped, 2 stale, 1 running, 2 completed, 1 never completed',
      '→ for details: npx report-exporter status <export> --stack ReportExporter',
    ]);
  });

  const longNames = [
    failed('a'.repeat(40)),
    unreadable('b'.repeat(40)),
    anOverview({ export: 'c'.repeat(40), state: 'running' }),
    ...mixed,
  ];

  it.each([200, 120, 100, 80, 72, 60, 41, 20, 1])('never has a line longer than %i columns', (columns) => {
    for (const entries of [longNames, mixed, mixed.slice(0, 2)]) {
      const lines = overviewLines(entries, { ...plain, columns });
      // A command is never cut: the terminal wraps it.
      for (const line of lines.filter((each) => !each.startsWith('npx '))) {
        expect(line.length).toBeLessThanOrEqual(columns);
      }
      for (const line of lines) expect(line).not.toMatch(/[\p{Cc}]/u);
    }
  });

  it('has its command on a line of its own if it does not fit beside the text', () => {
    const command = 'npx report-exporter status <export> --stack ReportExporter';
    const lastLines = (columns: number) => overviewLines(mixed, { ...plain, columns }).slice(-2);
    expect(lastLines(73).at(-1)).toBe(`→ for details: ${command}`);
    expect(lastLines(72)).toEqual(['→ for details:', command]);
    expect(lastLines(20)).toEqual(['→ for details:', command]);
  });

  it('fits on a narrow screen that is refreshed, with the command that the terminal wraps', () => {
    const many = Array.from({ length: 100 }, (_, index) => failed(`export-${100 + index}`));
    for (const columns of [72, 60, 40, 25]) {
      const lines = overviewLines(many, { ...plain, columns, rows: 24 });
      const onScreen = lines.reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / columns)), 0);
      expect(onScreen).toBe(23);
    }
  });

  it('leaves out columns, not the names, states and reasons, if 40-character names leave no space for them', () => {
    const lines = overviewLines(longNames, { ...plain, columns: 80 });
    expect(lines[0]).toBe(`EXPORT${' '.repeat(36)}STATE       COMPLETED  NOTE`);
    expect(lines[3]).toBe(`${'a'.repeat(40)}  failed      13 h ago   ServiceUnavail…`);
    const wide = overviewLines(longNames, { ...plain, columns: 120 });
    expect(wide[3]).toBe(
      `${'a'.repeat(40)}  failed      13 h ago   in 10 h   ServiceUnavailableError: Report service resp…`,
    );
  });

  it('uses the space for more columns if there is nothing to note', () => {
    const lines = overviewLines([anOverview(), anOverview({ export: 'weekly' })], { ...plain, columns: 70 });
    expect(lines).toEqual([
      'EXPORT   STATE      COMPLETED  NEXT     REPORTS   BYTES  PAGES',
      'nightly  completed  13 h ago   in 10 h   12,031  8.4 MB  1,204',
      'weekly   completed  13 h ago   in 10 h   12,031  8.4 MB  1,204',
      '',
      '2 exports: 2 completed',
    ]);
  });

  it('shows the services if there are several', () => {
    const entries = [anOverview(), anOverview({ export: 'orders', service: 'globex' })];
    expect(overviewLines(entries, plain)[0]).toContain('SERVICE');
    expect(overviewLines(entries, plain)[2]).toMatch(/^orders .* globex /);
    expect(overviewLines([anOverview()], plain)[0]).not.toContain('SERVICE');
  });

  it('shows only what needs attention with --failed, and says so if nothing does', () => {
    const lines = overviewLines(mixed, { ...plain, failedOnly: true });
    expect(lines.slice(1, 7).map((line) => line.split(' ')[0])).toEqual([
      'g-unreadable',
      'f-failed',
      'i-failed',
      'e-stopped',
      'd-stale',
      'j-running-stale',
    ]);
    expect(lines.slice(7)).toEqual(['', expect.stringMatching(/^10 exports: /), expect.stringContaining('→')]);
    const fine = [anOverview(), never('b')];
    expect(overviewLines(fine, { ...plain, failedOnly: true })).toEqual([
      'No export has failed, stopped, or is stale or unreadable (2 exports: 1 completed, 1 never completed)',
    ]);
  });

  it('fits on a screen that is refreshed, and leaves out what needs no attention', () => {
    const many = Array.from({ length: 100 }, (_, index) => anOverview({ export: `export-${100 + index}` }));
    const lines = overviewLines([...many, failed('zzz')], { ...plain, rows: 24 });
    expect(lines).toHaveLength(23);
    expect(lines[1]).toMatch(/^zzz +failed/);
    expect(lines.slice(-4)).toEqual([
      '… and 83 more exports',
      '',
      '101 exports: 1 failed, 100 completed',
      expect.stringContaining('→ for details'),
    ]);
    expect(overviewLines(many.slice(0, 20), { ...plain, rows: 24 })).toHaveLength(23);
    expect(overviewLines(many, { ...plain, rows: 1 })).toHaveLength(5);
  });

  it('has colors', () => {
    const style = textStyleFor({ isTTY: true, write: () => true }, {});
    expect(overviewLines(mixed, { ...plain, style }).join()).toContain('\x1b[31mfailed\x1b[39m');
  });
});

it('counts an export as stale if no run has had reports for longer than expected', () => {
  const entry = anOverview({ reportsEverySeconds: 864_000, reportsOverdue: true });
  expect(needsAttention(entry)).toBe(true);
  expect(overviewLines([entry], plain)[1]).toMatch(/^nightly +stale .* no reports for 10 days$/);
});

describe('the overview for a shell', () => {
  const rowsOf = (entries: readonly OverviewEntry[]) => {
    const [heading = '', ...lines] = overviewValues(entries, now);
    return lines.map((line) =>
      Object.fromEntries(line.split('\t').map((value, column) => [heading.split('\t')[column], value])),
    );
  };

  it('has a heading and a line per export, with raw values', () => {
    const [completed, failedRow, unreadableRow, neverRow] = rowsOf([
      anOverview({ stale: true }),
      failed('f'),
      unreadable('u'),
      never('n'),
    ]);
    expect(completed).toEqual({
      export: 'nightly',
      service: 'acme',
      state: 'completed',
      stale: 'true',
      reports_overdue: 'false',
      run: expect.stringMatching(/^20261120T/),
      pages: '1204',
      reports: '12031',
      bytes: '8400000',
      since: '2026-11-19T02:00:00Z',
      watermark: '2026-11-20T02:00:00Z',
      started: '2026-11-20T02:00:00Z',
      completed: '2026-11-20T02:03:20Z',
      completed_age_s: String(14 * 3_600 - 200),
      next: '2026-11-21T02:00:00Z',
      last_error: '',
    });
    expect(failedRow).toMatchObject({
      state: 'failed',
      stale: 'false',
      last_error: 'ServiceUnavailableError: Report service responded with 503 for page 8',
    });
    expect(unreadableRow).toMatchObject({
      state: 'unreadable',
      run: '',
      last_error: expect.stringMatching(/^PageCon/),
    });
    expect(neverRow).toMatchObject({ state: 'never', run: '', completed: '', completed_age_s: '', next: 'manual' });
  });

  it('has as many fields in each line as in its heading, even if an error contains tabs', () => {
    const odd = { ...failure, message: 'a\tb\nc' };
    const lines = overviewValues([anOverview({ state: 'failed', lastFailure: odd }), unreadable('u'), ...mixed], now);
    expect(new Set(lines.map((line) => line.split('\t').length)).size).toBe(1);
  });
});
