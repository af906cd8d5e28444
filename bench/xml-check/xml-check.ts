/**
 * The XML check alone: how many megabytes per second it checks. Every byte of an export passes through it, so no export is
 * faster.
 *
 * For comparison: the bare parser without any handler; the hash that every page gets as well; and a UTF-8 check, the least that
 * any check must do.
 */

import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { SaxesParser } from 'saxes';
import { createXmlCheck } from '../../lib/service/xml/well-formedness.ts';
import type { Benchmark, BenchmarkOptions, Table } from '../harness/benchmark.ts';
import { type Contender, figureOf, measureRounds, type Rounds, ratioOf } from '../harness/rounds.ts';
import { formatNumber, formatRatio, formatSpread } from '../harness/tables.ts';
import { type XmlKind, xmlDocument, xmlKinds } from './documents.ts';

interface Speed {
  readonly [figure: string]: number;
  readonly megabytesPerSecond: number;
}

/** As large as the chunks of a socket. */
const chunkBytes = 64 * 1024;

interface XmlInput {
  readonly whole: Buffer;
  readonly chunks: readonly Buffer[];
}

/** Each processes a well-formed document. @throws Error if it finds a problem */
const contenders = {
  'XML check': ({ chunks }: XmlInput) => {
    const check = createXmlCheck();
    let problem: string | undefined;
    for (const chunk of chunks) problem ??= check.push(chunk);
    problem ??= check.end();
    if (problem !== undefined) throw new Error(problem);
    if (check.reports === 0) throw new Error('The check counted no reports');
  },
  'bare saxes': ({ chunks }: XmlInput) => {
    const decoder = new TextDecoder();
    const parser = new SaxesParser({ position: false });
    for (const chunk of chunks) parser.write(decoder.decode(chunk, { stream: true }));
    parser.close();
  },
  'SHA-256': ({ chunks }: XmlInput) => {
    const hash = createHash('sha256');
    for (const chunk of chunks) hash.update(chunk);
    hash.digest();
  },
  // On the whole document, as a chunk may end within a character.
  isUtf8: ({ whole }: XmlInput) => {
    if (!isUtf8(whole)) throw new Error('The document is not UTF-8');
  },
} as const satisfies Readonly<Record<string, (input: XmlInput) => void>>;
type ContenderName = keyof typeof contenders;
const contenderNames = Object.keys(contenders) as ContenderName[];

export const xmlCheck: Benchmark = {
  name: 'xml-check',
  title: 'The XML check alone',
  async run(options) {
    const inputs = xmlKinds.map((kind) => ({ kind, input: createInput(kind, options) }));
    // All kinds run before any is measured: code that has been optimized for one kind only is faster than it will stay.
    for (const { input } of inputs) for (const name of contenderNames) contenders[name](input);
    const measured: Record<string, unknown> = {};
    const rows: string[][] = [];
    for (const { kind, input } of inputs) {
      const rounds = await measureRounds(
        contenderNames.map((name) => createContender(name, input)),
        options,
        `XML check, ${kind}`,
      );
      measured[kind] = Object.fromEntries(rounds);
      rows.push(toRow(kind, rounds));
    }
    const table: Table = {
      title: 'Megabytes per second, in chunks of 64 KiB',
      columns: ['document', ...contenderNames, 'check relative to bare saxes'],
      rows,
    };
    return { tables: [table], measured };
  },
};

function createInput(kind: XmlKind, { quick }: BenchmarkOptions): XmlInput {
  const whole = xmlDocument(kind, quick ? 300_000 : 16_000_000);
  const count = Math.ceil(whole.length / chunkBytes);
  return {
    whole,
    chunks: Array.from({ length: count }, (_, index) => whole.subarray(index * chunkBytes, (index + 1) * chunkBytes)),
  };
}

function createContender(name: ContenderName, input: XmlInput): Contender<Speed> {
  return {
    name,
    async measure() {
      const startedAt = performance.now();
      contenders[name](input);
      const seconds = (performance.now() - startedAt) / 1_000;
      return { megabytesPerSecond: input.whole.length / 1e6 / seconds };
    },
  };
}

function toRow(kind: XmlKind, rounds: Rounds<Speed>): string[] {
  const speed = ({ megabytesPerSecond }: Speed) => megabytesPerSecond;
  const [check, ...others] = contenderNames;
  return [
    kind,
    formatSpread(figureOf(rounds, check ?? '', speed)),
    ...others.map((name) => formatNumber(figureOf(rounds, name, speed).median)),
    formatRatio(ratioOf(rounds, 'XML check', 'bare saxes', speed)),
  ];
}
