/** Headless Chromium that blocks and records all network requests. */

import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';

const executableNames = ['chromium', 'chromium-browser', 'google-chrome'];

/** @throws Error with installation instructions if no Chromium is found */
export function findChromium(env: NodeJS.ProcessEnv = process.env): string {
  const inPath = (env.PATH ?? '')
    .split(delimiter)
    .flatMap((folder) => executableNames.map((name) => join(folder, name)));
  const found = [...(env.CHROMIUM ? [env.CHROMIUM] : []), ...inPath].find(isExecutable);
  if (found === undefined) {
    throw new Error(
      'No Chromium found. Install it (apt-get install chromium), or set the environment variable CHROMIUM to its path',
    );
  }
  return found;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Starts Chromium with an empty temporary profile. */
export async function launchChromium(): Promise<Browser> {
  return await chromium.launch({
    executablePath: findChromium(),
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}

export interface OpenedFile extends AsyncDisposable {
  readonly page: Page;
  /** The URLs that the page requested, except its own. All of them are blocked. */
  readonly requests: readonly string[];
  /** Console errors and warnings, and uncaught exceptions. */
  readonly errors: readonly string[];
}

/** Opens a local file, as a person does who received it by mail. */
export async function openFile(
  browser: Browser,
  path: string,
  options: BrowserContextOptions = {},
): Promise<OpenedFile> {
  const context = await browser.newContext({ viewport: { width: 1_280, height: 900 }, ...options });
  // Ends a test that would never end. A busy machine needs longer than the default of 30 seconds.
  context.setDefaultTimeout(300_000);
  const page = await context.newPage();
  const ownUrl = `file://${path}`;
  const requests: string[] = [];
  const errors: string[] = [];
  page.on('request', (request) => {
    if (request.url() !== ownUrl) requests.push(request.url());
  });
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') errors.push(message.text());
  });
  page.on('pageerror', (error) => errors.push(String(error)));
  await context.route(
    (url) => url.href !== ownUrl,
    (route) => route.abort(),
  );
  await page.goto(ownUrl);
  return { page, requests, errors, [Symbol.asyncDispose]: () => context.close() };
}
