/** Progress of a run or of other long work, as a person reads it. */

import { describe, expect, it } from 'vitest';
import type { ExportEvent } from '../../../lib/core/ports.ts';
import { createPageCounter, createProgressDisplay } from '../../../lib/operator/output/progress.ts';
import { textStyleFor } from '../../../lib/operator/output/terminal.ts';
import { aRunId, aRunResult, at } from '../../support/builders.ts';

const run = aRunId();
const since = at('2026-11-20T02:00:00Z');
const totals = { pages: 0, reports: 0, bytes: 0 };
const started = { event: 'run-started', export: 'daily', run, since, executionNumber: 1, page: 1, ...totals } as const;
type PageEvent = Extract<ExportEvent, { readonly event: 'page-exported' | 'page-adopted' }>;
const page = (number: number): PageEvent => ({
  event: 'page-exported',
  export: 'daily',
  run,
  page: number,
  bytes: 1_000,
  reports: 10,
  totalPages: number,
  totalReports: 10 * number,
  totalBytes: 1_000 * number,
});

function aDisplay(isTTY = false, options: { readonly quiet?: boolean } = {}) {
  let output = '';
  let now = Date.parse('2026-11-20T03:00:00.999Z');
  const stream = { isTTY, columns: 40, write: (text: string) => (output += text) };
  const display = createProgressDisplay(stream, textStyleFor(stream, { NO_COLOR: '1' }), () => now, options);
  return {
    ...display.begin('daily'),
    begin: display.begin,
    pass(ms: number) {
      now += ms;
    },
    output: () => output,
    /** Without the time, which each line of a log begins with. */
    lines: () =>
      output
        .split('\n')
        .slice(0, -1)
        .map((line) => line.replace(/^20\S+Z /, '')),
  };
}

const fresh = aRunId();
const until = at('2026-11-20T02:30:00Z');
const sliced = { until, slices: { done: 3, count: 64 } };
const ofSlice = { export: 'daily', run, slice: 7 };
const ofRun = { export: 'daily', run };
const planned = {
  event: 'parents-planned',
  ...ofRun,
  parentExport: 'repos',
  parentRun: fresh,
  parents: 12,
} as const;

describe('the progress of a run', () => {
  it.each<[ExportEvent, string]>([
    [
      { ...started, event: 'run-resumed', ...sliced, page: 146, pages: 145 },
      `Resuming run ${run} after 145 pages (since 2026-11-20T02:00:00Z until 2026-11-20T02:30:00Z in 64 slices)`,
    ],
    [
      { event: 'slice-restarted', ...ofSlice, attempt: 2, isPass: false, reason: 'responded with 410' },
      'Slice 7 starts over (pass 2): responded with 410',
    ],
    [{ event: 'slice-restarted', ...ofSlice, attempt: 2, isPass: true, reason: 'its second pass follows' }, ''],
    // Before its first page, nothing else says that the run has parents.
    [
      {
        event: 'slice-set-aside',
        ...ofSlice,
        error: 'ContractError',
        message: 'not XML',
        slices: { done: 0, count: 64, parents: { gone: 0, skipped: 0 } },
      },
      'Parent 7 is set aside: ContractError: not XML',
    ],
    [planned, ''],
    [
      { event: 'service-asked-to-wait', ...ofSlice, page: 3, seconds: 9, inside: true },
      'Waiting 9 s before page 3 of slice 7 (Retry-After)',
    ],
    // The start says how its run ended.
    [{ event: 'run-completed', ...aRunResult(ofRun) }, ''],
  ])('has a line for %j', (event, line) => {
    const display = aDisplay();
    display.emit(event);
    expect(display.lines().join()).toBe(line);
  });

  it('shows in what a run in AWS differs from what was seen of it before', () => {
    const display = aDisplay();
    const seen = { export: 'daily', run, since, isResumed: false, ...totals };
    display.onProgress(seen);
    display.onProgress({ ...seen, pages: 2, reports: 20, bytes: 2_000 });
    display.pass(60_000);
    display.onProgress({ ...seen, run: fresh, pages: 1, reports: 10, bytes: 1_000 });
    expect(display.observed()).toEqual({ export: 'daily', run: fresh, since, pages: 1, reports: 10, bytes: 1_000 });
    expect(display.lines()).toEqual([
      `Run ${run}: exporting "daily" since 2026-11-20T02:00:00Z`,
      'Page 2 · 20 reports · 2 kB',
      `Run ${fresh}: exporting "daily" since 2026-11-20T02:00:00Z`,
      'Page 1 · 10 reports · 1 kB',
    ]);
    const parents = aDisplay();
    parents.onProgress(seen);
    parents.onProgress({ ...seen, slices: { done: 0, count: 12, parents: { gone: 0, skipped: 0 } } });
    expect(parents.lines()[1]).toMatch(/^0 of 12 parents · 0 pages/);
    const resumed = aDisplay();
    resumed.onProgress({ ...seen, isResumed: true, pages: 145 });
    expect(resumed.lines()).toEqual([`Resuming run ${run} after page 145 (since 2026-11-20T02:00:00Z)`]);
  });

  it('shows at most one page per minute in a log, with the time, and the rate once it is known', () => {
    const display = aDisplay();
    display.emit(started);
    display.emit(page(1));
    display.pass(59_999);
    display.emit(page(2));
    display.pass(1);
    display.emit(page(180));
    expect(display.output().split('\n').slice(1)).toEqual([
      '2026-11-20T03:00:00Z Page 1 · 10 reports · 1 kB',
      '2026-11-20T03:01:00Z Page 180 · 1,800 reports · 180 kB · 3.0 pages/s · 3 kB/s',
      '',
    ]);
  });

  it.each([false, true])(
    'shows only warnings, with the name of the export, if it is quiet, on a terminal or not (%s)',
    (isTTY) => {
      const display = aDisplay(isTTY, { quiet: true });
      display.notify('Using a simulated service');
      display.emit(started);
      display.emit({ ...started, event: 'run-resumed' });
      display.emit(page(1));
      expect(display.output()).toBe('');
      display.emit({ event: 'service-asked-to-wait', export: 'daily', run, page: 2, seconds: 60, inside: false });
      display.emit({ event: 'pages-without-reports', export: 'daily', run, page: 120, emptyPages: 100 });
      display.onRetry({ state: 'ExportPage', error: 'E', message: 'm', attempt: 1, maxAttempts: 20, delaySeconds: 8 });
      display.end();
      expect(display.lines()).toEqual([
        'daily: Waiting 60 s before page 2 (Retry-After)',
        'daily: 100 consecutive pages without reports, up to page 120',
        'daily: Retrying in 8 s (attempt 2 of 21): E: m',
      ]);
    },
  );

  it('rewrites one line on a terminal, cut to its width, and clears it for other lines', () => {
    const display = aDisplay(true);
    display.emit(page(1));
    display.pass(1_000);
    display.emit(page(2));
    display.notify('a message');
    display.end();
    expect(display.output()).toBe(
      '\r\x1b[KPage 1 · 10 reports · 1 kB\r\x1b[KPage 2 · 20 reports · 2 kB · 1.0 pages/\r\x1b[Ka message\n',
    );
  });
});

