/** `report-exporter probe`: requests a page or two of an export, and shows what was sent and what was found. Stores nothing. */

import { systemRuntime } from '../../core/clock.ts';
import { assertRootOfProbe, describeRoot, type ExpectedRoot, rootOfFirstPage } from '../../core/document-root.ts';
import { ExportError } from '../../core/errors.ts';
import { type Cursor, emptyState } from '../../core/model.ts';
import type { PageRequest, ReceivedPage, ReportService } from '../../core/ports.ts';
import { toPrintable, truncate } from '../../core/sanitize.ts';
import { chooseBounds } from '../../core/steps/watermark.ts';
import { instantOf } from '../../core/timestamps.ts';
import { describeLocalExport } from '../../local/directory.ts';
import { apiFor } from '../../service/client/request.ts';
import type { Api } from '../../settings/api-settings.ts';
import { withProbeTimeout } from '../../target/probe-service.ts';
import { type CommandContext, exitStatuses, print, runOn } from '../context.ts';
import { bytes, plural } from '../output/format.ts';
import { textStyleFor } from '../output/terminal.ts';
import { type PlannedRequest, plannedRequest, requestLines } from '../planned-request.ts';
import { readStartRequest } from '../run-options.ts';

export interface ProbeOptions {
  readonly settings?: string;
  readonly since?: string;
  readonly json?: boolean;
}

interface ProbedPage {
  readonly request: PlannedRequest;
  readonly contentType: string;
  readonly bytes: number;
  /** null: the format is not counted. */
  readonly reports: number | null;
  readonly documentRoot: string | null;
  readonly serviceTime: string | null;
  readonly latencyMs: number;
  /** Where the next page is, and what is there: null on the last page. */
  readonly next: { readonly at: string; readonly cursor: string | null };
}

/** One page may be the only one; the second shows that its cursor is accepted. */
const maxPages = 2;

export async function probeCommand(
  exportName: string | undefined,
  options: ProbeOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { stdout, stderr, env } = context;
  const { settings: file, json = false } = options;
  const problems = [...usageErrors];
  const { since: given } = readStartRequest({ since: options.since }, problems);
  if (file === undefined) problems.push('--settings: required, such as --settings report-exporter.json');
  const open = async () => {
    const { readExports } = await import('../local-settings.ts');
    const names = exportName === undefined ? [] : [exportName];
    const [settings] = await readExports({ settings: file ?? '' }, names, []);
    if (settings === undefined) throw new ExportError('ConfigurationError', `No exports in ${file}`);
    const described = describeLocalExport(settings, { env, runtime: systemRuntime });
    const service = await described.service.connect((text) => stderr.write(`${text}\n`));
    return { ...described, client: service, [Symbol.asyncDispose]: () => service[Symbol.asyncDispose]() };
  };
  return await runOn(open, options, problems, context, async ({ definition, service, client }) => {
    const style = textStyleFor(stdout, env);
    const now = systemRuntime.now();
    const start = chooseBounds(definition, emptyState(definition.name), { since: given }, now);
    const { request } = definition;
    const api = apiFor(service.settings, request);
    const bounds = { request, since: start.since, until: start.until, begunAt: instantOf(now) };
    const pages: ProbedPage[] = [];
    let cursor: Cursor | null = null;
    let expectedRoot = rootOfFirstPage(definition, undefined, {});
    do {
      const number = pages.length + 1;
      const planned = plannedRequest(service, { ...bounds, cursor });
      if (!json) await print(stdout, `${style('bold', `Page ${number}`)}\n${requestLines(planned).join('\n')}\n`);
      const sent = { ...bounds, cursor, label: `page ${number}` };
      const probed = await fetchPage(client, sent, planned, { api, expectedRoot });
      pages.push(probed.page);
      if (!json) await print(stdout, responseLines(probed.page));
      ({ cursor, expectedRoot } = probed);
    } while (cursor !== null && pages.length < maxPages);
    const notes = findNotes(api, pages, definition.dates.upperBound !== undefined);
    if (json) {
      stdout.write(`${JSON.stringify({ status: 'ok', export: definition.name, ...start, pages, notes })}\n`);
      return exitStatuses.ok;
    }
    const lines = [
      `A run would start at ${start.since} (${start.reason}). It would request the next page as soon as ${api.next.from === 'body' ? 'a page has' : 'the headers of a page have'} arrived, until there is none. Nothing was stored.`,
      ...notes.map((note) => `${style('yellow', '!')} ${note}`),
    ];
    await print(stdout, `${lines.join('\n')}\n`);
    return exitStatuses.ok;
  });
}

async function fetchPage(
  client: ReportService,
  request: PageRequest,
  planned: PlannedRequest,
  { api, expectedRoot }: { readonly api: Api; readonly expectedRoot: ExpectedRoot | undefined },
) {
  return await withProbeTimeout(async (signal) => {
    const requestedAt = systemRuntime.monotonicNow();
    const page = await client.fetchPage(request, signal);
    const latencyMs = Math.round(systemRuntime.monotonicNow() - requestedAt);
    let size = 0;
    for await (const chunk of page.body) size += chunk.length;
    const received = page.received();
    const nextRoot = assertRootOfProbe(request.label, received, expectedRoot);
    const { contentType, reports, serviceTime, nextCursor: cursor } = received;
    const probed: ProbedPage = {
      request: planned,
      contentType,
      bytes: size,
      reports,
      documentRoot: rootOf(received),
      serviceTime,
      latencyMs,
      next: { at: placeOf(api), cursor },
    };
    return { page: probed, cursor, expectedRoot: nextRoot };
  });
}

function rootOf({ documentRoot, documentRootText }: ReceivedPage): string | null {
  return documentRoot === null ? null : describeRoot(documentRoot, documentRootText());
}

function placeOf({ next: { from, at = 'next' } }: Api): string {
  return from === 'link' ? `link with the relation ${at}` : `${from} ${at}`;
}

function responseLines({
  contentType,
  bytes: size,
  reports,
  documentRoot,
  serviceTime,
  latencyMs,
  next,
}: ProbedPage): string {
  const content = [
    contentType,
    bytes(size),
    reports === null ? 'reports are not counted' : plural(reports, 'report'),
    ...(documentRoot === null ? [] : [documentRoot]),
    `after ${latencyMs} ms`,
    ...(serviceTime === null ? [] : [`at ${serviceTime}`]),
  ];
  const found = next.cursor === null ? 'none: this is the last page' : truncate(toPrintable(next.cursor), 100);
  return `  response ${content.join(' · ')}\n  next     ${next.at}: ${found}\n`;
}

/** What a person who writes a description should know. */
function findNotes({ request }: Api, pages: readonly ProbedPage[], hasUpperBound: boolean): readonly string[] {
  const [first, second] = pages;
  const templates = JSON.stringify([request.path, request.query, request.body]);
  const hasSince = templates.includes('{since}') || templates.includes('{filter}');
  return [
    ...(hasSince ? [] : ['no request has {since}: every run exports everything']),
    ...(hasUpperBound ? [] : ['slices and runs with an upper bound are not possible: requests have none']),
    ...(first?.reports === 0 ? ['the first page has no reports: try an earlier --since'] : []),
    ...(first?.next.cursor !== null && first?.next.cursor === second?.next.cursor
      ? ['both pages have the same next page, so a run would fail: check next.to']
      : []),
    ...(first?.next.cursor === null
      ? ['the first page is the last one. Try an earlier --since or a smaller size, to see that the next page is found']
      : []),
  ];
}
