/** A real Chromium, without a window, that asks no network for anything. */

import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';

const names = ['chromium', 'chromium-browser', 'google-chrome'];

/** @throws Error that says how to install one, where there is none */
export function findChromium(env: NodeJS.ProcessEnv = process.env): string {
  const inPath = (env.PATH ?? '').split(delimiter).flatMap((folder) => names.map((name) => join(folder, name)));
  const found = [...(env.CHROMIUM ? [env.CHROMIUM] : []), ...inPath].find(isProgram);
  if (found === undefined) {
    throw new Error(
      'No Chromium found: install one (apt-get install chromium), or name its program in the environment variable CHROMIUM',
    );
  }
  return found;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** With an empty profile of its own, which is gone when it is closed. */
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
  /** Every address it asked for, itself left out; none is let through. */
  readonly requests: readonly string[];
  /** What it complained of on its console, and what it threw. */
  readonly complaints: readonly string[];
}

/** Opens a file as a person does who has got it by mail. */
export async function openFile(
  browser: Browser,
  path: string,
  options: BrowserContextOptions = {},
): Promise<OpenedFile> {
  const context = await browser.newContext({ viewport: { width: 1_280, height: 900 }, ...options });
  const page = await context.newPage();
  const itself = `file://${path}`;
  const requests: string[] = [];
  const complaints: string[] = [];
  page.on('request', (request) => {
    if (request.url() !== itself) requests.push(request.url());
  });
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  await context.route(
    (url) => url.href !== itself,
    (route) => route.abort(),
  );
  await page.goto(itself);
  return { page, requests, complaints, [Symbol.asyncDispose]: () => context.close() };
}
