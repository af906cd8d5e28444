/** The values in the reports of a JSON document, or of documents in lines (`../json.ts`, `../ndjson.ts`). */

import type { ReportValue } from '../../../core/ports.ts';
import { keysOf } from '../../api/request.ts';
import type { PageSettings } from '../../api/page.ts';
import type { OnReport, TextReader } from '../format-check.ts';
import { addPart, type Found, type OpenValue, type Part, partAt } from '../json-parts.ts';
import { createJsonReader } from '../json-reader.ts';

type JsonPage = Extract<PageSettings, { readonly format: 'json' | 'ndjson' }>;

export function jsonReports(page: JsonPage, paths: readonly string[], onReport: OnReport): TextReader {
  const root: Part = { path: '', name: '', parts: [] };
  const isInLines = page.format === 'ndjson';
  const list = isInLines ? undefined : partAt(root, page.reports.slice(0, -'/*'.length));
  // Each document, or each item of the list.
  const report = list === undefined ? root : addPart(list, '/*', 'last');
  const single = !isInLines && page.single === true ? list : undefined;
  for (const path of paths) {
    partAt(report, path);
    if (single !== undefined) partAt(single, path);
  }
  const hasWhole = paths.includes('');
  report.isWhole = hasWhole;
  if (single !== undefined) single.isWhole = hasWhole && 'object';
  const isReport = ({ parts, found }: OpenValue): boolean =>
    parts.includes(report) ||
    // An empty object in the place of the list is no report.
    (single !== undefined && parts.includes(single) && found.type === 'object' && found.items > 0);
  const reader = createJsonReader({
    root,
    many: isInLines,
    // A report may be as long as its page.
    holds: hasWhole ? 'digest' : undefined,
    onValue(value) {
      if (isReport(value)) onReport(paths.map((path) => valueAt(value.found, path)));
      return undefined;
    },
  });
  return { read: reader.read, end: () => reader.end() ?? {} };
}

function valueAt(report: Found, path: string): ReportValue | undefined {
  if (path === '' && report.json !== undefined) return { type: report.type, text: report.json };
  const found = keysOf(path).reduce<Found | undefined>((parent, key) => parent?.parts.get(key), report);
  return found && { type: found.type, text: found.text ?? '' };
}
