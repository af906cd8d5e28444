/** What `verify` found: the details of an export, or a line per export. */

import { sumTotals } from '../../core/model.ts';
import { toPrintable } from '../../core/sanitize.ts';
import type { UnreadableExport } from '../../target/target.ts';
import type { VerifiedRun } from '../verify-run.ts';
import { countKinds, type ExportColumns, exportTable, type TableOptions } from './export-table.ts';
import { bytes, plural, totals } from './format.ts';
import { errorText } from './status-table.ts';
import { type Cell, ellipsize, type TextStyle } from './terminal.ts';

interface VerifiedExport {
  readonly export: string;
  /** The newest one, and if that has no reports, the newest one that has some. Empty: there is no run yet. */
  readonly runs: readonly VerifiedRun[];
  /** How many bounded runs were left out. */
  readonly boundedRuns: number;
}

export type VerifyRow = VerifiedExport | UnreadableExport;

const statuses = ['unreadable', 'failed', 'none', 'ok'] as const;

export function statusOf(row: VerifyRow): (typeof statuses)[number] {
  if ('error' in row) return 'unreadable';
  if (row.runs.length === 0) return 'none';
  return row.runs.some(({ findingCount }) => findingCount > 0) ? 'failed' : 'ok';
}

/** The object of `--json`, with the fields of the newest run. */
export function verifiedJson(row: VerifyRow): object {
  if ('error' in row) return row;
  const [newest, newestWithReports = null] = row.runs;
  return { status: statusOf(row), export: row.export, ...newest, newestWithReports };
}

/** What a person reads of one export. */
export function verifiedLines(row: VerifyRow, style: TextStyle): string[] {
  return 'error' in row ? [] : row.runs.flatMap((run, index) => runLines(run, index > 0, style));
}

function runLines(verified: VerifiedRun, isOlder: boolean, style: TextStyle): string[] {
  const { run, published, bounds, notes, findings, findingCount } = verified;
  const which = isOlder ? ', the newest run with reports' : '';
  const label = `${published ? '' : 'unfinished '}run ${run} (${totals(verified)})${which}`;
  const noteLines = notes.map((note) => style('dim', `  ${note}`));
  if (findingCount === 0) return [`${style('green', 'Verified:')} ${label}`, ...noteLines];
  const more = findingCount - findings.length;
  return [
    `${style('red', 'Verification failed:')} ${plural(findingCount, 'problem')} in ${label}`,
    ...findings.map(({ message }) => `  ${message}`),
    ...(more === 0 ? [] : [`  and ${plural(more, 'more problem')}`]),
    'Do not rely on this run. Restore the original objects, from a bucket version or a backup, or export the same',
    bounds === null
      ? 'reports in a new run: start it with a --since at or before the one of this run.'
      : `reports again: start with --since ${bounds.since} --until ${bounds.until} --again.`,
    ...noteLines,
  ];
}

/** A line per export, and a summary. */
export function verifyTable(rows: readonly VerifyRow[], options: TableOptions): string[] {
  const summary = ellipsize(countKinds(rows.map(statusOf), statuses), options.columns);
  return [...exportTable(rows, tableColumns, options), '', summary];
}

const statusStyles: Readonly<Record<(typeof statuses)[number], Cell['style']>> = {
  unreadable: 'red',
  failed: 'red',
  none: 'dim',
  ok: 'green',
};

const runsOf = (row: VerifyRow): readonly VerifiedRun[] => ('error' in row ? [] : row.runs);
const number = (count: number | null): string => count?.toLocaleString('en') ?? '–';

const tableColumns: ExportColumns<VerifyRow> = {
  required: [
    { heading: 'EXPORT', cell: (row) => ({ text: row.export, style: 'bold' }) },
    { heading: 'STATUS', cell: (row) => ({ text: statusOf(row), style: statusStyles[statusOf(row)] }) },
  ],
  optional: [
    { heading: 'PAGES', alignRight: true, cell: (row) => ({ text: number(sumTotals(runsOf(row)).pages) }) },
    { heading: 'REPORTS', alignRight: true, cell: (row) => ({ text: number(sumTotals(runsOf(row)).reports) }) },
    { heading: 'BYTES', alignRight: true, cell: (row) => ({ text: bytes(sumTotals(runsOf(row)).bytes) }) },
    { heading: 'RUN', cell: (row) => ({ text: runsOf(row)[0]?.run ?? '–' }) },
  ],
  noteOf(row) {
    if ('error' in row) return errorText(row.error.name, row.error.message);
    const [newest, older] = row.runs;
    if (newest === undefined) return 'no run yet';
    const damaged = row.runs.filter(({ findingCount }) => findingCount > 0);
    const problems = damaged.reduce((count, { findingCount }) => count + findingCount, 0);
    if (problems > 0) return toPrintable(`${plural(problems, 'problem')}: ${damaged[0]?.findings[0]?.message}`);
    if (!newest.published) return 'unfinished run';
    return older === undefined ? '' : 'two runs: the newest has no reports';
  },
};
