/** The document that the page service serves: generated reports, filled up to the size that was asked for. */

import { generatedReportXml } from '../../lib/report-service/simulator/generated-reports.ts';

const declaration = '<?xml version="1.0" encoding="UTF-8"?>\n';
const foot = '</reports>\n';

export interface PageDocument {
  readonly bytes: number;
  readonly reports: number;
  /** The page in two parts, of which only the first depends on its number: nothing is copied to serve it. */
  readonly page: (number?: number) => readonly [Buffer, Buffer];
}

/** About `bytes` long, to the byte where that is enough for a report; numbered pages tell their number in the root. */
export function pageDocument(bytes: number, numbered: boolean): PageDocument {
  const head = (number: number) =>
    `${declaration}<reports${numbered ? ` page="${String(number).padStart(6, '0')}"` : ''}>\n`;
  const reports: string[] = [];
  // The last report is followed by blanks, so that the page has the size that was asked for, whatever its reports hold.
  let left = bytes - head(1).length - foot.length;
  for (let number = 0; left > 0; number += 1) {
    const report = generatedReportXml(1, number, `R-${number}`, 1_763_000_000_000 + number * 10_000);
    const length = Buffer.byteLength(report);
    if (length > left) break;
    reports.push(report);
    left -= length;
  }
  const rest = Buffer.from(`${reports.join('')}${' '.repeat(Math.max(0, left))}${foot}`);
  return {
    bytes: head(1).length + rest.length,
    reports: reports.length,
    page: (number = 1) => [Buffer.from(head(number)), rest],
  };
}
