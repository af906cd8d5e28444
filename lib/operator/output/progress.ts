/**
 * Shows a person how a run is getting on: on a terminal one line that moves, elsewhere a line now and then.
 * Everything goes to stderr, so that stdout holds only what was asked for.
 */

import { styleText } from 'node:util';
import type { Retry } from '../../core/operations/deployment.ts';
import type { ExportEvent } from '../../core/ports.ts';
import { bytes, plural } from './format.ts';

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
  let paceOf = createPace(now());

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
      if (event.event === 'run-started' || event.event === 'run-resumed') {
        paceOf = createPace(now(), event.pages, event.bytes);
      }
      if (event.event === 'page-exported' || event.event === 'page-adopted') {
        move(`${text}${paceOf(now(), event.page, event.totalBytes)}`);
      } else if (text !== '')
        line(dim(event.event === 'run-started' || event.event === 'run-resumed' ? text : `! ${text}`));
    },
    onRetry({ state, error, message, attempt, maxAttempts, maxDelaySeconds }) {
      const retrying = `Retrying${maxDelaySeconds === undefined ? '' : ` within ${maxDelaySeconds} s`} (attempt ${attempt} of ${maxAttempts})`;
      line(dim(`! ${state} failed. ${retrying}: ${error}: ${message}`));
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

/** Below this there is too little to tell a pace by. */
const leastMs = 1_000;

/** ` · 3.2 pages/s · 1.1 MB/s`, over all that was exported since it was created. */
function createPace(startedAt: number, pagesThen = 0, bytesThen = 0) {
  return (now: number, pages: number, size: number): string => {
    const seconds = (now - startedAt) / 1_000;
    if (seconds * 1_000 < leastMs) return '';
    const perSecond = (pages - pagesThen) / seconds;
    const rate = perSecond >= 1 ? `${perSecond.toFixed(1)} pages/s` : `${(perSecond * 60).toFixed(1)} pages/min`;
    return ` · ${rate} · ${bytes(Math.round((size - bytesThen) / seconds))}/s`;
  };
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

// MERGED meter.ts: Shows that long work moves: on a terminal one line, elsewhere nothing, as its end says all that counts.

export interface Meter {
  readonly page: (bytes: number) => void;
  readonly end: () => void;
}

const paceMs = 100;

export function createMeter(stream: Terminal, verb: string): Meter {
  let pages = 0;
  let sum = 0;
  let shownAt = 0;
  return {
    page(size) {
      pages += 1;
      sum += size;
      if (stream.isTTY !== true || performance.now() - shownAt < paceMs) return;
      shownAt = performance.now();
      stream.write(`\r\x1b[K${verb} ${plural(pages, 'page')} · ${bytes(sum)}`);
    },
    end() {
      if (shownAt > 0) stream.write('\r\x1b[K');
    },
  };
}
