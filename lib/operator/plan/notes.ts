/** Advice for a person who describes an API: what the description cannot tell apart, and which condition would. */

import { toPrintable } from '../../core/sanitize.ts';
import { needsSomething, partsOf } from '../../service/api/condition.ts';
import type { Description } from '../../service/api/description.ts';
import { formOfNext, kindOf } from '../../service/api/next/kinds.ts';
import { listPath } from '../../service/api/paths.ts';
import type { ExportTarget } from '../target.ts';
import type { SeenPage, SeenPages } from './requests.ts';

export function notesOn(
  { definition, service: { api } }: Pick<ExportTarget, 'definition' | 'service'>,
  seen: SeenPages,
): readonly string[] {
  const [first] = seen.pages;
  const templates = JSON.stringify([api.request.path, api.request.query, api.request.body, api.request.form]);
  const hasSince = templates.includes('{since}') || templates.includes('{filter}');
  const notes: readonly (string | false | undefined)[] = [
    !hasSince && 'no request has {since}: every run exports everything',
    definition.dates.upperBound === undefined &&
      'slices and runs with an upper bound are not possible: requests have none',
    first?.page.reports === 0 && 'the first page has no reports: try an earlier --since',
    first?.page.next.cursor === null &&
      'the first page is the last one. Try an earlier --since or a smaller size, to see that the next page is found',
    noteOnSamePage(seen.pages),
    noteOnParameters(api, seen.pages),
    noteOnFlag(api, seen),
    seen.proof?.note,
    noteOnColumns(api),
    noteOnQuietNight(api, seen),
  ];
  return notes.filter((note) => typeof note === 'string').map(toPrintable);
}

const noteOnSamePage = ([, second]: readonly SeenPage[]): string | false =>
  second?.equalPages === 2 && 'page 2 has the same reports as page 1: the service may ignore the cursor. Check next.to';

/** A URL of the next page without a filter leads to reports outside the period, unless its cursor has the filter. */
function noteOnParameters(api: Description, [first, second]: readonly SeenPage[]): string | undefined {
  if (formOfNext(api) !== 'url' || first === undefined || second === undefined) return undefined;
  const sent = new URL(second.page.request.url).searchParams;
  const missing = [...new URL(first.page.request.url).searchParams.keys()].filter((name) => !sent.has(name));
  if (missing.length === 0) return undefined;
  return (
    `the URL of page 2 lacks ${missing.join(', ')}, which page 1 was requested with. Unless its cursor contains them, further pages have ` +
    'reports of other periods. Then set next.to to {"query": "*"}'
  );
}

const flagName =
  /^((has)?(more|next)(pages?|results|items|records|data|available|itemsincollection)?|(is)?(last|final)(page|batch)?|(is)?(done|truncated|finished|completed?)|end|eof|endof(stream|data|results|list))$/;

const isFlagName = (name: string): boolean => flagName.test(name.toLowerCase().replaceAll(/[_-]/g, ''));
const isBoolean = (value: unknown): boolean => typeof value === 'boolean' || value === 'true' || value === 'false';

/** Without `last`, a next page that is missing by mistake ends the run. */
function noteOnFlag({ next, last }: Description, { pages, last: lastPage }: SeenPages): string | undefined {
  if (kindOf(next).sends === 'number' || partsOf(last).some(needsSomething)) return undefined;
  const found = [lastPage, ...pages].flatMap((seen) =>
    [...(seen?.sample.values ?? [])]
      .filter(([path, value]) => isBoolean(value) && isFlagName(nameIn(path)))
      .map(([at, value]) => ({ at, is: String(value) === String(seen?.page.next.cursor === null) })),
  )[0];
  if (found === undefined) return undefined;
  return (
    `the last page is recognized only by what it lacks, but ${found.at} looks like a flag. If it is, set last to ${JSON.stringify(found)}: ` +
    'then a next page that is missing by mistake is an error'
  );
}

const nameIn = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

/** An error in text/csv is a table, too: one with a column and no rows. */
const noteOnColumns = ({ page }: Description): string | false =>
  page.format === 'csv' &&
  page.reports === undefined &&
  page.columns === undefined &&
  'any text counts as the first page of the first run, as one without rows: set page.columns to the first row';

/** On a night without reports, the list may be missing. Nothing has to be said once such a page has been seen. */
function noteOnQuietNight({ page, when }: Description, { pages, last, proof }: SeenPages): string | undefined {
  const list = listPath(page);
  const wasSeen =
    (proof?.quiet ?? 'not seen') !== 'not seen' || [...pages, last].some((each) => each?.page.reports === 0);
  if (list === undefined || when?.empty !== undefined || wasSeen) return undefined;
  const place = list === '' ? 'its list' : list;
  return (
    `a page without reports may lack ${place}, and would be refused: the run would fail on the first night without reports. If the API has such ` +
    `pages, set when.empty, for example to ${JSON.stringify(emptyCondition(pages))}`
  );
}

/** A value that says how many reports there are, or one that stands on every page. */
function emptyCondition(pages: readonly SeenPage[]): object {
  const values = [...(pages[0]?.sample.values ?? [])];
  const total = values.find(
    ([path, value]) =>
      Number.isInteger(value) &&
      /^(total|count|num)(_?(count|items|results|records|found|size))?$|total$/i.test(nameIn(path)),
  );
  if (total !== undefined) return { at: total[0], is: 0 };
  const kind = values.find(
    ([path, value]) =>
      /^(kind|object|type|resourceType)$/.test(nameIn(path)) && /^[a-z][a-z#._-]{0,40}$/i.test(String(value)),
  );
  return kind === undefined ? { at: '', is: null } : { at: kind[0], is: kind[1] };
}
