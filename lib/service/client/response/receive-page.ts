/** Reads a response with the status of a page: it must prove that it is a complete page, and say what follows. */

import { asDocumentRoot, rootOfColumns } from '../../../core/document-root.ts';
import type { Clock, FetchOptions, Received, ReceivedEnd, ReceivedPage } from '../../../core/ports.ts';
import { evaluate, needsBody, partsOf, valuesOf } from '../../api/condition.ts';
import type { Description } from '../../api/description.ts';
import { kindOf } from '../../api/next/kinds.ts';
import type { Next, PageFacts } from '../../api/next/kind.ts';
import { mediaTypesOf } from '../../api/page.ts';
import { listPath } from '../../api/paths.ts';
import { isSomething, type PathValue } from '../../api/response-facts.ts';
import { documentValue, type PageContent } from '../../formats/format-check.ts';
import { type CreatePageCheck, mayBeEmpty, showsEnd } from '../../formats/formats.ts';
import { containsKey, presentable } from '../../redaction/redact.ts';
import { contractError, type ErrorContext, failure } from '../errors.ts';
import type { Exchange, Response } from '../exchange.ts';
import { asContractError, factsOf, type RequestedPage } from './facts.ts';
import { excerptOfText, readBeginning } from './excerpt.ts';
import { type CreateGunzip, isInGzip } from './gzip.ts';
import { missingList } from './missing-list.ts';
import { pageHints } from './page-hints.ts';
import type { Reaction } from './reaction.ts';
import { readBody, type ResultFile } from './response-body.ts';
import {
  assertFraming,
  assertNoLateNext,
  problemOfContentType,
  readContentType,
  readServiceTime,
  singleValue,
} from './response-headers.ts';

export interface PageOptions extends Pick<FetchOptions, 'sink' | 'onNextCursor'> {
  readonly compression: boolean;
  readonly maxPageBytes: number;
  readonly createGunzip: CreateGunzip | undefined;
  readonly createCheck: CreatePageCheck;
  readonly sleep: Clock['sleep'];
  /** Set if the page is a file of a job's result: servers of files often do not know what is in them. */
  readonly file?: ResultFile | undefined;
  /** Throws the error of a document that is no page, unless it says that its parent is gone. */
  readonly reactionToPage: (facts: PageFacts, excerpt: () => string) => Reaction['kind'];
}

/** @throws ContractError if the response is not a complete page, or does not say whether there is a next one */
export async function receivePage(
  exchange: Exchange,
  response: Response,
  page: RequestedPage,
  options: PageOptions,
): Promise<Received> {
  const { context } = exchange;
  const { api } = page;
  const head = await readHead(context, response, page, options);
  if (head.next !== undefined) options.onNextCursor?.(cursorOfNext(context, head.next));
  const body = await readChecked(exchange, response, { api, head, options });
  const documentRoot = rootOf(context, api, body.content);
  const content = body.content ?? { value: (path: string) => documentValue(path, body.bytes) };
  const facts = factsOf(context, page, response, content);
  if (options.reactionToPage(facts, body.excerpt) === 'gone') return receiveGone(response);
  const proved = asContractError(context, () => provePage(facts, api, content));
  const next = head.next ?? asContractError(context, () => kindOf(api.next).read(proved, api));
  const nextCursor = cursorOfNext(context, next);
  if (head.next === undefined) options.onNextCursor?.(nextCursor);
  return {
    ...received(response),
    nextCursor,
    contentType: head.contentType,
    transferredBytes: head.isGzip ? body.transferredBytes : undefined,
    reports: proved.reports,
    reportsDigest: body.content?.reportsDigest,
    documentRoot,
    documentRootText: () => presentable(body.content?.rootName ?? '', context.keys, 200),
    excerpt: body.excerpt,
    hints: () => pageHints(proved, api, { fields: body.content?.fields, isLast: nextCursor === null }),
  };
}

/** What the head of a page says. */
interface PageHead {
  readonly contentType: string;
  readonly isGzip: boolean;
  /** Whether conditions say what a body without bytes is. Otherwise, the check of the format does. */
  readonly mayBeBlank: boolean;
  /** Undefined: the body says it. */
  readonly next: Next | undefined;
}

