/**
 * Writes pages in the format of a description: a document that has the reports, the next page and the end flag where the
 * description says. A report is an XML element. In XML it stays what it is; the other formats contain it as text:
 *
 *     {"id": "R-1", "date": "2026-11-20T02:00:00Z", "type": "invoice", "xml": "<report …"}
 *     R-1,2026-11-20T02:00:00Z,invoice,"<report …"
 */

import { ExportError } from '../../../lib/core/errors.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';
import type { Report } from '../../../lib/service/simulator/report-source.ts';
import type { Chunks } from '../../../lib/service/simulator/response.ts';
import type { Api } from '../../../lib/settings/api-settings.ts';
import type { AnyOf } from '../../../lib/settings/fields.ts';

/** A cursor, a URL or a flag. A BigInt is a JSON number. */
export type PageValue = string | number | boolean | bigint;

export interface PageContent {
  readonly reports: readonly Report[];
  /** What stands in the place of the next page, also at the end; undefined: nothing. */
  readonly next: PageValue | null | undefined;
  readonly hasNext: boolean;
  /** A document that is no page: no report matches at all, or the cursor is rejected. */
  readonly instead?: { readonly at?: string | undefined; readonly is?: string | undefined } | undefined;
}

interface WrittenPage {
  readonly chunks: () => Chunks;
  /** In bytes. undefined: not known before the reports are read. */
  readonly length?: number;
}

type WritePage = (content: PageContent) => WrittenPage;

/** @throws ConfigurationError if no document can have all that the description names */
export function createPageWriter(api: Api): WritePage {
  switch (api.page.format) {
    case 'xml':
      return documentWriter(api, xmlDocument, (report) => report.body(), '');
    case 'json':
      return documentWriter(api, jsonDocument, async (report) => [Buffer.from(await jsonReport(report))], ',');
    case 'ndjson':
      return ({ reports }) => ({ chunks: () => inOrder(reports, async (one) => [`${await jsonReport(one)}\n`]) });
    case 'csv':
      return ({ reports }) => ({ chunks: () => csvTable(reports, api.page) });
    case 'bytes':
      return ({ reports }) => ({ chunks: () => inOrder(reports, (one) => one.body()), length: bytesOf(reports) });
  }
}

// Documents

/** What precedes and follows the reports of a document, and what each of them is in. */
interface Frame {
  readonly start: string;
  readonly end: string;
  readonly reportStart?: string;
  readonly reportEnd?: string;
}

/** A path in the document, with the value there; undefined: nothing, but what would contain it. */
type Placed = readonly [path: string, value: PageValue | null | undefined];

function documentWriter(
  { page, next }: Api,
  frameOf: (reports: string | undefined, placed: readonly Placed[]) => Frame,
  render: (report: Report) => Chunks | Promise<Chunks>,
  separator: string,
): WritePage {
  const { absent, flag, is = false }: AnyOf<NonNullable<Api['next']['end']>> = next.end ?? {};
  const { reports: placeOfReports }: AnyOf<Api['page']> = page;
  const placedIn = ({ next: value, hasNext, reports }: PageContent): readonly Placed[] => {
    const place = value === undefined && typeof absent === 'string' ? absent : next.at;
    return [
      ...(flag === undefined ? [] : [[flag, hasNext !== is] as const]),
      // In JSON, null is as good as no field.
      ...(next.from !== 'body' || place === undefined
        ? []
        : [[place, value ?? (page.format === 'json' && reports.length % 2 === 0 ? null : undefined)] as const]),
    ];
  };
  const write: WritePage = (content) => {
    const { at, is } = content.instead ?? {};
    const {
      start,
      end,
      reportStart = '',
      reportEnd = '',
    } = at === undefined ? frameOf(placeOfReports, placedIn(content)) : frameOf(undefined, [[at, is]]);
    const reports = at === undefined ? content.reports : [];
    async function* chunks() {
      yield Buffer.from(start);
      for (const [index, report] of reports.entries()) {
        yield Buffer.from(`${index === 0 ? '' : separator}${reportStart}`);
        yield* await render(report);
        yield Buffer.from(reportEnd);
      }
      yield Buffer.from(end);
    }
    const around = Buffer.byteLength(start) + Buffer.byteLength(end);
    const each = Buffer.byteLength(reportStart) + Buffer.byteLength(reportEnd);
    return { chunks, ...(page.format === 'xml' && { length: around + reports.length * each + bytesOf(reports) }) };
  };
  write({ reports: [], next: '', hasNext: false });
  return write;
}

/** Stands for the reports until the document is text. */
const marker = '\0';

interface XmlElement {
  readonly name: string;
  readonly where: string | undefined;
  readonly attributes: Map<string, string>;
  readonly children: XmlElement[];
  text: string;
}

