/** Creates the screenshots of the run report, light and dark. Requires Chromium: `node docs/images/run-report.ts`. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { renderRunReport } from '../../lib/operator/run-report/run-report.ts';
import { launchChromium, openFile } from '../../test/browser/chromium.ts';
import { collectExample, eventfulRun } from '../../test/operator/run-report/example-runs.ts';
import { temporaryDirectory } from '../../test/support/temporary-directory.ts';

await using directory = await temporaryDirectory();
await using browser = await launchChromium();
const file = join(directory.path, 'run-report.html');
await writeFile(file, renderRunReport(await collectExample(eventfulRun())));
for (const colorScheme of ['light', 'dark'] as const) {
  const viewport = { width: 1_060, height: 1_290 };
  await using opened = await openFile(browser, file, { colorScheme, viewport, deviceScaleFactor: 1.5 });
  const latency = await opened.page.locator('figure:has(#latency)').boundingBox();
  const height = (latency?.y ?? 0) + (latency?.height ?? 0);
  const path = join(import.meta.dirname, `run-report-${colorScheme}.png`);
  await opened.page.screenshot({ path, fullPage: true, clip: { x: 0, y: 0, width: viewport.width, height } });
}