/** @throws ContractError if the content is not that of a page, or if only a closed connection would show its end */
async function readHead(
  context: ErrorContext,
  response: Response,
  page: RequestedPage,
  options: PageOptions,
): Promise<PageHead> {
  const { api } = page;
  const { headers } = response;
  const mayBeBlank = decidesBlank(api);
  const isBlank = mayBeBlank && singleValue(headers['content-length']) === '0';
  const isGzip = isInGzip(context, headers['content-encoding'], options.compression);
  const { file } = options;
  const isFile = file !== undefined && api.page.types === undefined;
  if (!isBlank && !isFile) await assertContentType(context, response, api, options);
  const contentType = isBlank || file !== undefined ? ownType(api) : readContentType(context, headers);
  const hasVisibleEnd = showsEnd(api.page) && file?.compression === undefined;
  assertFraming(context, headers, isGzip || hasVisibleEnd, options.maxPageBytes);
  const facts = factsOf(context, page, response);
  return { contentType, isGzip, mayBeBlank, next: asContractError(context, () => nextInHead(facts, api)) };
}

interface CheckedBody {
  readonly api: Description;
  readonly head: PageHead;
  readonly options: PageOptions;
}

/** The whole body, with what its format says. @throws ContractError if it is not complete */
async function readChecked(exchange: Exchange, response: Response, { api, head, options }: CheckedBody) {
  const { context } = exchange;
  const { sink, createGunzip, maxPageBytes, file } = options;
  const { isGzip, mayBeBlank } = head;
  const check = options.createCheck((text) => presentable(text, context.keys, 150));
  const reading = { sink, isGzip, createGunzip, maxPageBytes, check, mayBeBlank, file };
  const body = await readBody(exchange, response, reading);
  // Only a length or chunks prove that a body without bytes is complete.
  if (body.bytes === 0 && mayBeBlank) assertFraming(context, response.headers, false, maxPageBytes);
  const header = kindOf(api.next).header?.(api.next);
  assertNoLateNext(context, Object.keys(response.trailers), { header, isLast: head.next?.kind === 'last' });
  return body;
}

/** The document root. It is stored with the page, so it must not contain the key. */
function rootOf(context: ErrorContext, { page }: Description, content: PageContent | undefined) {
  const { rootName = null } = content ?? {};
  if (rootName === null) return null;
  const isCsv = page.format === 'csv';
  if (!containsKey(rootName, context.keys)) return isCsv ? rootOfColumns(rootName) : asDocumentRoot(rootName);
  throw contractError(context, `the ${isCsv ? 'first row' : 'name of the root element'} contains the API key`);
}

/** A login page or an error of a gateway is recognized by how it begins. @throws ContractError */
async function assertContentType(
  context: ErrorContext,
  response: Response,
  api: Description,
  { sleep, createGunzip }: Pick<PageOptions, 'sleep' | 'createGunzip'>,
): Promise<void> {
  const problem = problemOfContentType(context, response.headers, api);
  if (problem === undefined) return;
  const beginning = await readBeginning(context, response, { sleep, createGunzip });
  const excerpt = excerptOfText(context, response.headers, beginning);
  throw contractError(context, excerpt === '' ? problem : `${problem}. Response: ${excerpt}`);
}

/** Receives a page without content and without reports, such as one with status 204. The body is not read. */
export async function receiveEmptyPage(
  context: ErrorContext,
  response: Response,
  page: RequestedPage,
  options: Pick<PageOptions, 'sink' | 'onNextCursor'>,
): Promise<ReceivedPage> {
  const { api, isFirst } = page;
  response.body.destroy();
  const facts = { ...factsOf(context, page, response), isEmpty: true, mayBeSilent: isFirst, reports: 0 };
  const next = asContractError(context, () => kindOf(api.next).read(facts, api));
  const nextCursor = cursorOfNext(context, next);
  options.onNextCursor?.(nextCursor);
  await options.sink((async function* () {})());
  return {
    ...received(response),
    nextCursor,
    contentType: ownType(api),
    reports: 0,
    documentRoot: null,
    documentRootText: () => '',
    excerpt: () => '',
    hints: () => ({}),
  };
}

