/** The status of exports, as a table. */

import { describe, expect, it } from 'vitest';
import {
  type ExportView,
  needsAttention,
  type RunView,
  sortExports,
  type ViewedExport,
} from '../../../lib/operator/run-view.ts';
import { type StatusTableOptions, statusLines, summarizeStatuses } from '../../../lib/operator/output/status-table.ts';
import { aRunId, at } from '../../support/builders.ts';
import { aRunView } from '../run-report/example-runs.ts';

const now = Date.parse('2026-11-20T16:00:00Z');

const aStatus = (overrides: Partial<ExportView> = {}): ExportView => ({
  export: 'nightly',
  service: 'acme',
  state: 'completed',
  stale: false,
  freshnessSeconds: 93_600,
  lastReportsAt: at('2026-11-20T02:03:20Z'),
  reportsEverySeconds: null,
  failedStart: null,
  reportsOverdue: false,
  run: aRunId(),
  since: at('2026-11-19T02:00:00Z'),
  startedAt: at('2026-11-20T02:00:00Z'),
  pages: 1_204,
  reports: 12_031,
  bytes: 8_400_000,
  watermark: at('2026-11-20T02:00:00Z'),
  completedAt: at('2026-11-20T02:03:20Z'),
  schedule: { kind: 'scheduled', expression: 'cron(0 2 * * ? *)', timeZone: 'Europe/Berlin' },
  lastFailure: null,
  slices: null,
  bounded: { unfinished: [], completed: 0, newest: null },
  runs: undefined,
  ...overrides,
});
const failure = {
  error: 'ServiceUnavailableError',
  message: 'Report service responded with 503\nfor page 8',
  at: at('2026-11-20T03:00:00Z'),
};
const failed = (name: string) => aStatus({ export: name, state: 'failed', lastFailure: failure });
const unreadable = (name: string): ViewedExport => ({
  export: name,
  service: 'acme',
  error: { name: 'PageConflictError', message: 'The state was edited' },
});
const never = (name: string) =>
  aStatus({
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
    schedule: { kind: 'manual' },
  });

/** One of each, in alphabetical order. */
const mixed: readonly ViewedExport[] = [
  aStatus({ export: 'a-completed' }),
  never('b-never'),
  aStatus({ export: 'c-running', state: 'running', pages: 812, startedAt: at('2026-11-20T14:00:00Z') }),
  aStatus({
    export: 'd-stale',
    stale: true,
    schedule: { kind: 'disabled', expression: 'rate(1 day)', timeZone: 'UTC' },
  }),
  aStatus({ export: 'e-interrupted', state: 'interrupted', stale: true, pages: 7, reports: null }),
  failed('f-failed'),
  unreadable('g-unreadable'),
  aStatus({ export: 'h-completed' }),
  failed('i-failed'),
  aStatus({ export: 'j-running-stale', state: 'running', stale: true, pages: 1 }),
];

const plain: StatusTableOptions = {
  now,
  style: (_, text) => text,
  program: 'npx --no -- report-exporter',
  option: '--stack ReportExporter',
  columns: 160,
};

/** The lines that the command prints. */
const linesFor = (entries: readonly ViewedExport[], options: Partial<StatusTableOptions> = {}) =>
  statusLines(sortExports(entries), summarizeStatuses(entries), { ...plain, ...options });
/** The lines of the exports, without those above and below. */
const rowsFor = (entries: readonly ViewedExport[]) => linesFor(entries).slice(2, 3 + entries.length);

