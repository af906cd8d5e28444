/**
 * Shows a person how a run is getting on: on a terminal one line that moves, elsewhere a line now and then.
 * Everything goes to stderr, so that stdout holds only what was asked for.
 */

import { styleText } from 'node:util';
import type { Retry } from '../core/installation.ts';
import type { ExportEvent } from '../core/ports.ts';

export interface Terminal {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

export interface Progress {
  readonly say: (text: string) => void;
  readonly onEvent: (event: ExportEvent) => void;
  readonly onRetry: (retry: Retry) => void;
  /** Ends the moving line, so that what follows stands on its own. */
  end(): void;
}

/** Milliseconds between two lines about pages: often enough to see it move, seldom enough to read in a log. */
const paces = { terminal: 100, log: 1_000 };

export function createProgress(stream: Terminal, now: () => number): Progress {
  const isTerminal = stream.isTTY === true;
  const pace = isTerminal ? paces.terminal : paces.log;
  let shownAt = Number.NEGATIVE_INFINITY;
  let moving = false;

  const line = (text: string) => {
    stream.write(`${moving ? '\r\x1b[K' : ''}${text}\n`);
    moving = false;
  };
  const move = (text: string) => {
    if (now() - shownAt < pace) return;
    shownAt = now();
    if (!isTerminal) return line(text);
    stream.write(`\r\x1b[K${text.slice(0, (stream.columns || 80) - 1)}`);
    moving = true;
  };
  return {
    say: (text) => line(dim(text)),
    onEvent(event) {
      const text = describeEvent(event);
      if (event.event === 'page-exported' || event.event === 'page-adopted') move(text);
      else if (text !== '')
        line(dim(event.event === 'run-started' || event.event === 'run-resumed' ? text : `! ${text}`));
    },
    onRetry({ state, error, message, attempt, attempts }) {
      line(dim(`! ${state} failed (${error}: ${message}); trying again, attempt ${attempt} of ${attempts}`));
    },
    end() {
      if (moving) stream.write('\r\x1b[K');
      moving = false;
    },
  };

  function dim(text: string): string {
    return isTerminal ? styleText('dim', text, { stream: process.stderr }) : text;
  }
}

function describeEvent(event: ExportEvent): string {
  switch (event.event) {
    case 'run-started':
      return `Run ${event.run}: every ${event.export} report since ${event.since}`;
    case 'run-resumed':
      return `Run ${event.run} goes on behind ${plural(event.pages, 'page')} stored already, since ${event.since}`;
    case 'run-restarted':
      return `The service dropped its cursor; run ${event.run} starts afresh (${event.reason})`;
    case 'page-exported':
    case 'page-adopted': {
      const reports = event.totalReports === null ? '' : ` · ${plural(event.totalReports, 'report')}`;
      return `Page ${event.page}${reports} · ${bytes(event.totalBytes)}`;
    }
    case 'service-asked-to-wait':
      return `The service asks to wait ${event.seconds} s before page ${event.page}`;
    // The summary tells these.
    case 'run-completed':
    case 'run-failed':
    case 'run-skipped':
      return '';
  }
}

/** `1 page`, `1,234 pages`. */
export function plural(count: number, noun: string): string {
  return `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;
}

const scales = ['kilobyte', 'megabyte', 'gigabyte', 'terabyte'] as const;

/** `58 bytes`, `412.3 kB`. */
export function bytes(count: number): string {
  if (count < 1_000) return `${count} byte${count === 1 ? '' : 's'}`;
  const power = Math.min(scales.length, Math.floor(Math.log10(count) / 3));
  const format = { style: 'unit', unit: scales[power - 1] ?? 'kilobyte', maximumFractionDigits: 1 } as const;
  return new Intl.NumberFormat('en', format).format(count / 1_000 ** power);
}
