import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { RunFacts } from '../../../lib/operator/run-report/data.ts';
import { renderRunReport } from '../../../lib/operator/run-report/run-report.ts';
import {
  adoptedRun,
  collectExample,
  type ExampleRun,
  emptyRun,
  eventfulRun,
  failedRun,
  newRun,
  pageEntries,
  singlePageRun,
  someRunFacts,
  uncountedRun,
} from './example-runs.ts';
import { at } from '../../support/builders.ts';
import { elementsOf, textOf } from './html-elements.ts';

const renderExample = async (example: ExampleRun) => renderRunReport(await collectExample(example));

describe('the run report', () => {
  it('states as text what the charts show', async () => {
    const text = textOf(await renderExample(eventfulRun()));
    for (const expected of [
      'nightly completed',
      'Run 20261120T020000Z-1f3a5c',
      '124 pages, 12,334 reports, 8.7 MB',
      'Duration 2 min 58 s',
      'Reports dated from 2026-11-19 02:00:01 UTC',
      '124 pages logged from 2026-11-20 02:00:00 to 02:02:58 UTC.',
      'The longest time without a new page was 45.8 s, before page 38. Delayed by waits of 45 s and 2 failed attempts.',
      '50% of the responses started within 529 ms (median), 95% within 1.8 s (p95)',
      '34 to 100, 99.5 on average.',
      '2 failed attempts before 2 pages',
      '45 s of waits requested by the service, before 1 page',
      'Waited 38 2026-11-20 02:01:14 – 45 s 84',
      'exports/nightly/date=2026-11-20/run=20261120T020000Z-1f3a5c/manifest.json',
      'page-000124.xml',
      ' report-exporter verify nightly --run 20261120T020000Z-1f3a5c --out ./exports',
    ])
      expect(text).toContain(expected);
  });

  it.each([
    ['with one page', singlePageRun(), 'Exported every matching report: 1 page, 2 reports, 1.3 kB.'],
    ['without pages', newRun(), 'The run has started. No page is logged yet.'],
    ['with adopted pages only', adoptedRun(), 'Not available: every page was adopted.'],
    [
      'that found nothing and published nothing',
      emptyRun(),
      'Found no reports. Nothing is published, because publishEmptyRuns is false. The next scheduled run starts at the watermark.',
    ],
    ['with uncounted reports', uncountedRun(), 'Reports not counted'],
    ['that failed', failedRun(), 'Failed after page 61. Nothing is published. The next start resumes the run.'],
  ])('describes a run %s', async (_, example, expected) => {
    const text = textOf(await renderExample(example));
    expect(text).toContain(expected);
    expect(text).not.toMatch(/undefined|NaN|Infinity|\[object|null/);
  });

  it('says where a bounded run ends, how many slices are done, and why others are set aside', async () => {
    const setAside = [{ slice: 3, error: 'ContractError', message: 'no XML' }];
    const slices = { done: 12, count: 64, setAside };
    const run = someRunFacts({ until: at('2026-11-20T00:00:00Z'), bounded: true, slices });
    const text = textOf(renderRunReport(await collectExample({ ...eventfulRun(), run })));
    for (const expected of [
      'Reports dated from 2026-11-19 02:00:01 UTC and before (bounded run) 2026-11-20 00:00:00 UTC Slices 12 of 64 done',
      'Slice 3 is set aside: ContractError. no XML',
    ])
      expect(text).toContain(expected);
  });

  it('says why a run failed, or what delayed it last while it runs', async () => {
    const text = textOf(await renderExample(failedRun()));
    expect(text).toContain('ContractError. Report service sent XML that is not well-formed');
    expect(text).toContain('7 failed attempts before 1 page');
    const last = { at: at('2026-11-20T02:02:00Z'), error: 'ServiceUnavailableError', message: 'it is down' };
    const run = { ...uncountedRun().run, lastIncident: { kind: 'failed-attempt', ...last } as const };
    expect(textOf(await renderExample({ ...uncountedRun(), run }))).toContain(
      'Retries and waits None recorded: no failed attempts, and no waits requested by the service. ' +
        'Last at 2026-11-20 02:02:00 : ServiceUnavailableError. it is down',
    );
  });

  it('states a value that all pages share, without a chart of it', async () => {
    const file = await renderExample(adoptedRun());
    expect(textOf(file)).toContain('Reports on each page 100');
    expect(file).not.toContain('id="reports"');
    expect(await renderExample(eventfulRun())).toContain('id="reports"');
  });

  it.each([
    [39, 'Between 480 ms and 518 ms, 499 ms in the middle (median). The slowest was page 39.'],
    [
      40,
      '50% of the responses started within 499 ms (median), 95% within 517 ms (p95). The slowest took 519 ms, for page 40.',
    ],
  ])('states percentiles only of many pages, not of %i', async (pages, expected) => {
    const run = someRunFacts();
    const entries = [...pageEntries(run, { pages, latencyMs: (page) => 479 + page })];
    const text = textOf(await renderExample({ run, entries }));
    expect(text).toContain(expected);
    expect(text.includes('p95')).toBe(pages >= 40);
  });

  it.each<[string, Partial<RunFacts>, string]>([
    ['with a schedule', {}, 'The next scheduled run starts at the watermark.'],
    [
      'without a schedule',
      { schedule: { kind: 'manual' } },
      'There is no schedule: the next run starts at the watermark.',
    ],
    [
      'with a disabled schedule',
      { schedule: { kind: 'disabled', expression: 'rate(1 day)', timeZone: 'UTC' } },
      'The schedule is disabled: the next run starts at the watermark.',
    ],
    ['whose schedule cannot be read', { schedule: null }, 'The next run starts at the watermark.'],
    [
      'with an overlap',
      { sincePolicy: { from: 'watermark', overlapMs: 3_600_000 } },
      'The next scheduled run starts 1 h before the watermark (overlap).',
    ],
    [
      'with a lookback window',
      { sincePolicy: { from: 'lookback', lookbackMs: 172_800_000 } },
      'The next scheduled run starts 2 d before its scheduled time (lookbackWindow), or at the watermark if that is earlier.',
    ],
  ])('says where the next run of an export %s starts', async (_, facts, expected) => {
    const run = someRunFacts(facts);
    expect(textOf(await renderExample({ run, entries: pageEntries(run, { pages: 2 }) }))).toContain(`kB. ${expected}`);
  });

  it('does not suggest to verify a completed run without a manifest', async () => {
    const text = textOf(await renderExample(emptyRun()));
    expect(text).toContain('Manifest not written; nothing is published');
    expect(text).not.toContain('report-exporter verify');
  });

  it('names the service of the request', async () => {
    expect(textOf(await renderExample(eventfulRun()))).toContain('Service https://reports.example.com');
  });

  it('allows only its own styles and scripts, and no network requests', async () => {
    const file = await renderExample(eventfulRun());
    const policy = /<meta http-equiv="Content-Security-Policy" content="([^"]*)">/.exec(file)?.[1] ?? '';
    const directives = new Map(
      policy
        .replaceAll('&#39;', "'")
        .split('; ')
        .map((directive) => [directive.split(' ')[0], directive]),
    );
    const hashOf = ({ text }: { text: string }) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
    const scripts = elementsOf(file, 'script').filter(({ whole }) => !whole.startsWith('<script type='));
    const styles = elementsOf(file, 'style');
    expect([scripts.length, styles.length]).toEqual([2, 2]);
    expect(directives.get('default-src')).toBe("default-src 'none'");
    expect(directives.get('script-src')).toBe(`script-src ${scripts.map(hashOf).join(' ')}`);
    expect(directives.get('style-src')).toBe(`style-src ${styles.map(hashOf).join(' ')}`);
    expect(policy).not.toContain('unsafe');
    // The policy applies only to what follows it.
    expect(file.indexOf('Content-Security-Policy')).toBeLessThan(file.search(/<(style|script|link)/));
    expect(file).not.toMatch(/(?:src|href)="(?!data:,")/);
  });

  it('includes the license of the charting library', async () => {
    const file = await renderExample(eventfulRun());
    expect(file).toContain('/*! https://github.com/leeoniya/uPlot (v');
    expect(file).toContain('Permission is hereby granted, free of charge');
  });
});