it('shows the slices that are done, the totals, and the time that is left by the slices since the run was resumed', () => {
  const slicePage = (done: number, pages: number): ExportEvent => ({
    ...page(pages),
    page: 1,
    slice: 13,
    slices: { done, count: 64 },
  });
  const display = aDisplay();
  display.emit({ ...started, event: 'run-resumed', slices: { done: 60, count: 64 }, pages: 400 });
  display.pass(60_000);
  display.emit(slicePage(60, 401));
  display.pass(60_000);
  display.emit(slicePage(62, 418));
  expect(display.lines().slice(1)).toEqual([
    '60 of 64 slices · 401 pages · 4,010 reports · 401 kB',
    '62 of 64 slices · 418 pages · 4,180 reports · 418 kB · 2 min left',
  ]);
});

it('a retry that comes at once says so, and of how many it is', () => {
  const display = aDisplay();
  display.onRetry({ state: 'ExportPage', error: 'E', message: 'm', attempt: 1, maxAttempts: 20, delaySeconds: 0.04 });
  expect(display.lines()).toEqual(['Retrying now (attempt 2 of 21): E: m']);
});

it('shows how many runs are in progress, if there are several, and whose a warning is', () => {
  const display = aDisplay(true);
  const other = display.begin('weekly');
  display.emit(page(3));
  display.pass(1_000);
  other.emit(page(4));
  other.emit({ event: 'service-asked-to-wait', export: 'weekly', run, page: 5, seconds: 60, inside: false });
  display.end();
  display.pass(1_000);
  other.emit(page(5));
  other.end();
  expect(display.output().split('\r\x1b[K').slice(1)).toEqual([
    '2 runs in progress · 3 pages · 3 kB',
    '2 runs in progress · 7 pages · 7 kB',
    'weekly: Waiting 60 s before page 5 (Retry-After)\n',
    'Page 5 · 50 reports · 5 kB · 1.0 pages/',
    '',
  ]);
});

it.each([
  [true, '\r\x1b[KVerified 1 page · 1 kB\r\x1b[KVerified 2 pages · 2 kB\r\x1b[K'],
  [false, ''],
])('a page counter counts on a terminal only (%s), and clears its line at the end', (isTTY, written) => {
  let output = '';
  let now = 0;
  const counter = createPageCounter({ isTTY, write: (text) => (output += text) }, 'Verified', () => now);
  counter.add(1_000);
  now += 1_000;
  counter.add(1_000);
  counter.end();
  expect(output).toBe(written);
});
