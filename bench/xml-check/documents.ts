/** Documents for the XML check, each mostly of one kind of markup: what is fast with tags may be slow with text. */

import { generatedReportXml } from '../../lib/service/simulator/generated-reports.ts';

/** The nth report of a document. Reports are added until the document has its size. */
const reports = {
  'generated reports': (nth) => generatedReportXml(1, nth, `R-${nth}`, 1_763_000_000_000 + nth * 10_000),
  'many small tags': (nth) => `<r i="${nth}">${'<a/><b>1</b><c d="2"/>'.repeat(100)}</r>\n`,
  'many attributes': (nth) => `<r i="${nth}">${`<v ${attributes(nth)}/>\n`.repeat(10)}</r>\n`,
  'long text': (nth) => `<r i="${nth}">${'The parties agreed to all of this in writing. '.repeat(2_000)}</r>\n`,
  'non-ASCII text': (nth) => `<r i="${nth}">${'北京と東京、Αθήνα и Москва – Zürich 🧾 नेहा '.repeat(200)}</r>\n`,
  'references in text': (nth) => `<r i="${nth}">${'Paper &amp; ink &lt; 5 &#xD7; 40 &#8594; done '.repeat(100)}</r>\n`,
  CDATA: (nth) =>
    `<r i="${nth}">${`<![CDATA[${'if (a < b && b > c) { return x[i]]; } '.repeat(50)}]]>`.repeat(5)}</r>\n`,
  comments: (nth) => `<r i="${nth}"><!-- ${'checked, and checked again - by two. '.repeat(100)} --></r>\n`,
  'deep nesting': (nth) => `<r i="${nth}">${'<level>'.repeat(200)}${nth}${'</level>'.repeat(200)}</r>\n`,
} as const satisfies Readonly<Record<string, (nth: number) => string>>;

export type XmlKind = keyof typeof reports;
export const xmlKinds = Object.keys(reports) as XmlKind[];

/** A document of at least `bytes` bytes, with its reports as children of the root. */
export function xmlDocument(kind: XmlKind, bytes: number): Buffer {
  const parts = [Buffer.from('<?xml version="1.0" encoding="UTF-8"?>\n<reports>\n')];
  for (let nth = 1, length = 0; length < bytes; nth += 1) {
    const report = Buffer.from(reports[kind](nth));
    parts.push(report);
    length += report.length;
  }
  return Buffer.concat([...parts, Buffer.from('</reports>\n')]);
}

function attributes(nth: number): string {
  return Array.from(
    { length: 12 },
    (_, index) => `field${index}="${nth * 31 + index} of ${index % 3 === 0 ? "'many'" : 'a few'}"`,
  ).join(' ');
}
