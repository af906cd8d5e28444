/** The report on a run as a person opens it: in a real browser, from a file, with every way to a network barred. */

import { mkdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Incident } from '../../lib/core/operations/deployment.ts';
import { runReportHtml } from '../../lib/operator/run-report/page.ts';
import {
  adoptedRun,
  aReportedRun,
  begunRun,
  type ExampleRun,
  eventfulRun,
  failedRun,
  longRun,
  reportOn,
  shortRun,
  uncountedRun,
  walk,
} from '../operator/run-report/example-runs.ts';
import { at } from '../support/builders.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../support/temporary-directory.ts';
import { findChromium, launchChromium, openFile } from './chromium.ts';
import { contrastsIn } from './contrast.ts';

let browser: Browser;
let directory: TemporaryDirectory;
/** Kept for whoever wants to look at them. */
const pictures = join(tmpdir(), 'report-exporter-pictures');

beforeAll(async () => {
  browser = await launchChromium();
  directory = await temporaryDirectory();
  await mkdir(pictures, { recursive: true });
});

afterAll(async () => {
  await browser?.close();
  await directory?.remove();
});

const examples: readonly (readonly [name: string, example: () => ExampleRun, charts: readonly string[]])[] = [
  ['eventful', eventfulRun, ['timeline', 'time', 'latency', 'bytes', 'reports']],
  ['short', shortRun, ['timeline', 'time']],
  ['begun', begunRun, []],
  ['adopted', adoptedRun, ['timeline']],
  ['uncounted', uncountedRun, ['timeline', 'time', 'latency', 'bytes']],
  ['failed', failedRun, ['timeline', 'time', 'latency']],
  ['long', longRun, ['timeline', 'time', 'latency', 'bytes', 'reports']],
];

const looks = {
  light: { colorScheme: 'light', viewport: { width: 1_400, height: 900 } },
  dark: { colorScheme: 'dark', viewport: { width: 1_400, height: 900 } },
  narrow: { colorScheme: 'light', viewport: { width: 400, height: 900 } },
} as const;

async function open(name: string, example: ExampleRun, options: BrowserContextOptions = {}) {
  const path = join(directory.path, `${name}.html`);
  await writeFile(path, runReportHtml(await reportOn(example)));
  return await openFile(browser, path, options);
}

