import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { runReportHtml } from '../../../lib/operator/run-report/page.ts';
import {
  adoptedRun,
  begunRun,
  type ExampleRun,
  eventfulRun,
  failedRun,
  reportOn,
  shortRun,
  uncountedRun,
} from './example-runs.ts';
import { elementsOf } from './file-parts.ts';

const fileOn = async (example: ExampleRun) => runReportHtml(await reportOn(example));

/** What a reader sees of the file where nothing runs. */
const textOf = (file: string) =>
  file
    .replaceAll(/<(style|script)[^>]*>[\s\S]*?<\/\1>/g, ' ')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ');

describe('the report as a file', () => {
  it('tells in words what the charts show', async () => {
    const text = textOf(await fileOn(eventfulRun()));
    for (const said of [
      'nightly completed',
      'Run 20261120T020000Z-1f3a5c',
      '124 pages, 12,334 reports, 8.7 MB',
      'Time 2 min 58 s',
      'Reports dated from 2026-11-19 02:00:01 UTC',
      'The longest time without a new page was 45.8 s, before page 38. Held up by 1 wait, 2 failed attempts.',
      'Half of the answers began within 529 ms (median), 95 of 100 within 1.8 s (p95)',
      '34 to 100, 99.5 on average.',
      '2 failed attempts: ServiceUnavailableError',
      'Wait of 45 s',
      'Report service answered 503 for page 84',
      'exports/nightly/date=2026-11-20/run=20261120T020000Z-1f3a5c/manifest.json',
      'page-000124.xml',
      'npx report-exporter verify nightly --run 20261120T020000Z-1f3a5c --out ./exports',
    ])
      expect(text).toContain(said);
  });

  it.each([
    ['one page', shortRun(), 'It exported every matching report: 1 page, 2 reports, 1.3 kB.'],
    ['no page yet', begunRun(), 'It has begun; no page is logged yet.'],
    ['adopted pages only', adoptedRun(), 'Nobody knows: every page was found in the store by whoever logged it'],
    ['reports that cannot be counted', uncountedRun(), 'Reports not counted'],
    [
      'a failure',
      failedRun(),
      'It failed behind page 61. Nothing of it is published; the next start goes on from there.',
    ],
  ])('makes sense of a run with %s', async (_, example, said) => {
    const text = textOf(await fileOn(example));
    expect(text).toContain(said);
    expect(text).not.toMatch(/undefined|NaN|Infinity|\[object|null/);
  });

  it('lets run and style only what stands in it, and nothing reach any network', async () => {
    const file = await fileOn(eventfulRun());
    const policy = /<meta http-equiv="Content-Security-Policy" content="([^"]*)">/.exec(file)?.[1] ?? '';
    const rules = new Map(
      policy
        .replaceAll('&#39;', "'")
        .split('; ')
        .map((rule) => [rule.split(' ')[0], rule]),
    );
    const hashOf = ({ text }: { text: string }) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
    const programs = elementsOf(file, 'script').filter(({ whole }) => !whole.startsWith('<script type='));
    const styles = elementsOf(file, 'style');
    expect([programs.length, styles.length]).toEqual([2, 2]);
    expect(rules.get('default-src')).toBe("default-src 'none'");
    expect(rules.get('script-src')).toBe(`script-src ${programs.map(hashOf).join(' ')}`);
    expect(rules.get('style-src')).toBe(`style-src ${styles.map(hashOf).join(' ')}`);
    expect(policy).not.toContain('unsafe');
    // The policy stands before all that it is to rule.
    expect(file.indexOf('Content-Security-Policy')).toBeLessThan(file.search(/<(style|script|link)/));
    expect(file).not.toMatch(/(?:src|href)="(?!data:,")/);
  });

  it('keeps the licence of the charting library with it', async () => {
    const file = await fileOn(eventfulRun());
    expect(file).toContain('/*! https://github.com/leeoniya/uPlot (v');
    expect(file).toContain('Permission is hereby granted, free of charge');
  });
});
