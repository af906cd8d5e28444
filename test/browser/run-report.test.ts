/** Opens run reports as a person does: in a real browser, from a file, without network access. */

import { mkdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { renderExportIndex, renderOverview } from '../../lib/operator/run-report/list-pages.ts';
import { html } from '../../lib/operator/run-report/markup.ts';
import { type RunContext, renderRunReport } from '../../lib/operator/run-report/run-report.ts';
import {
  adoptedRun,
  collectExample,
  type ExampleRun,
  eventfulRun,
  failedRun,
  longRun,
  newRun,
  pageEntries,
  singlePageRun,
  someRequest,
  someRunFacts,
  uncountedRun,
} from '../operator/run-report/example-runs.ts';
import {
  aHistory,
  aHistoryRun,
  anExportIndex,
  dailyHistory,
  exampleOverview,
  historyWithGap,
  origin,
} from '../operator/run-report/example-histories.ts';
import { at } from '../support/builders.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../support/temporary-directory.ts';
import { findChromium, launchChromium, openFile } from './chromium.ts';
import { measureContrasts } from './contrast.ts';

let browser: Browser;
let directory: TemporaryDirectory;
/** Screenshots are kept for visual inspection. */
const screenshots = join(tmpdir(), 'report-exporter-screenshots');

beforeAll(async () => {
  browser = await launchChromium();
  directory = await temporaryDirectory();
  await mkdir(screenshots, { recursive: true });
});

afterAll(async () => {
  await browser?.close();
  await directory?.remove();
});

const examples: readonly (readonly [name: string, example: () => ExampleRun, charts: readonly string[]])[] = [
  ['eventful', eventfulRun, ['timeline', 'phases', 'latency', 'bytes', 'reports']],
  ['single-page', singlePageRun, ['timeline', 'phases']],
  ['new', newRun, []],
  ['adopted', adoptedRun, ['timeline']],
  ['uncounted', uncountedRun, ['timeline', 'phases', 'latency', 'bytes']],
  ['failed', failedRun, ['timeline', 'phases', 'latency']],
  ['long', longRun, ['timeline', 'phases', 'latency', 'bytes', 'reports']],
];

const displays = {
  light: { colorScheme: 'light', viewport: { width: 1_400, height: 900 } },
  dark: { colorScheme: 'dark', viewport: { width: 1_400, height: 900 } },
  narrow: { colorScheme: 'light', viewport: { width: 400, height: 900 } },
  'dark-narrow': { colorScheme: 'dark', viewport: { width: 400, height: 900 } },
} as const;

async function open(name: string, example: ExampleRun, options: BrowserContextOptions = {}, context?: RunContext) {
  return await openHtml(name, renderRunReport(await collectExample(example), context), options);
}

async function openHtml(name: string, text: string, options: BrowserContextOptions) {
  const path = join(directory.path, `${name}.html`);
  await writeFile(path, text);
  return await openFile(browser, path, options);
}

const addressOf = (run: string) => `${run}.html`;

/** A run among others, the indexes of exports and the overview of a stack. */
const historyPages: readonly (readonly [name: string, render: () => string | Promise<string>])[] = [
  [
    'with-history',
    async () => {
      const links = [html`<a href="index.html">All runs</a>`];
      return renderRunReport(await collectExample(eventfulRun()), { history: dailyHistory(20), links });
    },
  ],
  ['index', () => renderExportIndex(anExportIndex(dailyHistory(30)), { addressOf, origin })],
  ['gap', () => renderExportIndex(anExportIndex(historyWithGap()), { addressOf, origin })],
  ['overview', () => renderOverview(exampleOverview(), origin)],
];

describe('the run report', () => {
  describe.each(Object.entries(displays))('in %s', (display, options) => {
    it.each(examples)(
      'shows the example run "%s" completely, legibly, and without network requests',
      async (name, example, charts) => {
        await using opened = await open(`${name}-${display}`, example(), options);
        const { page, requests, errors } = opened;
        expect(await page.locator('.chart').evaluateAll((elements) => elements.map(({ id }) => id))).toEqual(charts);
        for (const chart of charts) expect(await paintedFraction(page, chart)).toBeGreaterThan(0.002);
        expect(await page.evaluate(findOverflow)).toEqual([]);
        const lowContrast = (await page.evaluate(measureContrasts)).filter(({ ratio }) => ratio < 4.5);
        expect(lowContrast).toEqual([]);
        expect(await page.getByRole('heading', { level: 1 }).innerText()).toContain('nightly');
        await page.screenshot({ path: join(screenshots, `${name}-${display}.png`), fullPage: true });
        expect({ requests, errors }).toEqual({ requests: [], errors: [] });
      },
    );

    it.each(historyPages)('shows the history "%s" completely, legibly, and without requests', async (name, render) => {
      await using opened = await openHtml(`${name}-${display}`, await render(), options);
      const { page, requests, errors } = opened;
      expect(await page.evaluate(findOverflow)).toEqual([]);
      expect((await page.evaluate(measureContrasts)).filter(({ ratio }) => ratio < 4.5)).toEqual([]);
      await page.screenshot({ path: join(screenshots, `${name}-${display}.png`), fullPage: true });
      expect({ requests, errors }).toEqual({ requests: [], errors: [] });
    });
  });

  it.each([1_200, 970, 950, 700, 390, 320])(
    'shows all columns of its tables in a window %d pixels wide, without scrolling sideways',
    async (width) => {
      const rows = exampleOverview().map((row, index) =>
        index === 1 ? { ...row, entry: { ...row.entry, export: 'orders_EU-2_with-a-very-long-name-0123456' } } : row,
      );
      const wideRun = aHistoryRun(0, { state: 'abandoned', pages: 123_456, reports: 12_345_678 });
      const viewport = { width, height: 900 };
      const pages = {
        exports: renderOverview(rows, origin),
        runs: renderExportIndex(anExportIndex(aHistory({ runs: [wideRun] })), { addressOf, origin }),
        pages: renderRunReport(await collectExample(longRun())).replaceAll('<details>', '<details open>'),
      };
      for (const [name, page] of Object.entries(pages)) {
        await using opened = await openHtml(`${name}-${width}`, page, { viewport });
        expect(await opened.page.evaluate(findOverflow)).toEqual([]);
        await opened.page.screenshot({ path: join(screenshots, `${name}-${width}.png`), fullPage: true });
        if (name !== 'exports') continue;
        const note = opened.page.getByText('responded with 502 Bad Gateway');
        expect((await note.boundingBox())?.width).toBeGreaterThan(170);
      }
    },
  );

  it('marks the run in the list from which a link leads to it', async () => {
    const [newest, older] = dailyHistory(2).runs;
    const index = renderExportIndex(anExportIndex(dailyHistory(2)), { addressOf, origin });
    await using opened = await openHtml('target', index, displays.light);
    const { page } = opened;
    await page.evaluate((hash) => {
      location.hash = hash;
    }, older?.run ?? '');
    const backgroundOf = (run = '') =>
      page.locator(`[id="${run}"]`).evaluate((row) => getComputedStyle(row).backgroundColor);
    expect(await backgroundOf(older?.run)).not.toBe(await backgroundOf(newest?.run));
  });

  it('redraws its charts when the color scheme changes from light to dark', async () => {
    await using opened = await open('recolored', eventfulRun(), displays.light);
    const { page, errors } = opened;
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const [lightChart, lightBackground] = [(await canvasOf(page, 'latency')).hash, await background()];
    await page.emulateMedia({ colorScheme: 'dark' });
    await expect.poll(async () => (await canvasOf(page, 'latency')).hash).not.toBe(lightChart);
    expect(await background()).not.toBe(lightBackground);
    expect(await paintedFraction(page, 'latency')).toBeGreaterThan(0.002);
    expect(errors).toEqual([]);
  });

  it('resizes its charts with the window', async () => {
    await using opened = await open('resized', eventfulRun(), displays.light);
    const { page } = opened;
    await page.setViewportSize({ width: 400, height: 900 });
    await expect.poll(() => page.evaluate(findOverflow)).toEqual([]);
    expect(await paintedFraction(page, 'phases')).toBeGreaterThan(0.002);
  });

  it('describes the point under the pointer, in all page charts', async () => {
    await using opened = await open('pointed', eventfulRun(), displays.light);
    const { page } = opened;
    const plot = page.locator('#latency .u-over');
    await plot.scrollIntoViewIfNeeded();
    const box = await plot.boundingBox();
    await page.mouse.move((box?.x ?? 0) + (box?.width ?? 0) / 2, (box?.y ?? 0) + 20);
    await expect.poll(() => page.locator('#latency-readout').innerText()).toMatch(/^Page 6\d · \d+ ms$/);
    expect(await page.locator('#phases-readout').innerText()).toMatch(
      /^Page 6\d · .* between pages, .* latency, .* transfer$/,
    );
  });

  it('compares the runs by bars, also without JavaScript', async () => {
    const runs = [aHistoryRun(0), aHistoryRun(1, { pages: 62 })];
    const page = renderExportIndex(anExportIndex(aHistory({ runs })), { addressOf, origin });
    await using opened = await openHtml('bars', page, { javaScriptEnabled: false });
    const widths = await opened.page
      .locator('td:nth-child(4) rect')
      .evaluateAll((bars) => bars.map((bar) => bar.getBoundingClientRect().width));
    const [widest = 0, half = 0] = widths;
    expect(widest).toBeGreaterThan(50);
    expect(half / widest).toBeCloseTo(0.5, 1);
  });

  it('prints dark on light, also from a dark screen', async () => {
    await using opened = await open('printed', eventfulRun(), displays.dark);
    const { page } = opened;
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
    await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
    expect(await page.evaluate(() => getComputedStyle(document.body).backgroundColor)).toBe('rgb(251, 251, 250)');
    expect((await page.pdf({ format: 'A4' })).length).toBeGreaterThan(20_000);
  });

  it('shows the same facts without JavaScript', async () => {
    await using opened = await open('unscripted', eventfulRun(), { javaScriptEnabled: false });
    const { page } = opened;
    const text = await page.locator('body').innerText();
    expect(text).toContain('124 pages, 12,334 reports, 8.7 MB');
    expect(text).toContain('within 529 ms (median), 95% within 1.8 s (p95). The slowest took 2.2 s');
    expect(
      await page
        .locator('.chart')
        .evaluateAll((elements) => elements.filter((element) => element.checkVisibility()).length),
    ).toBe(0);
  });

  it('is accessible by screen reader and keyboard', async () => {
    await using opened = await open('accessible', eventfulRun(), displays.light);
    const { page } = opened;
    const latency = page.getByRole('img', { name: 'Service latency' });
    const described = await latency.getAttribute('aria-describedby');
    expect(await page.locator(`#${described}`).innerText()).toContain('(median)');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    const table = page.getByRole('table', { name: 'Pages', exact: true });
    expect(await table.getByRole('row').count()).toBeGreaterThan(10);
    expect(await page.evaluate(findOverflow)).toEqual([]);
    const levels = await page.locator('h1, h2').evaluateAll((elements) => elements.map(({ tagName }) => tagName));
    expect(levels.filter((level) => level === 'H1')).toHaveLength(1);
  });

  it('shows hostile text without executing it', async () => {
    const attacks = [
      `</script><script>window.exploited = 'script'</script>`,
      `<img src=x onerror="window.exploited = 'image'">`,
      `" onmouseover="window.exploited = 'attribute'`,
      `'-window.exploited-'\u2028\u202e</style><svg onload=window.exploited=1>`,
    ];
    const [script = '', image = '', attribute = ''] = attacks;
    const request = { ...someRequest, filter: { [attribute]: script }, format: image };
    const failure = { at: at('2026-11-20T02:00:01Z'), error: script, message: attacks.join(' ') };
    const lastIncident = { kind: 'failed-attempt', ...failure } as const;
    const run = someRunFacts({ export: script, folder: image, request, lastIncident });
    const origin = { deployment: attribute, deploymentOption: script };
    await using opened = await open('hostile', { run, entries: pageEntries(run, { pages: 3 }), origin });
    const { page, requests, errors } = opened;
    expect(await page.locator('h1').innerText()).toContain(script);
    expect(await page.locator('section', { hasText: 'Retries and waits' }).innerText()).toContain(image);
    expect(await page.evaluate(() => 'exploited' in window)).toBe(false);
    expect(await page.locator('img, svg').count()).toBe(0);
    expect({ requests, errors }).toEqual({ requests: [], errors: [] });
    // The content security policy would block a script that was injected nevertheless.
    await page.evaluate(() => {
      document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.exploited = true">');
      document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.exploited = true' }));
    });
    const blocked = (what: string) => errors.filter((error) => error.includes(what)).length;
    await expect.poll(() => [blocked('inline script'), blocked('event handler')]).toEqual([1, 1]);
    expect(await page.evaluate(() => 'exploited' in window)).toBe(false);
  });

  it('wraps very long words in a narrow window', async () => {
    const endless = 'w'.repeat(900);
    const request = { ...someRequest, filter: { [endless]: endless }, format: endless };
    const failure = { at: at('2026-11-20T02:00:01Z'), error: endless, message: endless };
    const lastIncident = { kind: 'failed-run', ...failure } as const;
    const run = someRunFacts({ export: endless, folder: endless, request, lastIncident });
    const delays = () => ({ failedAttempts: 9_007_199_254_740, waitedSeconds: 9_007_199_254 });
    const origin = { deployment: endless, deploymentOption: endless };
    const example = {
      run: { ...run, state: 'failed' as const },
      entries: pageEntries(run, { pages: 3, delays }),
      origin,
    };
    await using opened = await open('endless', example, displays.narrow);
    expect(await opened.page.evaluate(findOverflow)).toEqual([]);
  });

  it('opens for a run of a million pages', async () => {
    await using opened = await open('million', longRun(1_000_000), displays.light);
    const { page, errors } = opened;
    expect(await page.locator('.lead').innerText()).toContain('page 1,000,000');
    expect(await paintedFraction(page, 'latency')).toBeGreaterThan(0.01);
    expect(errors).toEqual([]);
  });
});

it('explains how to install Chromium if it is missing', () => {
  expect(() => findChromium({ PATH: directory.path })).toThrow(/^No Chromium found. .*apt-get install chromium.*$/);
  expect(findChromium({ CHROMIUM: process.execPath })).toBe(process.execPath);
});

/** The fraction of a chart's canvas that is painted, from 0 to 1, and a hash of its pixels. */
async function canvasOf(page: Page, chart: string): Promise<{ readonly painted: number; readonly hash: number }> {
  return await page.locator(`#${chart} canvas`).evaluate((canvas: HTMLCanvasElement) => {
    // Reading pixels switches a canvas to software rendering, so a copy is read.
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
    copy?.drawImage(canvas, 0, 0);
    const { data } = copy?.getImageData(0, 0, canvas.width, canvas.height) ?? { data: [] };
    let painted = 0;
    let hash = 0;
    for (let index = 0; index < data.length; index += 1) {
      if (index % 4 === 3 && (data[index] ?? 0) > 60) painted += 1;
      hash = (Math.imul(hash, 31) + (data[index] ?? 0)) | 0;
    }
    return { painted: (4 * painted) / data.length, hash };
  });
}

const paintedFraction = async (page: Page, chart: string) => (await canvasOf(page, chart)).painted;

/** The elements that extend beyond the right edge of the window. Runs in the page. */
function findOverflow(): string[] {
  const { clientWidth, scrollWidth } = document.documentElement;
  if (scrollWidth <= clientWidth) return [];
  return [...document.querySelectorAll('body *')]
    .filter((element) => element.getBoundingClientRect().right > clientWidth + 1)
    .map((element) => element.outerHTML.slice(0, 100));
}
