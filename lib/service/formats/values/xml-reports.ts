/** The values in the reports of an XML document (`../xml.ts`). */

import type { ReportValue } from '../../../core/ports.ts';
import { maxValueLength, type OnReport, type TextReader } from '../format-check.ts';
import { localName } from '../xml.ts';
import { createXmlDocument, type XmlListener } from '../xml-document.ts';

/** `reports` is the path of a report, from the root on. */
export function xmlReports(reports: string, paths: readonly string[], onReport: OnReport): TextReader {
  const listener = followReports(reports.split('/').slice(1), paths, onReport);
  const document = createXmlDocument((name) => name, listener);
  return {
    read: (text) => document.read(text),
    charactersRead: () => document.charactersRead(),
    keepsByteOrderMark: true,
    end: () => document.end() ?? {},
  };
}

function followReports(steps: readonly string[], paths: readonly string[], onReport: OnReport): XmlListener {
  /** The names of the open elements. */
  const open: string[] = [];
  /** The values of the report that is being read, by their paths. */
  let values: Map<string, string> | undefined;
  /** Whether the start tag that is being read may have an attribute that is asked for. */
  let isTagAsked = false;

  const isReport = (): boolean =>
    open.length === steps.length && steps.every((name, depth) => name === '*' || name === open[depth]);
  /** The path of the newest open element in its report. */
  const path = (): string =>
    open
      .slice(steps.length)
      .map((name) => `/${name}`)
      .join('');
  /** The paths of the open elements whose text is asked for. */
  const reading = (): readonly string[] => {
    if (values === undefined) return [];
    const here = path();
    return paths.filter((asked) => !asked.includes('@') && (here === asked || here.startsWith(`${asked}/`)));
  };
  const add = (asked: string, text: string): string | undefined => {
    const value = (values?.get(asked) ?? '') + text;
    values?.set(asked, value);
    return value.length > maxValueLength ? `the value at ${asked} of a report is too long` : undefined;
  };
  const begin = (asked: string): string | undefined =>
    values?.has(asked) ? `a report has two values at ${asked}` : add(asked, '');

  return {
    isReading: () => isTagAsked || reading().length > 0,
    startTag(name) {
      open.push(localName(name));
      if (isReport()) values = new Map();
      isTagAsked = values !== undefined && paths.some((asked) => asked.startsWith(`${path()}/@`));
    },
    attribute(name, value) {
      const asked = `${path()}/@${localName(name)}`;
      if (!isTagAsked || name.startsWith('xmlns:') || !paths.includes(asked)) return undefined;
      return begin(asked) ?? add(asked, value);
    },
    endTag() {
      isTagAsked = false;
      return values !== undefined && paths.includes(path()) ? begin(path()) : undefined;
    },
    text: (text) => reading().reduce<string | undefined>((problem, asked) => add(asked, text) ?? problem, undefined),
    closeElement() {
      if (values !== undefined && isReport()) {
        onReport(paths.map((asked) => valueOf(values?.get(asked))));
        values = undefined;
      }
      open.pop();
    },
    declarations: () => 'the DOCTYPE has declarations or names a DTD, which is not read and could hide a value',
  };
}

/** XML that is indented has white space around its values. */
const valueOf = (text: string | undefined): ReportValue | undefined =>
  text === undefined ? undefined : { type: 'string', text: text.trim() };
