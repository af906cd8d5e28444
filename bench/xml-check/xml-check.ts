/**
 * The XML check by itself: how many megabytes of a document pass it in a second, with nothing before or behind it. Every
 * byte of an export goes through it, so a page cannot come faster than that.
 *
 * Yardsticks beside it: the bare parser, told of nothing and asking nothing; the hash that every page is given as well;
 * and the least that any check must do, to see whether the bytes are UTF-8.
 */

import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { SaxesParser } from 'saxes';
import { createXmlCheck } from '../../lib/report-service/xml/well-formedness.ts';
import type { Bench, BenchOptions, Table } from '../harness/benchmark.ts';
import { type Contender, figureOf, type Rounds, ratioOf, sideBySide } from '../harness/rounds.ts';
import { asRatio, digits, withSpread } from '../harness/tables.ts';
import { type XmlKind, xmlDocument, xmlKinds } from './documents.ts';

interface Speed {
  readonly [figure: string]: number;
  readonly megabytesPerSecond: number;
}

/** As they come from a socket. */
const chunkBytes = 64 * 1024;

/** What each does with a document of well-formed XML. @throws Error where it finds something wrong with it */
const contenders = {
  'XML check': ({ chunks }: Passing) => {
    const check = createXmlCheck();
    let problem: string | undefined;
    for (const chunk of chunks) problem ??= check.push(chunk);
    problem ??= check.end();
    if (problem !== undefined) throw new Error(problem);
    if (check.reports === 0) throw new Error('no reports were counted');
  },
  'bare saxes': ({ chunks }: Passing) => {
    const decoder = new TextDecoder();
    const parser = new SaxesParser({ position: false });
    for (const chunk of chunks) parser.write(decoder.decode(chunk, { stream: true }));
    parser.close();
  },
  'SHA-256': ({ chunks }: Passing) => {
    const hash = createHash('sha256');
    for (const chunk of chunks) hash.update(chunk);
    hash.digest();
  },
  // In one piece: a chunk may end within a character, and says nothing by itself.
  isUtf8: ({ whole }: Passing) => {
    if (!isUtf8(whole)) throw new Error('not UTF-8');
  },
} as const satisfies Readonly<Record<string, (passing: Passing) => void>>;
type ContenderName = keyof typeof contenders;
const names = Object.keys(contenders) as ContenderName[];

interface Passing {
  readonly whole: Buffer;
  readonly chunks: readonly Buffer[];
}

export const xmlCheck: Bench = {
  name: 'xml-check',
  title: 'The XML check alone',
  async run(options) {
    const documents = xmlKinds.map((kind) => ({ kind, document: passing(kind, options) }));
    // All kinds before any is measured: a compiler that has seen one of them only is faster with that than it will be.
    for (const { document } of documents) for (const name of names) contenders[name](document);
    const measured: Record<string, unknown> = {};
    const rows: string[][] = [];
    for (const { kind, document } of documents) {
      const rounds = await sideBySide(
        names.map((name) => passer(name, document)),
        options,
        `XML check, ${kind}`,
      );
      measured[kind] = Object.fromEntries(rounds);
      rows.push(rowOf(kind, rounds));
    }
    const table: Table = {
      title: 'Megabytes a second, in chunks of 64 KiB',
      columns: ['document', ...names, 'check / bare saxes'],
      rows,
    };
    return { tables: [table], measured };
  },
};

function passing(kind: XmlKind, { quick }: BenchOptions): Passing {
  const whole = xmlDocument(kind, quick ? 300_000 : 16_000_000);
  const count = Math.ceil(whole.length / chunkBytes);
  return {
    whole,
    chunks: Array.from({ length: count }, (_, nth) => whole.subarray(nth * chunkBytes, (nth + 1) * chunkBytes)),
  };
}

function passer(name: ContenderName, document: Passing): Contender<Speed> {
  return {
    name,
    async once() {
      const startedAt = performance.now();
      contenders[name](document);
      const seconds = (performance.now() - startedAt) / 1_000;
      return { megabytesPerSecond: document.whole.length / 1e6 / seconds };
    },
  };
}

function rowOf(kind: XmlKind, rounds: Rounds<Speed>): string[] {
  const speed = ({ megabytesPerSecond }: Speed) => megabytesPerSecond;
  const [check, ...yardsticks] = names;
  return [
    kind,
    withSpread(figureOf(rounds, check ?? '', speed)),
    ...yardsticks.map((name) => digits(figureOf(rounds, name, speed).median)),
    asRatio(ratioOf(rounds, 'XML check', 'bare saxes', speed)),
  ];
}
