/** What `verify --all` found: a line per export. */

import type { RunTotals } from '../../core/model.ts';
import { toPrintable } from '../../core/sanitize.ts';
import type { UnreadableExport } from '../../target/target.ts';
import type { Finding } from '../expected-pages.ts';
import type { VerifiedRun } from '../verify-run.ts';
import { countKinds, type ExportColumns, exportTable, type TableOptions } from './export-table.ts';
import { bytes, plural } from './format.ts';
import { errorText } from './status-table.ts';
import { type Cell, ellipsize } from './terminal.ts';

/** A run in `--json`. */
export interface VerifiedRunJson extends VerifiedRun {
  readonly run: string;
  readonly published: boolean;
  readonly findings: readonly Finding[];
  readonly findingCount: number;
}

/** An export in `--json`, with the fields of its newest run. `none`: it has no run yet. */
export interface VerifiedExport extends Partial<VerifiedRunJson> {
  readonly status: 'ok' | 'failed' | 'none';
  readonly export: string;
  /** If the newest run has no reports: the newest one that has some. */
  readonly newestWithReports: VerifiedRunJson | null;
}

export type VerifyRow = VerifiedExport | UnreadableExport;

/** A line per export, and a summary. */
export function verifyTable(rows: readonly VerifyRow[], options: TableOptions): string[] {
  const summary = ellipsize(countKinds(rows.map(statusOf), statuses), options.columns);
  return [...exportTable(rows, tableColumns, options), '', summary];
}

const statuses = ['unreadable', 'failed', 'none', 'ok'] as const;
const statusOf = (row: VerifyRow): (typeof statuses)[number] => ('error' in row ? 'unreadable' : row.status);
const statusStyles: Readonly<Record<(typeof statuses)[number], Cell['style']>> = {
  unreadable: 'red',
  failed: 'red',
  none: 'dim',
  ok: 'green',
};

/** Of both runs, if two were verified. */
function totalsOf(row: VerifyRow): RunTotals & { readonly findingCount: number } {
  const runs: readonly Partial<VerifiedRunJson>[] = 'error' in row ? [] : [row, row.newestWithReports ?? {}];
  const sum = (amountOf: (run: Partial<VerifiedRunJson>) => number | undefined) =>
    runs.reduce((total, run) => total + (amountOf(run) ?? 0), 0);
  return {
    pages: sum(({ pages }) => pages),
    reports: runs.some(({ reports }) => reports === null) ? null : sum(({ reports }) => reports ?? 0),
    bytes: sum((run) => run.bytes),
    findingCount: sum(({ findingCount }) => findingCount),
  };
}

const runOf = (row: VerifyRow) => ('error' in row ? undefined : row.run);
const findingOf = (row: VerifyRow) =>
  'error' in row ? undefined : [...(row.findings ?? []), ...(row.newestWithReports?.findings ?? [])][0]?.message;

const tableColumns: ExportColumns<VerifyRow> = {
  required: [
    { heading: 'EXPORT', cell: (row) => ({ text: row.export, style: 'bold' }) },
    { heading: 'STATUS', cell: (row) => ({ text: statusOf(row), style: statusStyles[statusOf(row)] }) },
  ],
  optional: [
    { heading: 'PAGES', alignRight: true, cell: (row) => ({ text: totalsOf(row).pages.toLocaleString('en') }) },
    {
      heading: 'REPORTS',
      alignRight: true,
      cell: (row) => ({ text: totalsOf(row).reports?.toLocaleString('en') ?? '–' }),
    },
    { heading: 'BYTES', alignRight: true, cell: (row) => ({ text: bytes(totalsOf(row).bytes) }) },
    { heading: 'RUN', cell: (row) => ({ text: runOf(row) ?? '–' }) },
  ],
  noteOf(row) {
    if ('error' in row) return errorText(row.error.name, row.error.message);
    const { findingCount } = totalsOf(row);
    if (findingCount > 0) return toPrintable(`${plural(findingCount, 'problem')}: ${findingOf(row)}`);
    if (row.status === 'none') return 'no run yet';
    if (row.published === false) return 'unfinished run';
    return row.newestWithReports === null ? '' : 'two runs: the newest has no reports';
  },
};
