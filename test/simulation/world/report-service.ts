/**
 * The Report Export Service, simulated behind its contract: what it answers to a request at a moment of its own clock. It
 * remembers every whole page it has handed out, so that what lies in the store can be held against it.
 */

import { createHash } from 'node:crypto';
import type { ReportTimeline, SimulatedReport } from './reports.ts';
import type { Dice } from './rng.ts';
import type { World } from './world.ts';

export interface ServiceRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface ServiceAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body: Buffer;
  /** How the body ends early, if it does: with the connection, or as though that were all. */
  readonly cutAt?: number | undefined;
  /** Milliseconds between pieces of the body. */
  readonly dripMs?: number;
  /** From the moment for which it holds to that at which it goes out. */
  readonly takesMs?: number;
  /** Says nothing at all, for so long. */
  readonly silentMs?: number;
}

/** A page as the service made it, whole. */
export interface GivenPage {
  readonly sha256: string;
  readonly since: number;
  readonly cursor: string | null;
  readonly nextCursor: string | null;
  readonly reports: readonly SimulatedReport[];
  /** The moment of the service's clock for which it holds: that of a snapshot, or its own. */
  readonly at: number;
}

export interface SimulatedService {
  answer(request: ServiceRequest, about: string): ServiceAnswer;
  /** Every whole page given out for the cursor. */
  given(cursor: string | null): readonly GivenPage[];
  /** By its own clock. */
  now(): number;
  readonly requests: () => number;
}

export interface ServiceOptions {
  readonly world: World;
  readonly vendor: string;
  readonly apiKey: string;
  readonly timeline: ReportTimeline;
  /** How far its clock is off. */
  readonly skewMs: number;
  readonly hasDate: boolean;
  /** How far the Date of an answer may lag behind, as that of a proxy may. */
  readonly dateLagMs: number;
  /** Whether a walk goes over what there was at its start, or over what there is at each page. */
  readonly snapshots: boolean;
  /** As the contract shows them, or beyond what an object's metadata can hold. */
  readonly cursors: 'contract' | 'long';
  /** Whether the same page, asked for again, goes on with another cursor. */
  readonly freshCursors: boolean;
  /** How the end of a body is known; `none`: by the end of the connection. */
  readonly framing: 'length' | 'chunked' | 'none';
  /** Bytes added to each report. */
  readonly padding: Buffer;
  /** How long it takes for a page at most. */
  readonly slowestMs: number;
  readonly pageSize: number;
}

interface Place {
  readonly since: number;
  readonly fingerprint: string;
  /** The report the page before ended with. */
  readonly after: SimulatedReport;
  /** When the walk's first page was given out. */
  readonly begunAt: number;
  readonly page: number;
  /** The cursors that led here. */
  readonly walked: readonly string[];
}

