/** The status of exports as a person reads it on a terminal, and as a shell takes it apart. */

import type { Incident, NextStart } from '../../core/operations/deployment.ts';
import type { ExportStatus, RunState, RunStatus } from '../../core/operations/run-status.ts';
import { truncate } from '../../core/sanitize.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import type { ExportStatusJson } from '../commands/status.ts';
import { bytes, fromNow, span } from './format.ts';
import { type Cell, type Paint, table } from './terminal.ts';

interface Shown {
  readonly now: number;
  readonly paint: Paint;
  /** `--out ./exports`: for the commands that are offered. */
  readonly option: string;
}

const maxErrorLength = 300;

/** For a terminal: each export with what matters about it, its runs as a table, and what to do about those that stopped. */
export function statusLines(statuses: readonly ExportStatusJson[], shown: Shown): string[] {
  if (statuses.length === 0) return ['No exports yet.'];
  return statuses
    .flatMap((status, index) => [
      ...(index === 0 ? [] : ['']),
      ...('error' in status ? unreadable(status, shown) : exportLines(status, shown)),
    ])
    .map((line) => line.trimEnd());
}

function unreadable({ export: name, error }: Extract<ExportStatusJson, { readonly error: unknown }>, { paint }: Shown) {
  return [`${paint('bold', name)}  ${paint('red', 'its state cannot be read')}`, `  ${error.name}: ${error.message}`];
}

function exportLines(overview: ExportStatus, { now, paint, option }: Shown): string[] {
  const { export: name, runs, watermark, completedAt, next } = overview;
  const facts = [
    completedAt === null ? 'never completed' : `completed ${fromNow(epochMsOf(completedAt), now)}`,
    `watermark ${watermark ?? 'none'}`,
    nextInWords(next, now),
  ];
  const head = `${paint('bold', name)}  ${facts.join(' · ')}`;
  if (runs.length === 0) return [head, '  no runs yet', `  → npx report-exporter start ${name} ${option}`];
  const heading = ['RUN', 'STATE', 'PAGES', 'REPORTS', 'BYTES', 'SINCE', 'STARTED', 'TOOK'].map((text, column) => ({
    text,
    style: 'dim' as const,
    right: column >= 2 && column <= 4,
  }));
  const lines = table([heading, ...runs.map((run) => rowOf(run, now))], paint);
  const [newest] = runs;
  return [
    head,
    ...lines.map((line) => `  ${line}`),
    ...(newest === undefined ? [] : troubleOf(newest, { now, paint, option })),
  ];
}

const styles: Readonly<Record<RunState, Cell['style']>> = {
  running: 'cyan',
  failed: 'red',
  stopped: 'yellow',
  completed: 'green',
  abandoned: 'dim',
};

function rowOf(run: RunStatus, now: number): readonly Cell[] {
  const startedAt = epochMsOf(run.startedAt);
  const endedAt = run.completedAt === null ? (run.state === 'running' ? now : undefined) : epochMsOf(run.completedAt);
  return [
    { text: run.run },
    { text: run.state, style: styles[run.state] },
    { text: run.pages.toLocaleString('en'), right: true },
    { text: run.reports === null ? '–' : run.reports.toLocaleString('en'), right: true },
    { text: bytes(run.bytes), right: true },
    { text: run.since ?? '–' },
    { text: fromNow(startedAt, now) },
    { text: endedAt === undefined ? '–' : span(endedAt - startedAt) },
  ];
}

/** Only the newest run can be in trouble: behind an unfinished one none is begun. */
function troubleOf(
  { export: name, state, lastIncident, lastPageAt }: RunStatus,
  { now, paint, option }: Shown,
): string[] {
  const lines: string[] = [];
  const last = state === 'running' && lastPageAt !== null ? [`  last page ${fromNow(epochMsOf(lastPageAt), now)}`] : [];
  if (lastIncident !== null && state !== 'completed') {
    const when = fromNow(epochMsOf(lastIncident.at), now);
    lines.push(
      `  ${paint('yellow', 'last trouble')} ${when}: ${truncate(describeIncident(lastIncident), maxErrorLength)}`,
    );
  }
  if (state === 'failed' || state === 'stopped') {
    lines.push(`  → npx report-exporter start ${name} ${option}    goes on where it stopped`);
  }
  return [...last, ...lines];
}

function describeIncident(incident: Incident): string {
  return incident.kind === 'wait'
    ? `the service asked to wait ${incident.seconds} s`
    : `${incident.error}: ${incident.message.replaceAll(/\s+/g, ' ')}`;
}

function nextInWords(next: NextStart, now: number): string {
  switch (next.kind) {
    case 'scheduled':
      return `next run ${next.about ? 'about ' : ''}${next.at} (${fromNow(epochMsOf(next.at), now)})`;
    case 'disabled':
      return 'its schedule is off';
    case 'by-hand':
      return 'started by hand';
  }
}

const columns = [
  'export',
  'run',
  'state',
  'pages',
  'reports',
  'bytes',
  'since',
  'watermark',
  'started',
  'completed',
  'completed_age_s',
  'next',
  'last_error',
] as const;

/** For a shell: a line of tab-separated values for each run, below one of their names; nothing where a value is unknown. */
export function statusValues(statuses: readonly ExportStatusJson[], now: number): string[] {
  const lines = statuses.flatMap((status) => {
    if ('error' in status)
      return [
        valuesOf({
          export: status.export,
          state: 'unreadable',
          last_error: `${status.error.name}: ${status.error.message}`,
        }),
      ];
    const { next, completedAt } = status;
    const about = {
      export: status.export,
      watermark: status.watermark,
      completed_age_s: completedAt === null ? null : Math.floor((now - epochMsOf(completedAt)) / 1_000),
      next: next.kind === 'scheduled' ? next.at : next.kind,
    };
    if (status.runs.length === 0) return [valuesOf(about)];
    return status.runs.map(({ run, state, pages, reports, bytes, since, startedAt, completedAt, lastIncident }) =>
      valuesOf({
        ...about,
        run,
        state,
        pages,
        reports,
        bytes,
        since,
        started: startedAt,
        completed: completedAt,
        last_error: lastIncident === null ? null : describeIncident(lastIncident),
      }),
    );
  });
  return [columns.join('\t'), ...lines];
}

function valuesOf(values: Partial<Record<(typeof columns)[number], string | number | null>>): string {
  return columns.map((column) => String(values[column] ?? '').replaceAll(/\s+/g, ' ')).join('\t');
}
