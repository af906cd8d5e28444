import { describe, expect, it } from 'vitest';
import { epochMsOf, instantOf } from '../../../lib/core/timestamps.ts';
import { renderExportIndex, renderOverview, renderUnreadableRun } from '../../../lib/operator/run-report/list-pages.ts';
import { type Html, html } from '../../../lib/operator/run-report/markup.ts';
import type { RunHistory } from '../../../lib/operator/run-report/run-history.ts';
import { type RunContext, renderRunReport } from '../../../lib/operator/run-report/run-report.ts';
import { collectExample, eventfulRun } from './example-runs.ts';
import { textOf } from './html-elements.ts';
import {
  aHistory,
  aHistoryRun,
  anExportIndex,
  dailyHistory,
  exampleOverview,
  historyWithGap,
  origin,
} from './example-histories.ts';

const addressOf = (run: string) => `${run}.html`;
const hrefsOf = (html: string) =>
  [...html.matchAll(/href="([^"]*)"/g)].map(([, href]) => href).filter((href) => href !== 'data:,');
const renderRun = async (context?: RunContext) => renderRunReport(await collectExample(eventfulRun()), context);
const renderIndex = (history: RunHistory, links: readonly Html[] = []) =>
  renderExportIndex(anExportIndex(history), { addressOf, links, origin });

describe('the history in the report of a run', () => {
  it('lists the recent runs, and which of them the report is about', async () => {
    const runs = [
      aHistoryRun(0),
      aHistoryRun(1),
      aHistoryRun(2, { state: 'abandoned', pages: 9, reports: null, bytes: 900 }),
    ];
    const text = textOf(await renderRun({ history: aHistory({ runs, hasOlder: true }) }));
    expect(text).toContain('The 3 newest runs: 2 completed, 1 abandoned.');
    expect(text).toContain('2026-11-20 02:00:00 this run completed 3 min 124 12,334 8.7 MB');
    expect(text).toContain('2026-11-19 02:00:00 completed 3 min 124 12,334 8.7 MB');
    expect(text).toContain('2026-11-18 02:00:00 abandoned 3 min 9 – 900 bytes');
  });

  it('says if the run is older than those it lists', async () => {
    const history = aHistory({ runs: [aHistoryRun(-1)], hasOlder: true });
    expect(textOf(await renderRun({ history }))).toContain('The newest run: 1 completed. This run is older.');
  });

  it.each([
    [null, 'To export them, start a run with --since at or before the beginning of the gap.'],
    ['next-run', 'The next run starts before them, unless it is given another --since .'],
    ['unfinished-run', 'The unfinished run covers them once it is completed.'],
  ] as const)('shows a gap below the run that starts at its end, closed by %s', async (closedBy, expected) => {
    const text = textOf(await renderRun({ history: historyWithGap(closedBy) }));
    const gap = `Gap of 18 h 30 min. No completed run covers the reports dated from 2026-11-16 02:00:00 UTC to 2026-11-16 20:30:00 UTC . ${expected}`;
    expect(text).toContain(gap);
    expect(text.slice(0, text.indexOf(gap))).toContain('2026-11-17 02:00:00 completed');
    expect(text.slice(text.indexOf(gap))).toContain('2026-11-16 02:00:00 completed');
  });

  it('says what could not be read, and why', async () => {
    const error = { name: 'PageConflictError', message: 'item 7 was changed' };
    const text = textOf(await renderRun({ history: aHistory({ runs: [aHistoryRun(1)], error, unknownDates: 1 }) }));
    for (const expected of [
      'Older runs cannot be listed: PageConflictError: item 7 was changed',
      'The dates that 1 run covered are not known',
    ])
      expect(text).toContain(expected);
  });

  it('links to no other page, because only one is written', async () => {
    expect(hrefsOf(await renderRun({ history: dailyHistory(3) }))).toEqual([]);
  });
});

