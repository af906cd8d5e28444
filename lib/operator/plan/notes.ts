/** Advice for a person who describes an API: what the description cannot tell apart, and which condition would. */

import { toPrintable } from '../../core/sanitize.ts';
import { type Description, hasSince, selectingRequests } from '../../service/api/description.ts';
import { formOfNext, kindOf } from '../../service/api/next/kinds.ts';
import { listPath } from '../../service/api/paths.ts';
import { uses } from '../../service/api/request.ts';
import type { ExportTarget } from '../target.ts';
import type { SeenPage, SeenPages } from './requests.ts';

export function notesOn(
  { definition, service: { api } }: Pick<ExportTarget, 'definition' | 'service'>,
  seen: SeenPages,
): readonly string[] {
  const [first] = seen.pages;
  const isFiltered = selectsByTime(api);
  const notes: readonly (string | false | undefined)[] = [
    !isFiltered && 'no request has {since}: every run exports everything',
    definition.dates.upperBound === undefined &&
      'slices and runs with an upper bound are not possible: requests have none',
    isFiltered &&
      definition.dates.zone === undefined &&
      'dates.zone is not set: requests begin 12 hours earlier and end 14 hours later, and reports come twice. Slices and runs with an upper bound need it',
    first?.page.reports === 0 &&
      `the first page has no reports${isFiltered ? ': try an earlier --since' : ', so its list and the next page were not seen'}`,
    seen.idProblem,
    noteOnEnd(api, seen),
    noteOnSamePage(seen.pages),
    noteOnParameters(api, seen.pages),
    noteOnFlag(seen),
    seen.proof?.note,
    noteOnColumns(api),
    noteOnQuietNight(api, seen),
  ];
  return notes.filter((note) => typeof note === 'string').map(toPrintable);
}

/** Whether `--since` changes what is requested. The whole filter has the lower bound, too. */
const selectsByTime = (api: Description): boolean =>
  hasSince(api) || selectingRequests(api).some((request) => uses(request, 'filter'));

const noteOnSamePage = ([, second]: readonly SeenPage[]): string | false =>
  second?.equalPages === 2 && 'page 2 has the same reports as page 1: the service may ignore the cursor. Check next.to';

/** A URL of the next page without a filter leads to reports outside the period, unless its cursor has the filter. */
function noteOnParameters(api: Description, [first, second]: readonly SeenPage[]): string | undefined {
  if (formOfNext(api) !== 'url' || first === undefined || second === undefined) return undefined;
  const sent = new URL(second.page.request.url).searchParams;
  const missing = [...new URL(first.page.request.url).searchParams.keys()].filter((name) => !sent.has(name));
  if (missing.length === 0) return undefined;
  return (
    `the URL of page 2 lacks ${missing.join(', ')}, which page 1 was requested with. That is right if its cursor contains them. To see it, use a ` +
    '--since after which there are between one and two pages of reports: then page 2 is the last one. Otherwise set next.to to {"query": "*"}'
  );
}

/** A `next` that names a wrong place ends a run at its first page. */
function noteOnEnd(api: Description, { pages, last }: SeenPages): string | undefined {
  const [first] = pages;
  const doubt = first?.hints.doubtfulEnd ?? last?.hints.doubtfulEnd;
  if (doubt !== undefined || first?.page.next.cursor !== null || first.page.reports === 0) return doubt;
  const { next } = api;
  if (kindOf(next).sends === 'nothing') return undefined;
  const trial = selectsByTime(api) ? 'an earlier --since or a smaller size' : 'a smaller size';
  const at = 'at' in next ? `next.at (${next.at})` : 'next';
  return (
    `nothing is at ${at}, so the first page is the last one. Try ${trial}, to see that the next page is found. If the ` +
    `period has more reports than the page, check ${at}`
  );
}

/** Without `last`, a next page that is missing by mistake ends the run. */
function noteOnFlag({ pages, last }: SeenPages): string | undefined {
  const hints = [last, ...pages].map((seen) => seen?.hints);
  const found = hints.find((each) => each?.flag !== undefined)?.flag;
  if (hints.some((each) => each?.doubtfulEnd !== undefined)) return undefined;
  if (found === undefined) return undefined;
  return (
    `the last page is recognized only by what it lacks, but ${found.at} looks like a flag. If it is, set last to ${JSON.stringify(found)}: ` +
    'then a next page that is missing by mistake is an error'
  );
}

/** An error in text/csv is a table, too: one with a column and no rows. */
const noteOnColumns = ({ page }: Description): string | false =>
  page.format === 'csv' &&
  page.reports === undefined &&
  page.columns === undefined &&
  'any text counts as the first page of the first run, as one without rows: set page.columns to the first row';

/** On a night without reports, the list may be missing. Nothing has to be said once such a page has been seen. */
function noteOnQuietNight(api: Description, { pages, last, proof }: SeenPages): string | undefined {
  const { page, when } = api;
  const list = listPath(page);
  const wasSeen =
    (proof?.quiet ?? 'not seen') !== 'not seen' || [...pages, last].some((each) => each?.page.reports === 0);
  if (list === undefined || when?.empty !== undefined || wasSeen) return undefined;
  if (proof?.rejection !== undefined)
    return `a page without reports was not seen, as an empty interval was rejected: ${proof.rejection}`;
  const place = list === '' ? 'its list' : list;
  const remedy = selectsByTime(api)
    ? 'To see such a page, use plan --request with a --since after the newest report'
    : 'The documentation of the API may show such a page: if the list is missing, set when.empty';
  return `a page without reports may lack ${place}, and would be refused: the run would fail on the first night without reports. ${remedy}`;
}
