/** Opens run reports as a person does: in a real browser, from a file, without network access. */

import { mkdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { renderPage, type RunPage } from '../../lib/operator/run-report/render-page.ts';
import {
  aRunView,
  eventfulRun,
  type ExampleRun,
  failedRun,
  killedRun,
  longRun,
  newRun,
  origin,
  pageEntries,
  readExample,
  slicedRun,
  someRequest,
  tinyRun,
  uncountedRun,
} from '../operator/run-report/example-runs.ts';
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

const displays = {
  light: { colorScheme: 'light', viewport: { width: 1_400, height: 900 } },
  dark: { colorScheme: 'dark', viewport: { width: 1_400, height: 900 } },
  phone: { colorScheme: 'light', viewport: { width: 320, height: 700 } },
} as const;

async function open(name: string, data: RunPage, options: BrowserContextOptions = displays.light) {
  const path = join(directory.path, `${name}.html`);
  await writeFile(path, renderPage(data));
  return await openFile(browser, path, options);
}

const openRun = async (name: string, example: ExampleRun, options?: BrowserContextOptions) =>
  await open(name, { ...origin, run: await readExample(example, { request: someRequest }) }, options);

/** The whole text of a run's page, with all details open. */
async function textOf(page: Page): Promise<string> {
  await page.locator('details').evaluateAll((all: HTMLDetailsElement[]) => all.forEach((each) => (each.open = true)));
  return (await page.locator('body').innerText()).replaceAll(/\s+/g, ' ');
}

const charts = ['logged-chart', 'time-chart', 'size-chart'];
const endless = 'w'.repeat(900);
const runs: readonly (readonly [name: string, example: () => ExampleRun, texts: readonly string[]])[] = [
  [
    'eventful',
    eventfulRun,
    [
      'nightly completed Exported every matching report. Pages 124 Reports 12,400 Size 8.7 MB Duration 2 min 58 s Pages per minute 41.8',
      'Reports dated from 2026-11-19 02:00:01 Started 2026-11-20 02:00:00 Completed 2026-11-20 02:02:57',
      'Time to response: median, p95, longest 529 ms, 1.8 s, 2.2 s',
      'Failed attempts 2 Waits requested by the service 45 s',
      '2026-11-20 02:01:14 38 0 45 s',
      '2026-11-20 02:02:02 84 1 0 ms',
      '{"date":{"gte":"2026-11-19T02:00:01Z"},"type":"daily"}',
      'exports/nightly/date=2026-11-20/run=20261120T020000Z-1f3a5cb2d407/manifest.json',
      'npx --no -- report-exporter verify nightly --run 20261120T020000Z-1f3a5cb2d407 --out ./exports',
    ],
  ],
  [
    'uncounted',
    uncountedRun,
    ['In progress.', 'Reports not counted', 'Adopted pages, without times 2', 'Transfer Size 2026-'],
  ],
  [
    'failed',
    failedRun,
    [
      'Failed after page 61. Nothing is published. The next start resumes or replaces the run.',
      'ContractError. Report service sent XML that is not well-formed',
      'Slice 3 is set aside: ContractError. no XML',
      'Slices 12 of 64 done',
      'Manifest not written; nothing is published',
    ],
  ],
  ['killed', killedRun, ['Failed attempts 0 Waits requested by the service none']],
  ['sliced', slicedRun, ['Slices 8 of 8 done']],
  ['tiny', tinyRun, ['Failed attempts 0']],
  ['long', longRun, ['Interrupted after page 50,000;', 'Reports dated from unknown', 'ms, 1 min 1 s']],
];

describe.each(Object.entries(displays))('in %s', (display, options) => {
  async function expectLegible({ page, requests, errors }: Awaited<ReturnType<typeof openFile>>, name: string) {
    expect(await page.evaluate(findOverflow)).toEqual([]);
    expect((await page.evaluate(measureContrasts)).filter(({ ratio }) => ratio < 4.5)).toEqual([]);
    await page.screenshot({ path: join(screenshots, `${name}-${display}.png`), fullPage: true });
    expect({ requests, errors }).toEqual({ requests: [], errors: [] });
  }

  it.each(runs)('the page of the run "%s" is complete, legible and self-contained', async (name, example, texts) => {
    await using opened = await openRun(`${name}-${display}`, example(), options);
    const text = await textOf(opened.page);
    for (const expected of texts) expect(text).toContain(expected);
    expect(text).not.toMatch(/undefined|NaN|Infinity|\[object|null/);
    for (const chart of charts) expect((await canvasOf(opened.page, chart)).painted).toBeGreaterThan(0.002);
    await expectLegible(opened, name);
  });
});

describe('the run report', () => {
  it('has no charts of a run without pages', async () => {
    await using opened = await openRun('new', newRun());
    expect(await opened.page.locator('h2:visible').allInnerTexts()).toEqual(['Request', 'Files']);
  });

  it('follows the color scheme and the width of the window', async () => {
    await using opened = await openRun('changing', eventfulRun());
    const { page, errors } = opened;
    const before = await canvasOf(page, 'time-chart');
    await page.emulateMedia({ colorScheme: 'dark' });
    await expect.poll(async () => (await canvasOf(page, 'time-chart')).hash).not.toBe(before.hash);
    expect(await page.evaluate(() => getComputedStyle(document.body).backgroundColor)).toBe('rgb(20, 24, 28)');
    await page.setViewportSize(displays.phone.viewport);
    await expect.poll(() => page.evaluate(findOverflow)).toEqual([]);
    expect((await canvasOf(page, 'time-chart')).painted).toBeGreaterThan(0.002);
    expect(errors).toEqual([]);
  });

  it('shows the values at the pointer in all charts', async () => {
    await using opened = await openRun('pointed', eventfulRun());
    const { page } = opened;
    const plot = page.locator('#logged-chart .u-over');
    const box = await plot.boundingBox();
    await page.mouse.move((box?.x ?? 0) + (box?.width ?? 0) / 2, (box?.y ?? 0) + 20);
    await expect
      .poll(() => page.locator('#logged-chart .u-legend').innerText())
      .toMatch(/^Time2026-11-20 02:01:\d\dPages logged5\dWaited–/);
    await page.mouse.move(0, 0);
    // Without a pointer there is no time, and so no empty field for it.
    await expect
      .poll(() => page.locator('#logged-chart .u-legend').innerText())
      .toBe('Pages loggedWaitedFailed attempts');
    await page.mouse.move((box?.x ?? 0) + (box?.width ?? 0) / 2, (box?.y ?? 0) + 20);
    expect(await page.locator('#time-chart .u-legend').innerText()).toMatch(/Until the response\d+ ms/);
  });

  it('is accessible by screen reader and keyboard', async () => {
    await using opened = await openRun('accessible', eventfulRun());
    const { page } = opened;
    expect(await page.getByRole('img').count()).toBe(3);
    expect(await page.getByRole('heading', { level: 1 }).count()).toBe(1);
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    expect(await page.locator('#all-pages').getByRole('row').count()).toBeGreaterThan(10);
  });

  it('shows hostile text without executing it', async () => {
    const script = `</script><script>window.exploited = 'script'</script>`;
    const image = `<img src=x onerror="window.exploited = 'image'">`;
    const address = `javascript:window.exploited=1//'-window.exploited-'</style><svg onload=window.exploited=1>`;
    const lastIncident = { kind: 'failed-run', at: at('2026-11-20T02:00:01Z'), error: script, message: image } as const;
    const status = aRunView({ export: script, folder: address, lastIncident });
    const run = await readExample({ status, entries: pageEntries({ pages: 3 }) });
    await using opened = await open('hostile', { ...origin, deployment: image, run });
    const { page, requests, errors } = opened;
    expect(await textOf(page)).toContain(script);
    expect(await page.locator('footer').innerText()).toContain(image);
    expect(await page.getByRole('link').count()).toBe(0);
    expect(await page.evaluate(() => 'exploited' in window)).toBe(false);
    expect(await page.locator('img, svg').count()).toBe(0);
    expect({ requests, errors }).toEqual({ requests: [], errors: [] });
  });

  it('blocks a script that was injected nevertheless', async () => {
    await using opened = await openRun('injected', tinyRun());
    const { page, errors } = opened;
    await page.evaluate(() => {
      document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.exploited = true">');
      document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.exploited = true' }));
    });
    const blocked = (what: string) => errors.filter((error) => error.includes(what)).length;
    await expect.poll(() => [blocked('inline script'), blocked('event handler')]).toEqual([1, 1]);
    expect(await page.evaluate(() => 'exploited' in window)).toBe(false);
  });

  it('wraps very long words in a narrow window', async () => {
    const request = { service: endless, filter: endless, format: endless, container: endless, size: 10 };
    const lastIncident = {
      kind: 'failed-run',
      at: at('2026-11-20T02:00:01Z'),
      error: endless,
      message: endless,
    } as const;
    const status = aRunView({ export: endless, folder: endless, lastIncident });
    const run = await readExample({ status, entries: pageEntries({ pages: 3 }) }, { request });
    await using opened = await open('endless', { ...origin, deployment: endless, run }, displays.phone);
    expect(await opened.page.evaluate(findOverflow)).toEqual([]);
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

/** The elements that extend beyond the right edge of the window. Runs in the page. */
function findOverflow(): string[] {
  const { clientWidth, scrollWidth } = document.documentElement;
  if (scrollWidth <= clientWidth) return [];
  return [...document.querySelectorAll('body *')]
    .filter((element) => element.getBoundingClientRect().right > clientWidth + 1)
    .map((element) => element.outerHTML.slice(0, 100));
}