describe('the status of exports on a terminal', () => {
  it('has a summary, and a line per export with why it needs attention: those that do come first', () => {
    expect(linesFor(mixed)).toEqual([
      '10 exports: 1 unreadable, 2 failed, 1 interrupted, 2 stale, 1 running, 2 completed, 1 never completed',
      '',
      'EXPORT           STATE        COMPLETED  REPORTS    BYTES  PAGES  SCHEDULE                         NOTE',
      'g-unreadable     unreadable                                                                        PageConflictError: The state was edited',
      'f-failed         failed       13 h ago    12,031   8.4 MB  1,204  cron(0 2 * * ? *) Europe/Berlin  ServiceUnavailableError: Report service responded with 503 …',
      'i-failed         failed       13 h ago    12,031   8.4 MB  1,204  cron(0 2 * * ? *) Europe/Berlin  ServiceUnavailableError: Report service responded with 503 …',
      'e-interrupted    interrupted  13 h ago         –   8.4 MB      7  cron(0 2 * * ? *) Europe/Berlin  no execution is working on it: 7 pages, started 14 h ago',
      'd-stale          stale        13 h ago    12,031   8.4 MB  1,204  rate(1 day) (disabled)           not completed for 26 h',
      'j-running-stale  stale        13 h ago    12,031   8.4 MB      1  cron(0 2 * * ? *) Europe/Berlin  not completed for 26 h; running: 1 page, started 14 h ago',
      'c-running        running      13 h ago    12,031   8.4 MB    812  cron(0 2 * * ? *) Europe/Berlin  running: 812 pages, started 2 h ago',
      'a-completed      completed    13 h ago    12,031   8.4 MB  1,204  cron(0 2 * * ? *) Europe/Berlin',
      'h-completed      completed    13 h ago    12,031   8.4 MB  1,204  cron(0 2 * * ? *) Europe/Berlin',
      'b-never          never        never            0  0 bytes      0  –',
      '',
      '→ for details: npx --no -- report-exporter status <export> --stack ReportExporter',
    ]);
  });

  const longNames = [
    failed('a'.repeat(40)),
    unreadable('b'.repeat(40)),
    aStatus({ export: 'c'.repeat(40), state: 'running' }),
    ...mixed,
  ];

  it.each([200, 80, 41, 1])('never has a line longer than %i columns', (columns) => {
    for (const entries of [longNames, mixed, mixed.slice(0, 2)]) {
      const lines = linesFor(entries, { columns });
      // A command is never cut: the terminal wraps it.
      for (const line of lines.filter((each) => !each.startsWith('npx '))) {
        expect(line.length).toBeLessThanOrEqual(columns);
      }
      for (const line of lines) expect(line).not.toMatch(/[\p{Cc}]/u);
    }
  });
});

const aBoundedRun = (overrides: Partial<RunView> = {}): RunView => ({
  ...aRunView(),
  bounded: true,
  state: 'failed',
  since: at('2020-01-01T00:00:00Z'),
  until: at('2021-01-01T00:00:00Z'),
  completedAt: null,
  slices: { done: 12, count: 64, setAside: [{ slice: 3, error: 'ContractError', message: 'no\nXML' }] },
  pages: 418,
  reports: 41_800,
  bytes: 37_000_000,
  lastFailure: failure,
  lastIncident: { kind: 'failed-run', ...failure },
  ...overrides,
});
const manyCompleted = {
  completed: 500,
  newest: aBoundedRun({ state: 'completed', slices: null, completedAt: at('2026-11-20T15:00:00Z') }),
};

it('notes bounded runs that are unfinished, besides the state of the export', () => {
  const noteOf = (overrides: Partial<ExportView>) => {
    const [heading = '', line = ''] = rowsFor([aStatus(overrides)]);
    return heading.includes('NOTE') ? line.slice(heading.indexOf('NOTE')) : '';
  };
  const unfinished = [aBoundedRun(), aBoundedRun({ state: 'running' }), aBoundedRun()];
  expect(noteOf({ bounded: { ...manyCompleted, unfinished } })).toBe('2 bounded runs failed; 1 bounded run running');
  expect(noteOf({ bounded: { ...manyCompleted, unfinished: [] } })).toBe('');
  expect(needsAttention(aStatus({ bounded: { ...manyCompleted, unfinished } }))).toBe(false);
});

it('notes how many slices of a run are done', () => {
  const slices = { done: 12, count: 64, setAside: [] };
  expect(rowsFor([aStatus({ state: 'running', slices })])[1]).toMatch(
    / running: 12 of 64 slices, 1,204 pages, started /,
  );
});