describe('the report on a run', () => {
  describe.each(Object.entries(looks))('in %s', (look, options) => {
    it.each(examples)(
      'shows a run that is %s, whole and legible, and asks no network for anything',
      async (name, example, charts) => {
        await using opened = await open(`${name}-${look}`, example(), options);
        const { page, requests, complaints } = opened;
        expect(await page.locator('.chart').evaluateAll((places) => places.map(({ id }) => id))).toEqual(charts);
        for (const chart of charts) expect(await paintedPart(page, chart)).toBeGreaterThan(0.002);
        expect(await page.evaluate(overflow)).toEqual([]);
        const faint = (await page.evaluate(contrastsIn)).filter(({ ratio }) => ratio < 4.5);
        expect(faint).toEqual([]);
        expect(await page.getByRole('heading', { level: 1 }).innerText()).toContain('nightly');
        await page.screenshot({ path: join(pictures, `${name}-${look}.png`), fullPage: true });
        expect({ requests, complaints }).toEqual({ requests: [], complaints: [] });
      },
    );
  });

  it('paints its charts anew when the reader turns from light to dark', async () => {
    await using opened = await open('turned', eventfulRun(), looks.light);
    const { page, complaints } = opened;
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const [light, lightGround] = [(await picture(page, 'latency')).look, await ground()];
    await page.emulateMedia({ colorScheme: 'dark' });
    await expect.poll(async () => (await picture(page, 'latency')).look).not.toBe(light);
    expect(await ground()).not.toBe(lightGround);
    expect(await paintedPart(page, 'latency')).toBeGreaterThan(0.002);
    expect(complaints).toEqual([]);
  });

  it('goes with the window from wide to narrow', async () => {
    await using opened = await open('resized', eventfulRun(), looks.light);
    const { page } = opened;
    await page.setViewportSize({ width: 400, height: 900 });
    await expect.poll(() => page.evaluate(overflow)).toEqual([]);
    expect(await paintedPart(page, 'time')).toBeGreaterThan(0.002);
  });

  it('says what stands under the pointer', async () => {
    await using opened = await open('pointed', eventfulRun(), looks.light);
    const { page } = opened;
    const place = page.locator('#latency .u-over');
    await place.scrollIntoViewIfNeeded();
    const box = await place.boundingBox();
    await page.mouse.move((box?.x ?? 0) + (box?.width ?? 0) / 2, (box?.y ?? 0) + 20);
    await expect.poll(() => page.locator('#latency-readout').innerText()).toMatch(/^Page 6\d · \d+ ms$/);
    // The charts of pages go together.
    expect(await page.locator('#time-readout').innerText()).toMatch(/^Page 6\d · .* before, .* latency, .* transfer$/);
  });

  it('is dark on light when it is printed, whatever the screen', async () => {
    await using opened = await open('printed', eventfulRun(), looks.dark);
    const { page } = opened;
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
    await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
    expect(await page.evaluate(() => getComputedStyle(document.body).backgroundColor)).toBe('rgb(251, 251, 250)');
    expect((await page.pdf({ format: 'A4' })).length).toBeGreaterThan(20_000);
  });

  it('holds the same facts where nothing runs', async () => {
    await using opened = await open('unscripted', eventfulRun(), { javaScriptEnabled: false });
    const { page } = opened;
    const text = await page.locator('body').innerText();
    expect(text).toContain('124 pages, 12,334 reports, 8.7 MB');
    expect(text).toContain('median 529 ms, p95 1.8 s, slowest 2.2 s');
    expect(await page.locator('.chart').evaluateAll((all) => all.filter((each) => each.checkVisibility()).length)).toBe(
      0,
    );
  });

  it('can be read by ear and worked by keyboard', async () => {
    await using opened = await open('heard', eventfulRun(), looks.light);
    const { page } = opened;
    const latency = page.getByRole('img', { name: 'Service latency' });
    const described = await latency.getAttribute('aria-describedby');
    expect(await page.locator(`#${described}`).innerText()).toContain('(median)');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    const table = page.getByRole('region', { name: 'The pages in numbers' });
    expect(await table.getByRole('row').count()).toBeGreaterThan(10);
    expect(await page.evaluate(overflow)).toEqual([]);
    const levels = await page.locator('h1, h2').evaluateAll((all) => all.map(({ tagName }) => tagName));
    expect(levels.filter((level) => level === 'H1')).toHaveLength(1);
  });

  it('shows hostile words, and runs none of them', async () => {
    const words = [
      `</script><script>window.harmed = 'script'</script>`,
      `<img src=x onerror="window.harmed = 'image'">`,
      `" onmouseover="window.harmed = 'attribute'`,
      `'-window.harmed-'\u2028\u202e</style><svg onload=window.harmed=1>`,
    ];
    const incidents = words.map(
      (message, index): Incident => ({
        kind: 'failed-attempt',
        at: at('2026-11-20T02:00:01Z'),
        page: index,
        error: message,
        message,
      }),
    );
    const [script = '', image = '', attribute = ''] = words;
    const run = aReportedRun({ export: script, folder: image, filter: { [attribute]: script }, format: image });
    const occasion = { place: attribute, option: script };
    await using opened = await open('hostile', { run, entries: walk(run, { pages: 3 }), incidents, occasion });
    const { page, requests, complaints } = opened;
    expect(await page.locator('h1').innerText()).toContain(script);
    expect(await page.locator('.incidents').innerText()).toContain(image);
    expect(await page.evaluate(() => 'harmed' in window)).toBe(false);
    expect(await page.locator('img, svg').count()).toBe(0);
    expect({ requests, complaints }).toEqual({ requests: [], complaints: [] });
    // And if one ever got in, the file's own policy would not let it run.
    await page.evaluate(() => {
      document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.harmed = true">');
      document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.harmed = true' }));
    });
    const refused = (what: string) => complaints.filter((complaint) => complaint.includes(what)).length;
    await expect.poll(() => [refused('inline script'), refused('event handler')]).toEqual([1, 1]);
    expect(await page.evaluate(() => 'harmed' in window)).toBe(false);
  });

  it('keeps words without an end inside a narrow window', async () => {
    const endless = 'w'.repeat(900);
    const run = aReportedRun({ export: endless, folder: endless, filter: { [endless]: endless }, format: endless });
    const incident = { at: at('2026-11-20T02:00:01Z'), page: 9_007_199_254_740_991, error: endless, message: endless };
    const incidents: Incident[] = [
      { kind: 'failed-attempt', ...incident },
      { kind: 'failed-run', ...incident },
    ];
    const occasion = { place: endless, option: endless };
    const example = {
      run: { ...run, state: 'failed' as const },
      entries: walk(run, { pages: 3 }),
      incidents,
      occasion,
    };
    await using opened = await open('endless', example, looks.narrow);
    expect(await opened.page.evaluate(overflow)).toEqual([]);
  });

  it('opens on a run of a million pages', async () => {
    await using opened = await open('million', longRun(1_000_000), looks.light);
    const { page, complaints } = opened;
    expect(await page.locator('.lead').innerText()).toContain('page 1,000,000');
    expect(await paintedPart(page, 'latency')).toBeGreaterThan(0.01);
    expect(complaints).toEqual([]);
  });
});

it('says how to install a Chromium where there is none', () => {
  expect(() => findChromium({ PATH: directory.path })).toThrow(/^No Chromium found: .*apt-get install chromium.*$/);
  expect(findChromium({ CHROMIUM: process.execPath })).toBe(process.execPath);
});

/** Which part of a chart's picture is painted on, of 0 to 1, and a number that stands for how it looks. */
async function picture(page: Page, chart: string): Promise<{ readonly painted: number; readonly look: number }> {
  return await page.locator(`#${chart} canvas`).evaluate((canvas: HTMLCanvasElement) => {
    // A copy, as reading leaves its mark on what is read.
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
    copy?.drawImage(canvas, 0, 0);
    const { data } = copy?.getImageData(0, 0, canvas.width, canvas.height) ?? { data: [] };
    let painted = 0;
    let look = 0;
    for (let index = 0; index < data.length; index += 1) {
      if (index % 4 === 3 && (data[index] ?? 0) > 60) painted += 1;
      look = (Math.imul(look, 31) + (data[index] ?? 0)) | 0;
    }
    return { painted: (4 * painted) / data.length, look };
  });
}

const paintedPart = async (page: Page, chart: string) => (await picture(page, chart)).painted;

/** What sticks out to the right of the window. Runs in the page. */
function overflow(): string[] {
  const { clientWidth, scrollWidth } = document.documentElement;
  if (scrollWidth <= clientWidth) return [];
  return [...document.querySelectorAll('body *')]
    .filter((element) => element.getBoundingClientRect().right > clientWidth + 1)
    .map((element) => element.outerHTML.slice(0, 100));
}