/** Receives a response that says that the page before was the last one. @throws ContractError if it has a next page */
export function receiveEnd(
  context: ErrorContext,
  { body }: Response,
  facts: PageFacts,
  { api }: RequestedPage,
): ReceivedEnd {
  body.destroy();
  const next = asContractError(context, () => kindOf(api.next).read(facts, api));
  if (next.kind !== 'last') throw contractError(context, 'it ends the pages, and names a next page');
  return { kind: 'end', reason: 'last', status: facts.status };
}

/** Receives a response that says that the parent no longer exists. What is left of the body is not read. */
export function receiveGone({ body, statusCode }: Response): ReceivedEnd {
  body.destroy();
  return { kind: 'end', reason: 'gone', status: statusCode };
}

const received = ({ headers, timing }: Response) => ({
  kind: 'page' as const,
  serviceTime: readServiceTime(headers.date, timing.latencyMs),
  timing,
});

const ownType = ({ page }: Description): string => mediaTypesOf(page)[0] ?? 'application/octet-stream';

function cursorOfNext(context: ErrorContext, next: Next): ReceivedPage['nextCursor'] {
  if (next.kind === 'page') return next.cursor;
  if (next.kind === 'last') return null;
  const message = `The pages of ${context.server.name} cannot be continued after ${context.label}: ${next.reason}`;
  throw failure(context, 'CursorRejectedError', message);
}

/** What follows the page, if its head says so; undefined if the body does. */
function nextInHead(head: PageFacts, api: Description): Next | undefined {
  const kind = kindOf(api.next);
  if (kind.header === undefined || needsBody(api.last)) return undefined;
  // A first page may be empty, and then nothing else needs to say that it is the last one.
  const isSilent = api.last !== undefined && evaluate(api.last, head).answer === 'silent';
  if (isSilent && head.isFirst && api.when?.empty !== undefined) return undefined;
  return kind.read(head, api);
}

/**
 * Whether conditions say what a document without any bytes is. In some formats it is a page without reports by itself,
 * and the Report Export Service has no conditions.
 */
const decidesBlank = ({ last, page, pagination, when }: Description): boolean =>
  [...partsOf(last), ...partsOf(when?.empty)].some((part) => part.at === '' && valuesOf(part).includes(null)) ||
  (pagination !== undefined && !mayBeEmpty(page));

/** The facts of a page that has its list of reports, or says that there are none. @throws InvalidPage */
function provePage(facts: PageFacts, api: Description, content: Pick<PageContent, 'value'> & Partial<PageContent>) {
  const { page } = api;
  const path = listPath(page);
  // XML has no null: an element that is missing is as good, and the rules of when.empty say of which.
  const saysEmpty = evaluate(api.when?.empty, facts, page.format !== 'xml').part !== undefined;
  // In XML, a list without reports is often not there at all, and its place is the root.
  if (page.format === 'xml' && facts.reports === 0 && saysEmpty)
    return { ...facts, isEmpty: true, mayBeSilent: facts.isFirst };
  const isBlank = content.reports === undefined && page.format !== 'bytes';
  const hasList = path === undefined || facts.reports !== null;
  if (!isBlank && hasList) return facts;
  const list = path === undefined ? undefined : content.value(path);
  if (saysEmpty && (list === undefined || path === '' || !isSomething(list))) return emptyPage(facts, api, list);
  throw missingList({ list, path, content, api, facts });
}

/** Error documents, too, may have `null` in the place of the list. Without `when.error`, only `last` rules that out. */
function emptyPage(facts: PageFacts, { when }: Description, list: PathValue | undefined) {
  const isNoError = list === undefined || list.type !== 'null' || when?.error !== undefined;
  return { ...facts, isEmpty: true, reports: 0, mayBeSilent: facts.isFirst && isNoError };
}