export function createSimulatedService(options: ServiceOptions): SimulatedService {
  const { world, vendor, apiKey, timeline, skewMs, hasDate, snapshots, pageSize } = options;
  const places = new Map<string, Place>();
  const pages = new Map<string | null, GivenPage[]>();
  const circles = new Map<string, string>();
  let requests = 0;
  const now = () => Math.floor(world.time.now() + skewMs);

  const refuse = (what: string) => {
    world.violate('the contract is kept', what);
    return { status: 400, headers: {}, body: Buffer.from(what) };
  };

  function answer(request: ServiceRequest, about: string): ServiceAnswer {
    requests += 1;
    const problem = problemOf(request, `x-${vendor.toLowerCase()}-api-key`, apiKey);
    if (problem !== undefined) return refuse(problem);
    const { cursor: inBody, ...asked } = JSON.parse(request.body) as Asked;
    const cursor = new URL(request.path, 'http://service').searchParams.get('cursor') ?? inBody ?? null;
    const dice = world.dice(`${about}/answer`);
    const trouble = troubleOf(world, dice, about, cursor !== null);
    if (trouble !== undefined) return { ...trouble, headers: { ...dated(), ...trouble.headers } };

    const place = cursor === null ? undefined : places.get(cursor);
    if (cursor !== null && place === undefined) return refuse(`it never gave out the cursor ${cursor}`);
    const fingerprint = JSON.stringify(asked);
    if (place !== undefined && place.fingerprint !== fingerprint) {
      return refuse(`a cursor came with another request: ${fingerprint} for ${place.fingerprint}`);
    }
    return spoiled(pageFor(asked, cursor, place, dice, fingerprint), dice, about);
  }

  function pageFor(asked: Asked, cursor: string | null, place: Place | undefined, dice: Dice, fingerprint: string) {
    const since = Date.parse(asked.filter.date.gte);
    const at = snapshots && place !== undefined ? place.begunAt : now();
    const all = timeline.matching(since, at);
    const rest = place === undefined ? all : all.filter((report) => isAfter(report, place.after));
    const reports = rest.slice(0, asked.size ?? pageSize);
    const last = reports.at(-1);
    let nextCursor: string | null = null;
    if (reports.length < rest.length && last !== undefined) {
      const walked = cursor === null ? [] : [...(place?.walked ?? []), cursor];
      const next = {
        since,
        fingerprint,
        after: last,
        begunAt: place?.begunAt ?? at,
        page: (place?.page ?? 0) + 1,
        walked,
      };
      nextCursor = cursorFor(next, options, dice);
      if (walked.length > 0 && !options.freshCursors && world.strikes('cursors-circle', `at ${nextCursor}`)) {
        circles.set(nextCursor, dice.pick(walked));
      }
      if (!places.has(nextCursor)) places.set(nextCursor, next);
      nextCursor = circles.get(nextCursor) ?? nextCursor;
    }
    const text = reports.map((report) => reportText(report, now(), asked.format)).join('\n');
    const body =
      asked.format === 'XML' ? xmlOf(text, options.padding) : Buffer.concat([Buffer.from(text), options.padding]);
    const sha256 = createHash('sha256').update(body).digest('hex');
    pages.set(cursor, [...(pages.get(cursor) ?? []), { sha256, since, cursor, nextCursor, reports, at }]);
    const takesMs = dice.below(options.slowestMs);
    const headers = {
      ...dated(takesMs - dice.below(options.dateLagMs + 1)),
      'content-type': asked.format === 'XML' ? 'application/xml;charset=UTF-8' : 'text/plain',
      'content-disposition': 'attachment; filename="reports.xml"',
      ...(options.framing === 'length' ? { 'content-length': String(body.length) } : {}),
      ...(options.framing === 'chunked' ? { 'transfer-encoding': 'chunked' } : {}),
      ...(nextCursor === null ? {} : { [`x-${vendor.toLowerCase()}-cursor`]: nextCursor }),
    };
    return { status: 200, headers, body, takesMs };
  }

  /** The page with a fault on its way, if one strikes. */
  function spoiled(page: ServiceAnswer, dice: Dice, about: string): ServiceAnswer {
    const header = `x-${vendor.toLowerCase()}-cursor`;
    // At least the end of the root: of a blank behind it nobody could tell, where the answer states no length.
    if (world.strikes('service-truncates', about)) return { ...page, cutAt: dice.below(page.body.length - 1) };
    if (world.strikes('service-drips', about)) return { ...page, dripMs: dice.pick([20_000, 45_000, 100_000]) };
    // Only of XML it can be seen.
    if (page.headers['content-type'] !== 'text/plain' && world.strikes('service-garbles', about)) {
      const body = Buffer.from(page.body);
      body.write(dice.pick(['<', '\u0000']), dice.below(body.length));
      return { ...page, body };
    }
    if (!world.strikes('service-odd-headers', about)) return page;
    const { [header]: _, ...others } = page.headers;
    const odd: Readonly<Record<string, string | string[]>>[] = [
      { ...page.headers, [header]: '' },
      { ...page.headers, [header]: ['one', 'two'] },
      { ...page.headers, [header]: 'gr\u00fc\u00dfe' },
      { ...page.headers, 'content-type': 'text/html' },
      { ...others, 'content-encoding': 'gzip' },
    ];
    return { ...page, headers: dice.pick(odd) };
  }

  /** Stamped as the answer goes out. */
  const dated = (inMs = 0) =>
    hasDate ? { date: new Date(now() + inMs).toUTCString() } : ({} as Record<string, string>);

  return { answer, now, requests: () => requests, given: (cursor) => pages.get(cursor) ?? [] };
}