describe('the status of one export on a terminal', () => {
  const nightlyRun = (overrides: Partial<RunView> = {}): RunView =>
    aRunView({ pages: 1_204, reports: 12_031, bytes: 8_400_000, ...overrides });
  const unfinished = (overrides: Partial<RunView>): RunView => nightlyRun({ completedAt: null, ...overrides });
  const withRuns = (overrides: Partial<ExportView> = {}): ExportView =>
    aStatus({ lastReportsAt: at('2026-11-17T02:03:20Z'), runs: [nightlyRun()], ...overrides });
  const linesOf = (status: ViewedExport, columns = 160) => linesFor([status], { columns });
  const incident = { kind: 'failed-run', ...failure, at: at('2026-11-20T15:30:00Z') } as const;
  it('shows when a running run logged its last page, and how long the service made it wait', () => {
    const running = unfinished({
      state: 'running',
      lastPageAt: at('2026-11-20T15:58:00Z'),
      lastIncident: { kind: 'wait', at: at('2026-11-20T15:58:30Z'), seconds: 600 },
    });
    expect(linesOf(withRuns({ runs: [running] }))).toEqual(
      expect.arrayContaining([
        '  last page     2 min ago',
        '  last wait     90 s ago: the service sent Retry-After: 600 s',
      ]),
    );
  });

  it.each([
    ['NEW', /^ {2}report job +parent 3: waiting for report 7f3a, NEW for \S+ h/],
    ['created', /^ {2}report job +parent 3: waiting for report 7f3a, created \S+ h ago$/],
  ])('names the parent whose report job is waited for (%s)', (status, line) => {
    const createdAt = at('2026-11-20T01:00:00Z');
    const jobs = [{ slice: 3, id: '7f3a', phase: 'waiting' as const, createdAt, status, statusSince: createdAt }];
    const slices = { done: 12, count: 64, parents: { gone: 0, skipped: 0 }, setAside: [] };
    const lines = linesOf(withRuns({ runs: [unfinished({ state: 'running', slices, jobs })] }));
    expect(lines).toContainEqual(expect.stringMatching(line));
  });

  it('names a parent that is set aside', () => {
    const setAside = [{ slice: 3, parent: 'a/b', error: 'ContractError', message: 'no XML' }];
    const slices = { done: 12, count: 64, parents: { gone: 2, skipped: 1 }, setAside };
    const lines = linesOf(withRuns({ runs: [unfinished({ state: 'failed', slices })] }));
    expect(lines).toContain('  parent 3      (a/b) is set aside: ContractError: no XML');
  });

  it('fits a terminal of 80 columns: wraps texts but no commands, and leaves out columns of runs', () => {
    const name = 'n'.repeat(40);
    const message = `Report service responded with 503 for page 8 (request ID ${'r'.repeat(20)}). Response: it is down`;
    const runs = [
      unfinished({ export: name, state: 'failed', lastIncident: { ...incident, message } }),
      nightlyRun({ export: name, state: 'damaged' }),
    ];
    const status = withRuns({ export: name, runs, reportsEverySeconds: 93_600, reportsOverdue: true });
    expect(linesOf(status, 80).slice(5)).toEqual([
      '  reports       no completed run has had any for 3 days; expected within 26 h',
      '                (expect.reportsEvery)',
      '  last error    30 min ago: ServiceUnavailableError: Report service responded',
      '                with 503 for page 8 (request ID rrrrrrrrrrrrrrrrrrrr). Response:',
      '                it is down',
      `  → to resume   npx --no -- report-exporter start ${name} --stack ReportExporter`,
      '  damaged       run 20261120T020000Z-1f3a5cb2d407 was published, but its',
      '                manifest is missing or was changed',
      `  → to see what npx --no -- report-exporter verify ${name} --run 20261120T020000Z-1f3a5cb2d407 --stack ReportExporter`,
      '',
      'RUN                            STATE    PAGES  REPORTS   BYTES  STARTED   TOOK',
      '20261120T020000Z-1f3a5cb2d407  failed   1,204   12,031  8.4 MB  14 h ago  –',
      '20261120T020000Z-1f3a5cb2d407  damaged  1,204   12,031  8.4 MB  14 h ago  5 min',
    ]);
  });
});

it('counts an export as stale if no run has had reports for longer than expected', () => {
  const entry = aStatus({ reportsEverySeconds: 864_000, reportsOverdue: true });
  expect(needsAttention(entry)).toBe(true);
  expect(rowsFor([entry])[1]).toMatch(/^nightly +stale .* no reports for 10 days$/);
});
