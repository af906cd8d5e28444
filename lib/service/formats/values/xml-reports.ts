/** The values in the reports of an XML document (`../xml.ts`). */

import type { ReportValue } from '../../../core/ports.ts';
import type { OnReport, TextReader } from '../format-check.ts';
import { followPaths } from '../xml.ts';
import { createXmlDocument } from '../xml-document.ts';
import { newTarget, type Target, valueOf } from '../xml-path.ts';

/** `reports` is the path of a report, from the root on. */
export function xmlReports(reports: string, paths: readonly string[], onReport: OnReport): TextReader {
  const counted = newTarget(reports);
  const inReport = paths.map((path) => newTarget(`${reports}${path}`));
  const listener = followPaths([counted, ...inReport], {
    counted,
    inReport,
    onReport: () => onReport(inReport.map(reportValueOf)),
    hasValues: true,
  });
  const document = createXmlDocument((name) => name, listener);
  return {
    read: (text) => document.read(text),
    charactersRead: () => document.charactersRead(),
    keepsByteOrderMark: true,
    end: () => document.end() ?? {},
  };
}

/** XML that is indented has white space around its values. */
function reportValueOf(target: Target): ReportValue | undefined {
  const { text } = valueOf(target);
  return text === undefined ? undefined : { type: 'string', text: text.trim() };
}
