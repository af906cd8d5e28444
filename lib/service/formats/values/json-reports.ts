/** The values in the reports of a JSON document, or of documents in lines (`../json.ts`, `../ndjson.ts`). */

import type { ReportValue } from '../../../core/ports.ts';
import { keysOf } from '../../api/request.ts';
import type { PageSettings } from '../../api/page.ts';
import { maxValueLength, type OnReport, type TextReader } from '../format-check.ts';
import { createJsonTokenizer, type Token } from '../json-tokens.ts';

type JsonPage = Extract<PageSettings, { readonly format: 'json' | 'ndjson' }>;
type Container = 'object' | 'array';

/** An object or an array that is being read. */
interface Open {
  readonly type: Container;
  /** The key of the value that follows, or its index. */
  key: string | number;
  items: number;
}

export function jsonReports(page: JsonPage, paths: readonly string[], onReport: OnReport): TextReader {
  const isInLines = page.format === 'ndjson';
  const list = isInLines ? undefined : keysOf(page.reports.slice(0, -'/*'.length));
  const tokenize = createJsonTokenizer(isInLines);
  const reader = followReports({ list, isSingle: !isInLines && page.single === true }, paths, onReport);
  const readText = (text: string | undefined): string | undefined => {
    const tokens = tokenize(text);
    if (typeof tokens === 'string') return tokens;
    let problem: string | undefined;
    for (const token of tokens) problem ??= reader(token);
    return problem;
  };
  return { mayBeEmpty: isInLines, read: readText, end: () => readText(undefined) ?? {} };
}

interface Place {
  /** The keys of the list of reports. Undefined: each document is a report. */
  readonly list: readonly string[] | undefined;
  /** Whether an object in the place of the list is one report. */
  readonly isSingle: boolean;
}

function followReports({ list, isSingle }: Place, paths: readonly string[], onReport: OnReport) {
  const keysOfPaths = paths.map(keysOf);
  const open: Open[] = [];
  /** How many open values contain the report that is being read. Undefined: none is. */
  let depth: number | undefined;
  let values: (ReportValue | undefined)[] = [];
  let problem: string | undefined;

  const isAtList = (keys: readonly Open[]): boolean =>
    list !== undefined && keys.length === list.length && keys.every(({ key }, index) => String(key) === list[index]);
  const beginsReport = (type: ReportValue['type']): boolean => {
    if (list === undefined) return open.length === 0;
    const isItem = open.at(-1)?.type === 'array' && isAtList(open.slice(0, -1));
    return isItem || (isSingle && type === 'object' && isAtList(open));
  };
  const startValue = (type: ReportValue['type']): void => {
    const parent = open.at(-1);
    if (parent !== undefined) {
      if (parent.type === 'array') parent.key = parent.items;
      parent.items += 1;
    }
    if (depth !== undefined || !beginsReport(type)) return;
    depth = open.length;
    values = paths.map(() => undefined);
  };
  const setValue = (type: ReportValue['type'], value: string): void => {
    const place = depth === undefined ? undefined : open.slice(depth).map(({ key }) => String(key));
    keysOfPaths.forEach((keys, index) => {
      if (keys.length !== place?.length || !keys.every((key, at) => key === place[at])) return;
      if (values[index] !== undefined) problem ??= `a report has two values at ${paths[index]}`;
      if (value.length > maxValueLength) problem ??= `the value at ${paths[index]} of a report is too long`;
      values[index] = { type, text: value };
    });
  };
  const endReport = (isEmpty: boolean): void => {
    if (depth !== open.length) return;
    // An empty object in the place of the list is no report.
    if (!isEmpty || list === undefined || !isAtList(open)) onReport(values);
    depth = undefined;
  };
  const startContainer = (type: Container): void => {
    startValue(type);
    setValue(type, '');
    open.push({ type, key: '', items: 0 });
  };
  const endContainer = (): void => {
    const ended = open.pop();
    endReport(ended?.items === 0);
  };
  const addScalar = (type: ReportValue['type'], value: string): void => {
    startValue(type);
    setValue(type, value);
    endReport(false);
  };
  const read = tokenReaders({
    startContainer,
    endContainer,
    addScalar,
    setKey(key) {
      const parent = open.at(-1);
      if (parent !== undefined) parent.key = key;
    },
  });
  return (token: Token): string | undefined => {
    read(token);
    return problem;
  };
}

interface Reading {
  readonly startContainer: (type: Container) => void;
  readonly endContainer: () => void;
  readonly addScalar: (type: ReportValue['type'], text: string) => void;
  readonly setKey: (key: string) => void;
}

function tokenReaders({ startContainer, endContainer, addScalar, setKey }: Reading): (token: Token) => void {
  /** The key or the scalar that is being read. */
  let text = '';
  const start = () => {
    text = '';
  };
  const addChunk = (value: Token['value']): void => {
    // A longer one is too long, if it is asked for.
    if (text.length <= maxValueLength) text += value;
  };
  const readers: Readonly<Record<string, (value: Token['value']) => void>> = {
    startObject: () => startContainer('object'),
    endObject: endContainer,
    startArray: () => startContainer('array'),
    endArray: endContainer,
    startKey: start,
    endKey: () => setKey(text),
    startString: start,
    endString: () => addScalar('string', text),
    startNumber: start,
    endNumber: () => addScalar('number', text),
    stringChunk: addChunk,
    numberChunk: addChunk,
    trueValue: () => addScalar('boolean', 'true'),
    falseValue: () => addScalar('boolean', 'false'),
    nullValue: () => addScalar('null', ''),
  };
  return ({ name, value }) => readers[name]?.(value);
}
