/** The backfill of an export, for a person at a terminal. */

import { maxFunctionMs, type PublishingWindow } from '../../backfill/abandon.ts';
import type { BackfillRequest } from '../../backfill/request.ts';
import type { WindowState, WindowStatus } from '../../backfill/status.ts';
import type { Window } from '../../backfill/windows.ts';
import { truncate } from '../../core/sanitize.ts';
import { epochMsOf, instantOf } from '../../core/timestamps.ts';
import type { BackfillSummary } from '../run-status.ts';
import { coarseDuration, plural, totals } from './format.ts';
import type { TextStyle } from './terminal.ts';

/** `2020-01-01T00:00:00Z to 2020-01-08T00:00:00Z`. */
export const windowText = ({ since, until }: Window): string => `${since} to ${until}`;

const stateOrder = ['failed', 'interrupted', 'running', 'waiting', 'done'] as const satisfies WindowState[];
const stateStyles = { failed: 'red', interrupted: 'yellow', running: 'cyan', waiting: 'dim', done: 'green' } as const;

/** `12/40 windows, 1 failed, 4 running`: how far it has come, for a note or a column. */
export function backfillText({ counts, state }: Pick<BackfillSummary, 'counts' | 'state'>): string {
  const windows = Object.values(counts).reduce((sum, count) => sum + count, 0);
  return [
    `${counts.done}/${windows} window${windows === 1 ? '' : 's'}`,
    ...(['failed', 'interrupted', 'running'] as const)
      .filter((each) => counts[each] > 0)
      .map((each) => `${counts[each]} ${each}`),
    ...(state === 'abandoned' ? [state] : []),
  ].join(', ');
}

/** The options with which the same backfill continues. */
export const backfillOptions = ({ from, to, parallel, ...request }: BackfillRequest): string =>
  `--from ${from} --to ${to} --window ${windowOption(request)} --parallel ${parallel}`;

/** In seconds, which any duration can be written in. */
const windowOption = ({ windowMs }: Pick<BackfillRequest, 'windowMs'>): string =>
  windowMs % 86_400_000 === 0 ? `P${windowMs / 86_400_000}D` : `PT${windowMs / 1_000}S`;

const maxShown = 5;
const maxErrorLength = 300;

/** How many windows are in which state; those that have failed or were interrupted, and those that are running. Each line is indented. */
export function backfillLines(status: BackfillSummary, style: TextStyle): readonly string[] {
  const { counts, windows = [], remainingSeconds } = status;
  const states = stateOrder
    .filter((state) => counts[state] > 0)
    .map((state) => style(stateStyles[state], `${counts[state].toLocaleString('en')} ${state}`));
  const left =
    status.state === 'running' && remainingSeconds !== null
      ? [`about ${coarseDuration(remainingSeconds * 1_000)} left`]
      : [];
  const attention = (['failed', 'interrupted', 'running'] as const).flatMap((each) =>
    windows.filter(({ state }) => state === each),
  );
  const more = attention.length - maxShown;
  return [
    `  backfill ${windowText({ since: status.from, until: status.to })}, ${status.state}: ${[...states, totals(status), ...left].join(' · ')}`,
    ...attention.slice(0, maxShown).map((window) => `  ${attentionText(window, style)}`),
    ...(more > 0 ? [`  and ${more.toLocaleString('en')} more`] : []),
  ];
}

function attentionText(window: WindowStatus, style: TextStyle): string {
  const { state, run, pages, lastFailure } = window;
  const stored = pages === 0 ? '' : `, ${plural(pages, 'page')}`;
  const why = lastFailure === null ? '' : ` (${lastFailure.error}: ${lastFailure.message.replaceAll(/\s+/g, ' ')})`;
  return truncate(
    `  ${style(stateStyles[state], state)} ${windowText(window)}, run ${run}${stored}${why}`,
    maxErrorLength,
  );
}

/** What becomes of a window that has begun to be published, and was therefore not abandoned: two lines. */
export function publishingText(window: PublishingWindow): string {
  const [what, next] = publishingPhrases(window);
  return `Not abandoned: ${windowText(window)}, run ${window.run}, ${what}\n  → ${next}\n`;
}

function publishingPhrases({ state, lastFailure }: PublishingWindow): readonly [what: string, next: string] {
  const whenStarted = 'it completes when the backfill is started again';
  if (state === 'running') return ['is being published', 'it completes, unless that fails'];
  if (state === 'published') return ['is published, but its state does not say so yet', whenStarted];
  if (lastFailure === null)
    return ['was interrupted while it was being published', `${whenStarted}, unless that fails`];
  const { error, message, at } = lastFailure;
  const abandonableAt = instantOf(epochMsOf(at) + maxFunctionMs);
  return [
    `could not be published (${error}: ${message})`,
    `${whenStarted}, unless that fails. If it cannot complete, abandon the backfill again, not before ${abandonableAt}`,
  ];
}
