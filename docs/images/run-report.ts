/** Creates the screenshots of the run report, light and dark. Requires Chromium: `node docs/images/run-report.ts`. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { renderPage } from '../../lib/operator/run-report/render-page.ts';
import { launchChromium, openFile } from '../../test/browser/chromium.ts';
import { eventfulRun, origin, readExample, someRequest } from '../../test/operator/run-report/example-runs.ts';
import { temporaryDirectory } from '../../test/support/temporary-directory.ts';

await using directory = await temporaryDirectory();
await using browser = await launchChromium();
const file = join(directory.path, 'run-report.html');
await writeFile(file, renderPage({ ...origin, run: await readExample(eventfulRun(), { request: someRequest }) }));
for (const colorScheme of ['light', 'dark'] as const) {
  const viewport = { width: 1_060, height: 900 };
  await using opened = await openFile(browser, file, { colorScheme, viewport, deviceScaleFactor: 1.5 });
  const chart = await opened.page.locator('#time-chart').boundingBox();
  const height = (chart?.y ?? 0) + (chart?.height ?? 0) + 20;
  const path = join(import.meta.dirname, `run-report-${colorScheme}.png`);
  await opened.page.screenshot({ path, fullPage: true, clip: { x: 0, y: 0, width: viewport.width, height } });
}