describe('the index of an export', () => {
  it('has totals, its schedule, its gaps, and a link to each run', () => {
    const page = renderIndex(historyWithGap(), [html`<a href="../index.html">All exports</a>`]);
    const text = textOf(page);
    expect(text).toContain('The 12 newest runs: 11 completed, 1 abandoned.');
    expect(text).toContain('There is 1 gap between the dates that they cover.');
    expect(text).toContain('Schedule cron(0 2 * * ? *) Europe/Berlin');
    expect(hrefsOf(page)).toEqual(['../index.html', ...historyWithGap().runs.map(({ run }) => `${run}.html`)]);
  });

  it('counts empty runs as such, in the sentence, the figures and the duration', () => {
    const empty = { state: 'empty', reports: 0 } as const;
    const runs = [aHistoryRun(0, empty), aHistoryRun(1, empty), aHistoryRun(2)];
    const text = textOf(renderIndex(aHistory({ runs })));
    expect(text).toContain('All 3 runs: 1 completed, 2 empty.');
    expect(text).toContain('Runs 3 Completed 1 Empty 2 Pages');
    expect(text).not.toContain('Half of');
    expect(textOf(renderIndex(dailyHistory(3)))).toMatch(/Half of the completed runs took .* Completed 3 Pages/);
  });

  it('has the newest gap above the table, and all of them in it', () => {
    const { runs } = dailyHistory(10);
    const gaps = runs.slice(0, 8).map(({ run, startedAt }) => ({
      from: instantOf(epochMsOf(startedAt) - 86_400_000),
      to: startedAt,
      before: run,
      closedBy: null,
    }));
    const text = textOf(renderIndex(aHistory({ runs, gaps: gaps.toReversed() })));
    const [header = '', table = ''] = text.split('Started (UTC)');
    expect(header).toContain('There are 8 gaps');
    expect(header.match(/Gap of .* to 2026-11-20/)).toHaveLength(1);
    expect(table.match(/Gap of/g)).toHaveLength(8);
  });

  it('says that an export has no runs', () => {
    const text = textOf(renderIndex(aHistory()));
    expect(text).toContain('No runs are known.');
    expect(text).not.toMatch(/undefined|NaN|Infinity/);
  });

  it('names runs that cannot be read', () => {
    const [run] = dailyHistory(1).runs.map(({ run }) => run);
    const unreadable = new Map(run === undefined ? [] : [[run, { name: 'PageConflictError', message: 'was changed' }]]);
    const index = anExportIndex(dailyHistory(1), { unreadable, schedule: null, watermark: null, completedAt: null });
    const text = textOf(renderExportIndex(index, { addressOf, origin }));
    expect(text).toContain(`Run ${run} cannot be read. PageConflictError: was changed`);
  });
});

describe('the page of a run that cannot be read', () => {
  it('says why, and does not call it completed', () => {
    const [run] = dailyHistory(1).runs;
    if (run === undefined) throw new Error('no run');
    const links = [html`<a href="index.html">All runs</a>`];
    const error = { name: 'PageConflictError', message: 'was changed' };
    const page = renderUnreadableRun({ ...run, export: 'nightly', error }, { links, origin });
    expect(textOf(page)).toContain('nightly unreadable');
    expect(textOf(page)).toContain('This run cannot be read. PageConflictError. was changed');
    expect(textOf(page)).not.toContain('completed');
    expect(page).toContain('class="state bad"');
    expect(hrefsOf(page)).toEqual(['index.html']);
  });
});

describe('the overview of exports', () => {
  it('lists what needs attention first, with links to the exports that can be read', () => {
    const page = renderOverview(exampleOverview(), origin);
    expect(hrefsOf(page)).toEqual(
      ['invoices-eu', 'archive', 'payments', 'returns', 'invoices-de', 'nightly', 'shipments'].map(
        (name) => `${name}/index.html`,
      ),
    );
    const text = textOf(page);
    expect(text).toContain('orders unreadable – – – – PageConflictError: The state of export orders');
    expect(text).toContain(
      'payments stale 2026-11-17 02:04:00 12,334 8.7 MB 30 Not completed for 1 d 12 h. 2 unreadable runs',
    );
    expect(text).toContain('invoices-de completed 2026-11-20 02:02:58 12,334 8.7 MB 30 1 gap');
  });
});
