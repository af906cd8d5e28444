/** The document that the page service serves: generated reports, padded to the requested size. */

import { generatedReportXml } from '../../lib/service/simulator/generated-reports.ts';

const declaration = '<?xml version="1.0" encoding="UTF-8"?>\n';
const end = '</reports>\n';

export interface PageDocument {
  readonly bytes: number;
  readonly reports: number;
  /** A page in two parts. Only the first depends on the number, so serving a page copies nothing. */
  readonly page: (number?: number) => readonly [Buffer, Buffer];
}

/** A document of `bytes` bytes, if they suffice for a report. `numbered`: the root has the page's number. */
export function createPageDocument(bytes: number, numbered: boolean): PageDocument {
  const start = (number: number) =>
    `${declaration}<reports${numbered ? ` page="${String(number).padStart(6, '0')}"` : ''}>\n`;
  const reports: string[] = [];
  let remaining = bytes - start(1).length - end.length;
  for (let number = 0; remaining > 0; number += 1) {
    const report = generatedReportXml(1, number, `R-${number}`, 1_763_000_000_000 + number * 10_000);
    const length = Buffer.byteLength(report);
    if (length > remaining) break;
    reports.push(report);
    remaining -= length;
  }
  const rest = Buffer.from(`${reports.join('')}${' '.repeat(Math.max(0, remaining))}${end}`);
  return {
    bytes: start(1).length + rest.length,
    reports: reports.length,
    page: (number = 1) => [Buffer.from(start(number)), rest],
  };
}
