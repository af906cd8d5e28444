/**
 * The XML check alone: how many megabytes per second it checks. Every byte of an export passes through it, so no export is faster.
 * For comparison: the parser that it replaces for most documents, and the hash that every page gets as well.
 */

import { createHash } from 'node:crypto';
import { SaxesParser } from 'saxes';
import { createXmlCheck } from '../lib/service/xml/well-formedness.ts';
import { generatedReportXml } from '../lib/service/simulator/generated-reports.ts';
import { type Benchmark, figureOf, formatNumber, formatRatio, measureRounds, ratioOf } from './harness/benchmark.ts';

/** The nth report of a document, mostly of one kind of markup: what is fast with tags may be slow with text. */
const reports: Readonly<Record<string, (nth: number) => string>> = {
  'generated reports': (nth) => generatedReportXml(1, nth, `R-${nth}`, 1_763_000_000_000 + nth * 10_000),
  'many small tags': (nth) => `<r i="${nth}">${'<a/><b>1</b><c d="2"/>'.repeat(100)}</r>\n`,
  'many attributes': (nth) => `<r i="${nth}">${`<v ${attributes(nth)}/>\n`.repeat(10)}</r>\n`,
  'long text': (nth) => `<r i="${nth}">${'The parties agreed to all of this in writing. '.repeat(2_000)}</r>\n`,
  'non-ASCII text': (nth) => `<r i="${nth}">${'北京と東京、Αθήνα и Москва – Zürich 🧾 नेहा '.repeat(200)}</r>\n`,
  references: (nth) => `<r i="${nth}">${'Paper &amp; ink &lt; 5 &#xD7; 40 &#8594; done '.repeat(100)}</r>\n`,
  CDATA: (nth) =>
    `<r i="${nth}">${`<![CDATA[${'if (a < b && b > c) { return x[i]]; } '.repeat(50)}]]>`.repeat(5)}</r>\n`,
  comments: (nth) => `<r i="${nth}"><!-- ${'checked, and checked again - by two. '.repeat(100)} --></r>\n`,
  'deep nesting': (nth) => `<r i="${nth}">${'<level>'.repeat(200)}${nth}${'</level>'.repeat(200)}</r>\n`,
};

function attributes(nth: number): string {
  return Array.from({ length: 12 }, (_, field) => `field${field}="${nth * 31 + field} of 'many'"`).join(' ');
}

/** Each processes a well-formed document. @throws Error if it finds a problem */
const programs = {
  'XML check': (chunks: readonly Buffer[]) => {
    const check = createXmlCheck();
    let problem: string | undefined;
    for (const chunk of chunks) problem ??= check.push(chunk);
    problem ??= check.end();
    if (problem !== undefined) throw new Error(problem);
  },
  saxes: (chunks: readonly Buffer[]) => {
    const decoder = new TextDecoder();
    const parser = new SaxesParser({ position: false });
    for (const chunk of chunks) parser.write(decoder.decode(chunk, { stream: true }));
    parser.close();
  },
  'SHA-256': (chunks: readonly Buffer[]) => {
    const hash = createHash('sha256');
    for (const chunk of chunks) hash.update(chunk);
    hash.digest();
  },
};

export const xmlCheck: Benchmark = {
  name: 'xml-check',
  title: 'The XML check alone, in megabytes per second',
  async run(options) {
    const documents = Object.entries(reports).map(([kind, report]) => ({
      kind,
      chunks: documentOf(report, options.quick ? 300_000 : 16_000_000),
    }));
    // All kinds run before any is measured: code that has been optimized for one kind only is faster than it will stay.
    for (const { chunks } of documents) for (const program of Object.values(programs)) program(chunks);
    const rows: string[][] = [];
    for (const { kind, chunks } of documents) {
      const megabytes = chunks.reduce((sum, { length }) => sum + length, 0) / 1e6;
      const contenders = Object.entries(programs).map(([name, program]) => ({
        name,
        async measure() {
          const startedAt = performance.now();
          program(chunks);
          return megabytes / ((performance.now() - startedAt) / 1_000);
        },
      }));
      const rounds = await measureRounds(contenders, options, `XML check, ${kind}`);
      const speed = (figure: number) => figure;
      rows.push([
        kind,
        ...contenders.map(({ name }) => formatNumber(figureOf(rounds, name, speed).median)),
        formatRatio(ratioOf(rounds, 'XML check', 'saxes', speed)),
      ]);
    }
    return { columns: ['document', ...Object.keys(programs), 'check relative to saxes'], rows };
  },
};

/** A document of at least `bytes` bytes, in chunks as a socket delivers them. */
function documentOf(report: (nth: number) => string, bytes: number): readonly Buffer[] {
  const parts = ['<?xml version="1.0" encoding="UTF-8"?>\n<reports>\n'];
  for (let nth = 1, length = 0; length < bytes; nth += 1) {
    const text = report(nth);
    parts.push(text);
    length += Buffer.byteLength(text);
  }
  const whole = Buffer.from(`${parts.join('')}</reports>\n`);
  const chunkBytes = 64 * 1_024;
  return Array.from({ length: Math.ceil(whole.length / chunkBytes) }, (_, index) =>
    whole.subarray(index * chunkBytes, (index + 1) * chunkBytes),
  );
}
