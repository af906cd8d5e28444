/** Advice for a person who describes an API: what the description cannot tell apart, and which condition would. */

import { toPrintable } from '../../core/sanitize.ts';
import { type Description, hasSince, selectingRequests } from '../../service/api/description.ts';
import { formOfNext, kindOf } from '../../service/api/next/kinds.ts';
import { listPath } from '../../service/api/paths.ts';
import { uses } from '../../service/api/request.ts';
import type { ExportTarget } from '../target.ts';
import type { Checks, Requested, RequestedPage } from './requests.ts';

export function notesOn(
  { definition, service: { api } }: Pick<ExportTarget, 'definition' | 'service'>,
  { pages = [], walk }: Requested,
  { proof, idProblem }: Checks,
): readonly string[] {
  const [first, second] = pages;
  const seen = [...pages, ...(walk?.last === undefined ? [] : [walk.last])];
  const isFiltered = selectsByTime(api);
  const notes: readonly (string | false | undefined)[] = [
    !isFiltered && 'no request has {since}: every run exports everything',
    definition.dates.upperBound === undefined &&
      'slices and runs with an upper bound are not possible: requests have none',
    isFiltered &&
      definition.dates.zone === undefined &&
      'dates.zone is not set: requests begin 12 hours earlier and end 14 hours later, and reports come twice. Slices and runs with an upper bound need it',
    first?.reports === 0 &&
      `the first page has no reports${isFiltered ? ': try an earlier --since' : ', so its list and the next page were not seen'}`,
    idProblem,
    noteOnEnd(api, seen),
    second?.equalPages === 2 &&
      'page 2 has the same reports as page 1: the service may ignore the cursor. Check next.to',
    noteOnParameters(api, pages),
    noteOnFlag(seen),
    proof?.note,
    noteOnColumns(api),
    noteOnQuietNight(api, seen, proof),
  ];
  return notes.filter((note) => typeof note === 'string').map(toPrintable);
}

/** Whether `--since` changes what is requested. The whole filter has the lower bound, too. */
const selectsByTime = (api: Description): boolean =>
  hasSince(api) || selectingRequests(api).some((request) => uses(request, 'filter'));

/** A URL of the next page without a filter leads to reports outside the period, unless its cursor has the filter. */
function noteOnParameters(api: Description, [first, second]: readonly RequestedPage[]): string | undefined {
  if (formOfNext(api) !== 'url' || first === undefined || second === undefined) return undefined;
  const sent = new URL(second.request.url).searchParams;
  const missing = [...new URL(first.request.url).searchParams.keys()].filter((name) => !sent.has(name));
  if (missing.length === 0) return undefined;
  return (
    `the URL of page 2 lacks ${missing.join(', ')}, which page 1 was requested with. That is right if its cursor contains them. To see it, use a ` +
    '--since after which there are between one and two pages of reports: then page 2 is the last one. Otherwise set next.to to {"query": "*"}'
  );
}

/** A `next` that names a wrong place ends a run at its first page. */
function noteOnEnd(api: Description, seen: readonly RequestedPage[]): string | undefined {
  const [first] = seen;
  const doubt = seen.find(({ hints }) => hints.doubtfulEnd !== undefined)?.hints.doubtfulEnd;
  if (doubt !== undefined || first?.next.cursor !== null || first.reports === 0) return doubt;
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
function noteOnFlag(seen: readonly RequestedPage[]): string | undefined {
  const found = seen.findLast(({ hints }) => hints.flag !== undefined)?.hints.flag;
  if (seen.some(({ hints }) => hints.doubtfulEnd !== undefined)) return undefined;
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
function noteOnQuietNight(
  api: Description,
  seen: readonly RequestedPage[],
  proof: Checks['proof'],
): string | undefined {
  const { page, when } = api;
  const list = listPath(page);
  const wasSeen = (proof?.quiet ?? 'not seen') !== 'not seen' || seen.some(({ reports }) => reports === 0);
  if (list === undefined || when?.empty !== undefined || wasSeen) return undefined;
  if (proof?.rejection !== undefined)
    return `a page without reports was not seen, as an empty interval was rejected: ${proof.rejection}`;
  const place = list === '' ? 'its list' : list;
  const remedy = selectsByTime(api)
    ? 'To see such a page, use plan --request with a --since after the newest report'
    : 'The documentation of the API may show such a page: if the list is missing, set when.empty';
  return `a page without reports may lack ${place}, and would be refused: the run would fail on the first night without reports. ${remedy}`;
}