interface Asked {
  readonly filter: { readonly date: { readonly gte: string } };
  readonly format: string;
  readonly container: string;
  readonly size?: number;
  readonly cursor?: string;
}

const isAfter = (report: SimulatedReport, other: SimulatedReport): boolean =>
  report.date > other.date || (report.date === other.date && report.ordinal > other.ordinal);

function reportText({ id, revisedAt, date }: SimulatedReport, at: number, format: string): string {
  const revision = revisedAt !== undefined && revisedAt <= at ? 2 : 1;
  return format === 'XML' ? `<report id="${id}" revision="${revision}" date="${date}"/>` : `${id},${revision},${date}`;
}

const xmlOf = (text: string, padding: Buffer): Buffer =>
  Buffer.concat([
    Buffer.from(`<?xml version="1.0" encoding="UTF-8"?>\n<reports>\n${text}`),
    padding,
    Buffer.from('</reports>\n'),
  ]);

function cursorFor(
  { after, begunAt, page, since }: Place,
  { cursors, freshCursors }: Pick<ServiceOptions, 'cursors' | 'freshCursors'>,
  dice: Dice,
): string {
  const hex = (value: number, digits: number) =>
    Math.abs(Math.floor(value)).toString(16).padStart(digits, '0').slice(-digits);
  const number = String(Math.floor(after.date)).padStart(13, '0').slice(-13);
  const form = `${number},${hex(after.ordinal, 8)}-${hex(page, 4)}-4000-8000-${hex(begunAt * 31 + since, 12)}`;
  const own = freshCursors ? `${form.slice(0, -6)}${hex(dice.below(0x1000000), 6)}` : form;
  return cursors === 'contract' ? own : `${own}-${'c'.repeat(900)}`;
}

function problemOf(
  { method, path, headers, body }: ServiceRequest,
  keyHeader: string,
  key: string,
): string | undefined {
  if (method !== 'POST' || !/^\/v1\/report\/export(\?cursor=[^,]*)?$/.test(path)) return `asked for ${method} ${path}`;
  const lower = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  if (lower[keyHeader] !== key) return `asked without the key in ${keyHeader}`;
  if (lower['content-type'] !== 'application/json') return 'asked without the content type';
  const { filter, format, container } = JSON.parse(body) as Asked;
  return Number.isNaN(Date.parse(filter?.date?.gte)) || !format || !container ? `asked for ${body}` : undefined;
}

/** An answer that is no page, where one of these faults strikes. */
function troubleOf(world: World, dice: Dice, about: string, hasCursor: boolean): ServiceAnswer | undefined {
  const said = (status: number, headers: ServiceAnswer['headers'] = {}): ServiceAnswer => ({
    status,
    headers: { 'content-type': 'text/html', ...headers },
    body: Buffer.from(`<html><body>${status}</body></html>`),
  });
  if (world.strikes('service-silent', about)) return { ...said(200), silentMs: dice.between(61_000, 400_000) };
  if (world.strikes('service-throttles', about)) {
    const patience = dice.pick([{}, { 'retry-after': '0' }, { 'retry-after': '7' }, { 'retry-after': '90' }]);
    return said(dice.pick([429, 503]), patience);
  }
  if (world.strikes('service-waits-long', about)) {
    const seconds = dice.pick([300, 1_200, 9_000]);
    const until = new Date(world.time.now() + seconds * 1_000).toUTCString();
    return said(dice.pick([429, 503]), { 'retry-after': dice.happens(0.5) ? String(seconds) : until });
  }
  if (world.strikes('service-fails', about)) return said(dice.pick([500, 502, 503, 504, 408, 206, 599]));
  if (world.strikes('service-refuses-key', about)) return said(dice.pick([401, 403]));
  if (world.strikes('service-redirects', about)) return said(302, { location: 'https://elsewhere.example/' });
  if (hasCursor && world.strikes('cursor-dropped', about)) return said(dice.pick([400, 404, 410]));
  if (!hasCursor && world.strikes('service-refuses', about)) return said(dice.pick([400, 422]));
  return undefined;
}