function xmlDocument(reports: string | undefined, placed: readonly Placed[]): Frame {
  const paths = [...(reports === undefined ? [] : [reports]), ...placed.map(([path]) => path)];
  const [rootName = 'reports', ...others] = new Set(paths.map((path) => xmlSteps(path)[0]?.name));
  if (others.length > 0) cannotServe(paths);
  const top: XmlElement = newElement('');
  const steps = reports === undefined ? [{ name: rootName }, { name: '*' }] : xmlSteps(reports);
  const [{ name, where = '' } = { name: '*' }] = steps.slice(-1);
  for (const [path, value] of placed) {
    const attribute = /\/@([^/]+)$/.exec(path)?.[1];
    const all = xmlSteps(path);
    if (value === undefined || value === null) {
      elementAt(top, all.slice(0, Math.max(1, all.length - 1)));
    } else {
      const element = elementAt(top, all);
      if (attribute === undefined) element.text = escapeXml(String(value));
      else element.attributes.set(attribute, String(value));
    }
  }
  elementAt(top, steps.slice(0, -1)).text += marker;
  const [start = '', end = ''] = serializeXml(top.children[0] ?? top).split(marker);
  const wrapper = name === '*' ? { reportStart: '', reportEnd: '' } : wrapperOf(name, where);
  return { start: `<?xml version="1.0" encoding="UTF-8"?>\n${start}`, end, ...wrapper };
}

const wrapperOf = (name: string, where: string) => ({ reportStart: `<${name}${where}>`, reportEnd: `</${name}>` });

/** `/feed/link[@rel=next]/@href` is `feed` and `link`; `where` is the attribute of the second. */
function xmlSteps(path: string): readonly { readonly name: string; readonly where?: string }[] {
  return [...path.matchAll(/\/([^/@[]+)(?:\[@([^=]+)=["']?([^"'\]]*)["']?\])?/g)].map(
    ([, name = '', by, value = '']) => (by === undefined ? { name } : { name, where: ` ${by}="${escapeXml(value)}"` }),
  );
}

const newElement = (name: string, where?: string): XmlElement => ({
  name,
  where,
  attributes: new Map(),
  children: [],
  text: '',
});

/** The element at the end of the steps. Those that are missing are added; beside one with an attribute, one without it. */
function elementAt(top: XmlElement, steps: ReturnType<typeof xmlSteps>): XmlElement {
  let element = top;
  for (const { name, where } of steps) {
    let child = element.children.find((one) => one.name === name && one.where === where);
    if (child === undefined) {
      child = newElement(name, where);
      element.children.push(...(where === undefined ? [] : [newElement(name)]), child);
    }
    element = child;
  }
  return element;
}

function serializeXml({ name, where = '', attributes, children, text }: XmlElement): string {
  const written = Array.from(attributes, ([attribute, value]) => ` ${attribute}="${escapeXml(value)}"`).join('');
  return `<${name}${where}${written}>${children.map(serializeXml).join('\n')}${text}</${name}>`;
}

const escapeXml = (text: string): string => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);

/** The segments of a JSON Pointer. */
export const segmentsOf = (pointer: string): readonly string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'));

function jsonDocument(reports: string | undefined, placed: readonly Placed[]): Frame {
  const root: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
  const paths = [...(reports === undefined ? [] : [reports]), ...placed.map(([path]) => path)];
  const put = (path: string, value: unknown): void => {
    let object = root;
    const segments = [...segmentsOf(path)];
    const name = segments.pop() ?? '';
    for (const segment of segments) {
      object[segment] ??= Object.create(null);
      if (typeof object[segment] !== 'object' || Array.isArray(object[segment])) cannotServe(paths);
      object = object[segment] as Record<string, unknown>;
    }
    if (Object.hasOwn(object, name)) cannotServe(paths);
    if (value !== undefined) object[name] = value;
  };
  if (reports === '/*' && placed.length > 0) cannotServe(paths);
  if (reports === '/*') return { start: '[', end: ']' };
  for (const [path, value] of placed) put(path, typeof value === 'bigint' ? rawJson(value) : value);
  if (reports !== undefined) put(reports.slice(0, -'/*'.length), [marker]);
  const [start = '', end = ''] = JSON.stringify(root).split(JSON.stringify(marker));
  return { start, end };
}

const rawJson = (value: bigint): unknown => (JSON as JSON & { rawJSON(text: string): unknown }).rawJSON(String(value));

function cannotServe(paths: readonly string[]): never {
  const message = `api: the simulator cannot write a document that has all of ${paths.join(', ')}`;
  throw new ExportError('ConfigurationError', message);
}

// Reports

const bytesOf = (reports: readonly Report[]): number => reports.reduce((sum, report) => sum + report.bytes(), 0);

async function textOf(report: Report): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of report.body()) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

async function jsonReport(report: Report): Promise<string> {
  const { id, date, type } = report;
  return JSON.stringify({ id, date: instantOf(date), type, xml: await textOf(report) });
}

function csvTable(reports: readonly Report[], { reports: all, columns = 'id,date,type,xml' }: AnyOf<Api['page']>) {
  const count = columns.replace(/"[^"]*"/g, '').split(',').length;
  return inOrder([...(all === undefined ? [undefined] : []), ...reports], async (report) => {
    if (report === undefined) return [`${columns}\r\n`];
    const values = [report.id, instantOf(report.date), report.type ?? '', await textOf(report)];
    const fields = Array.from({ length: count }, (_, index) => values[index] ?? '');
    return [`${fields.map((field) => `"${field.replaceAll('"', '""')}"`).join(',')}\r\n`];
  });
}

async function* inOrder<Item>(
  items: readonly Item[],
  render: (item: Item) => Iterable<string | Uint8Array> | AsyncIterable<Uint8Array> | Promise<readonly string[]>,
): AsyncGenerator<Uint8Array> {
  for (const item of items) for await (const chunk of await render(item)) yield Buffer.from(chunk);
}
