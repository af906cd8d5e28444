/**
 * Reads values of the reports in pages that were checked when they were received. A path leads from a report: in JSON
 * a JSON Pointer, which is empty for a report that is no object; in XML the names of elements, possibly with an
 * attribute at the end, such as `/link/@href`; in CSV the name of a column.
 */

import { ExportError } from '../../../core/errors.ts';
import type { ReportReader, ReportValues } from '../../../core/ports.ts';
import type { Api } from '../../api/description.ts';
import { provedBy } from '../../api/next/kinds.ts';
import { type PageSettings, reportsIn } from '../../api/page.ts';
import { checkText, type OnReport, type TextReader } from '../format-check.ts';

const createReportReader = (page: PageSettings): ReportReader => ({
  async read(chunks, paths) {
    const reports: ReportValues[] = [];
    const check = checkText(await textReader(page, paths, (values) => reports.push(values)));
    let isBlank = true;
    for await (const chunk of chunks) {
      isBlank &&= chunk.length === 0;
      const problem = check.push(chunk);
      if (problem !== undefined) throw new ExportError('ContractError', problem);
    }
    // Such as that of a response with status 204. That it is a page was known when it was received.
    if (isBlank) return reports;
    const content = check.end();
    if (typeof content === 'string') throw new ExportError('ContractError', content);
    return reports;
  },
});

/** Reads the reports that are the parents of an export; undefined if its parents are none. */
export const reportReaderOf = (
  parents: { readonly listed?: { readonly page: PageSettings } | undefined } | undefined,
): ReportReader | undefined => parents?.listed && createReportReader(parents.listed.page);

/** Reads the pages of an export, if the IDs of its reports prove them. */
export const pageReaderOf = ({ page, next }: Pick<Api, 'page' | 'next'>): ReportReader | undefined =>
  provedBy(next) === undefined ? undefined : createReportReader(page);

async function textReader(page: PageSettings, paths: readonly string[], onReport: OnReport): Promise<TextReader> {
  // Libraries take time to load, and few processes need them.
  switch (page.format) {
    case 'json':
    case 'ndjson':
      return (await import('./json-reports.ts')).jsonReports(page, paths, onReport);
    case 'xml':
      return (await import('./xml-reports.ts')).xmlReports(reportsIn(page) ?? '/*/*', paths, onReport);
    case 'csv':
      return (await import('../csv.ts')).csvReports(page.delimiter, paths, onReport);
    case 'zip':
    case 'bytes':
      throw new ExportError('ConfigurationError', 'Pages in zip or bytes have no reports that can be read');
  }
}
