/** Takes the README's pictures of a run's report, light and dark. Needs a Chromium: `node docs/images/report.ts`. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { runReportHtml } from '../../lib/operator/run-report/page.ts';
import { launchChromium, openFile } from '../../test/browser/chromium.ts';
import { eventfulRun, reportOn } from '../../test/operator/run-report/example-runs.ts';
import { temporaryDirectory } from '../../test/support/temporary-directory.ts';

await using directory = await temporaryDirectory();
await using browser = await launchChromium();
const file = join(directory.path, 'report.html');
await writeFile(file, runReportHtml(await reportOn(eventfulRun())));
for (const colorScheme of ['light', 'dark'] as const) {
  const look = { colorScheme, viewport: { width: 1_060, height: 1_290 }, deviceScaleFactor: 1.5 };
  await using opened = await openFile(browser, file, look);
  const latency = await opened.page.locator('figure:has(#latency)').boundingBox();
  const height = (latency?.y ?? 0) + (latency?.height ?? 0);
  const clip = { x: 0, y: 0, width: look.viewport.width, height };
  await opened.page.screenshot({ path: join(import.meta.dirname, `report-${colorScheme}.png`), fullPage: true, clip });
}
