/**
 * `npm run bench -- coverage FOLDER`: how many streams of declarative manifests our language describes. Each
 * description runs against a server that is made from the manifest; one that the settings refuse, or that stores other
 * records than those of the server, does not count.
 */

import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Table } from '../harness/benchmark.ts';
import { type ManifestStream, readStreams } from './manifest.ts';
import { findFailure, startVendors, type Vendors } from './measure.ts';
import { notBuilt, withoutLists } from './requests.ts';
import { runTime, translate, type Translation } from './translate.ts';

interface Result {
  readonly connector: string;
  readonly reasons: readonly string[];
  /** Several, if a stream is several exports. */
  readonly translations: readonly Translation[];
}

/** Writes a file for each stream below `out`: its description, or the reasons why it has none. */
export async function measureCoverage(
  folder: string,
  out: string,
  reportProgress: (line: string) => void,
): Promise<readonly Table[]> {
  await using vendors = await startVendors();
  // In memory, if Linux has a place for it: most of what a run does is to wait until a disk has it.
  const runs = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'report-exporter-coverage-'));
  const results: Result[] = [];
  let connector = '';
  for (const stream of readStreams(folder)) {
    if (stream.connector !== connector) reportProgress(`${stream.connector}, after ${results.length} streams`);
    ({ connector } = stream);
    const result = await measureStream(stream, vendors, join(runs, 'run'));
    results.push(result);
    mkdirSync(join(out, connector), { recursive: true });
    const file = join(out, connector, `${stream.name.replaceAll(/[^\w-]/g, '-')}.json`);
    const { reasons, translations } = result;
    const settings = translations.map((each) => each.settings);
    const written = reasons.length > 0 ? { reasons } : settings.length === 1 ? settings[0] : settings;
    writeFileSync(file, `${JSON.stringify(written, null, 2)}\n`);
  }
  rmSync(runs, { recursive: true, force: true });
  return [summaryOf(results), reasonsOf(results)];
}

async function measureStream(stream: ManifestStream, vendors: Vendors, out: string): Promise<Result> {
  const { connector, config } = stream;
  const translations: Translation[] = [];
  for (const part of withoutLists(stream.stream, { config, now: runTime })) {
    const own = { ...stream, stream: part };
    const outcome = translate(own);
    if (outcome.reasons.length > 0 || !('translation' in outcome))
      return { connector, reasons: outcome.reasons, translations: [] };
    translations.push(outcome.translation);
    const failure = await findFailure(own, outcome.translation, { vendors, out });
    if (failure !== undefined) return { connector, reasons: [failure], translations };
  }
  return { connector, reasons: [], translations };
}

// Tables

const isPlanned = (reason: string): boolean => Object.values<string>(notBuilt).includes(reason);

function summaryOf(results: readonly Result[]): Table {
  const row = (label: string, part: readonly Result[]) => [
    label,
    String(part.length),
    percent(part.length, results.length),
  ];
  const described = results.filter(({ reasons }) => reasons.length === 0);
  const withParents = (kind: 'export' | 'values') =>
    described.filter(({ translations: [translation] }) =>
      Object.hasOwn((translation?.settings.exports.at(-1)?.parents ?? {}) as object, kind),
    );
  const only = (...wanted: readonly string[]) =>
    results.filter(({ reasons }) => reasons.length > 0 && reasons.every((reason) => wanted.includes(reason)));
  const { jobs } = notBuilt;
  const connectors = new Set(results.map(({ connector }) => connector)).size;
  return {
    columns: [`streams of ${connectors} connectors`, 'streams', '%'],
    rows: [
      row('all', results),
      row('described and run', described),
      row('  of these, with parents of another export', withParents('export')),
      row('  of these, with a list of values', withParents('values')),
      row(
        '  of these, counted pages, proved by two passes',
        described.filter(({ translations: [translation] }) => isCounted(translation)),
      ),
      row('lack only jobs', only(jobs)),
      row(
        'lack something else',
        results.filter(({ reasons }) => reasons.some((reason) => !isPlanned(reason))),
      ),
    ],
  };
}

const isCounted = (translation: Translation | undefined): boolean =>
  translation?.settings.exports.some(({ api }) => JSON.stringify(api).includes('"proof":"twice"')) === true;

/** Ranked by the streams that have no other reason. */
function reasonsOf(results: readonly Result[]): Table {
  const counts = new Map<string, { all: number; only: number; onlyWithPlanned: number }>();
  for (const { reasons } of results) {
    const groups = [...new Set(reasons.map(groupOf))];
    const unplanned = groups.filter((group) => !isPlanned(group));
    for (const group of groups) {
      const count = counts.get(group) ?? { all: 0, only: 0, onlyWithPlanned: 0 };
      count.all += 1;
      if (groups.length === 1) count.only += 1;
      if (unplanned.length === 1 && unplanned[0] === group) count.onlyWithPlanned += 1;
      counts.set(group, count);
    }
  }
  const ranked = [...counts].toSorted(([, a], [, b]) => b.only - a.only || b.all - a.all);
  return {
    columns: ['reason', 'streams', 'the only one', 'the only one that is not planned', '%'],
    rows: ranked.map(([reason, { all, only, onlyWithPlanned }]) => [
      reason,
      `${all}`,
      `${only}`,
      `${onlyWithPlanned}`,
      percent(all, results.length),
    ]),
  };
}

/** A reason without the names that differ from stream to stream. */
function groupOf(reason: string): string {
  if (reason.startsWith('custom Python component')) return 'custom Python component';
  const [, message] = /^refused by the settings: settings \S+?: ([^\n]*)/.exec(reason) ?? [];
  if (message !== undefined) return `refused by the settings: ${message.slice(0, 90)}`;
  const [, mode] = /^(pages|quiet|error on page \d|no server)[^:]*: /.exec(reason) ?? [];
  return mode === undefined ? reason : `the run fails (${mode})`;
}

const percent = (part: number, all: number): string => ((100 * part) / all).toFixed(1);
