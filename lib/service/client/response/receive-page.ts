/**
 * Requests a page and receives it. Its response must prove that it is a complete page, and say what follows. The body
 * is decoded, counted, limited and checked as it streams. A whole page is never held in memory.
 */

import { setImmediate as nextTurn } from 'node:timers/promises';
import { asDocumentRoot, rootOfColumns } from '../../../core/document-root.ts';
import type { Clock, FetchOptions, PageRequest, Received, ReceivedEnd, ReceivedPage } from '../../../core/ports.ts';
import { evaluate, needsBody, partsOf, valuesOf } from '../../api/condition.ts';
import type { Description } from '../../api/description.ts';
import { kindOf } from '../../api/next/kinds.ts';
import type { Next, PageFacts } from '../../api/next/kind.ts';
import { mediaTypesOf } from '../../api/page.ts';
import { listPath } from '../../api/paths.ts';
import { isSomething, type PathValue } from '../../api/response-facts.ts';
import { documentValue, type PageContent } from '../../formats/format-check.ts';
import { type CreatePageCheck, mayBeEmpty, type PageCheck, showsEnd } from '../../formats/formats.ts';
import { containsKey, presentable } from '../../redaction/redact.ts';
import { contractError, type ErrorContext, failure } from '../errors.ts';
import type { createExchanges, Exchange, Response } from '../exchange.ts';
import type { Described, Send } from '../send.ts';
import { asContractError, factsOf, type RequestedPage } from './facts.ts';
import { excerptOf, excerptOfText, maxExcerptBytes, readBeginning } from './excerpt.ts';
import { type CreateGunzip, gunzip, gunzipFile, isInGzip } from './gzip.ts';
import { missingList } from './missing-list.ts';
import { pageHints } from './page-hints.ts';
import { type Reaction, reactionTo } from './reaction.ts';
import {
  assertFraming,
  assertNoLateNext,
  pageTooLarge,
  problemOfContentType,
  readContentType,
  readServiceTime,
  singleValue,
} from './response-headers.ts';

export interface PageDependencies {
  readonly described: Described;
  readonly exchanges: ReturnType<typeof createExchanges>;
  readonly send: Send;
  readonly clock: Clock;
  readonly compression: boolean;
  readonly reading: Pick<PageOptions, 'maxPageBytes' | 'createGunzip' | 'sleep'>;
}

/** Sends the request of a page, and receives the response: as a page, or as the end of the pages. */
export async function fetchPage(
  { described, exchanges, send, clock, compression, reading }: PageDependencies,
  request: PageRequest,
  options: FetchOptions,
): Promise<Received> {
  const createCheck = await described.pageCheck();
  using exchange = exchanges.begin(request.label, options.signal);
  const { response, reaction, facts, excerpt, page, errorOf } = await send(exchange, described, request, options);
  const { context } = exchange;
  const assertNoError = (...found: Parameters<typeof errorOf>) => {
    const error = errorOf(...found);
    if (error !== undefined) throw error;
  };
  if (reaction.kind === 'status' && request.job !== undefined) assertHasResult(context, response.statusCode);
  assertNoError(reaction, facts, { excerpt });
  if (reaction.kind === 'end') return receiveEnd(context, response, facts, page);
  if (reaction.kind === 'gone') return receiveGone(response);
  if (reaction.kind !== 'page') return await receiveEmptyPage(context, response, page, options);
  const reactionToPage = (ofPage: PageFacts, quoted: () => string) => {
    const found = asContractError(context, () => reactionTo(ofPage, described.api, clock.now));
    if (found.kind !== 'page') assertNoError(found, ofPage, { excerpt: quoted() });
    return found.kind;
  };
  return await receivePage(exchange, response, page, {
    ...options,
    ...reading,
    compression,
    createCheck,
    reactionToPage,
  });
}

/** @throws CursorRejectedError if the service does not have the result of the job, or no longer */
function assertHasResult(context: ErrorContext, status: number): void {
  if (status !== 404 && status !== 410) return;
  const message = `${context.server.name} responded with ${status} for ${context.label}: the result of its report job is missing`;
  throw failure(context, 'CursorRejectedError', message);
}

/** A file of the result of a job. */
interface ResultFile {
  /** How the file itself is compressed. */
  readonly compression: 'gzip' | undefined;
}

export interface PageOptions extends Pick<FetchOptions, 'sink' | 'onNextCursor'> {
  readonly compression: boolean;
  readonly maxPageBytes: number;
  readonly createGunzip: CreateGunzip | undefined;
  readonly createCheck: CreatePageCheck;
  readonly sleep: Clock['sleep'];
  /** Set if the page is a file of a job's result: servers of files often do not know what is in them. */
  readonly file?: ResultFile | undefined;
  /** Returns `page`, or `gone` if the document says that its parent is gone. Throws the error of any other document. */
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
  const check = options.createCheck((text) => presentable(text, context.keys, 150));
  const body = await readBody(exchange, response, { head, check, options });
  // Only a length or chunks prove that a body without bytes is complete.
  if (body.bytes === 0 && head.mayBeBlank) assertFraming(context, response.headers, false, options.maxPageBytes);
  const header = kindOf(api.next).header?.(api.next);
  assertNoLateNext(context, Object.keys(response.trailers), { header, isLast: head.next?.kind === 'last' });
  return body;
}

interface BodyOptions {
  readonly head: PageHead;
  /** Its problems quote names without the API key. undefined: the body is passed through unchecked. */
  readonly check: PageCheck | undefined;
  readonly options: PageOptions;
}

/** Passes the body to `sink`. Resolves once it has all of it, and it is complete. @throws errors of `sink` unchanged */
async function readBody(
  exchange: Exchange,
  { body, headers }: Response,
  { head: { isGzip, mayBeBlank }, check, options: { sink, createGunzip, maxPageBytes, file } }: BodyOptions,
) {
  const { context } = exchange;
  /** Decoded. */
  let bytes = 0;
  /** As they were sent. */
  let transferredBytes = 0;
  let beginning: Uint8Array = new Uint8Array(0);
  let end: { readonly content: PageContent | undefined } | undefined;
  const assertSmallEnough = (count: number) => {
    if (count > maxPageBytes) throw pageTooLarge(context, `more than ${maxPageBytes} bytes`, maxPageBytes);
  };
  const excerpt = () => excerptOf(beginning, bytes <= maxExcerptBytes, context.keys);
  const invalid = (problem: string) => {
    const isWhole = singleValue(headers['content-length']) === String(transferredBytes) && bytes <= maxExcerptBytes;
    // The beginning identifies an error page in place of JSON or CSV. It says nothing about an error within XML.
    const isMarkup = beginning.find((byte) => byte > 0x20) === 0x3c && check?.document.includes('XML') === false;
    const shown = isMarkup ? excerptOf(beginning, isWhole, context.keys) : '';
    const more = shown === '' ? '' : `. It begins with ${shown}`;
    return contractError(context, `not a ${check?.document} (${problem})${more}`);
  };

  const received: AsyncIterator<Uint8Array, undefined> = body[Symbol.asyncIterator]();
  const next = async (): Promise<IteratorResult<Uint8Array, undefined>> => {
    const result = await received.next().catch((error: unknown) => {
      throw exchange.explain(error, transferredBytes);
    });
    if (result.done !== true) transferredBytes += result.value.length;
    // A compressed body may be long without any content.
    assertSmallEnough(transferredBytes);
    return result;
  };

  async function* chunks(): AsyncGenerator<Uint8Array, void, void> {
    // The headers of this page let the caller request the next one. Before undici reuses a connection, it waits one
    // turn of the event loop to see whether the service has closed it. Work on this body in that turn would delay the
    // request by milliseconds, page after page.
    await nextTurn();
    await nextTurn();
    const decoded = isGzip ? gunzip(context, next, createGunzip) : { [Symbol.asyncIterator]: () => ({ next }) };
    for await (const chunk of file?.compression === undefined ? decoded : gunzipFile(context, decoded)) {
      bytes += chunk.length;
      assertSmallEnough(bytes);
      const missing = file === undefined ? maxExcerptBytes - beginning.length : 0;
      if (missing > 0) beginning = Buffer.concat([beginning, chunk.subarray(0, missing)]);
      const problem = await check?.push(chunk);
      if (problem !== undefined) throw invalid(problem);
      yield chunk;
    }
    const content = bytes === 0 && mayBeBlank ? undefined : await check?.end();
    if (typeof content === 'string') throw invalid(content);
    end = { content };
  }

  await sink(chunks());
  // A sink may have read nothing, or another iteration.
  if (end === undefined) throw new Error(`The body of ${context.label} was not read to its end`);
  return { bytes, transferredBytes, excerpt, ...end };
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
async function receiveEmptyPage(
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
function receiveEnd(context: ErrorContext, { body }: Response, facts: PageFacts, { api }: RequestedPage): ReceivedEnd {
  body.destroy();
  const next = asContractError(context, () => kindOf(api.next).read(facts, api));
  if (next.kind !== 'last') throw contractError(context, 'it ends the pages, and names a next page');
  return { kind: 'end', reason: 'last', status: facts.status };
}

/** Receives a response that says that the parent no longer exists. What is left of the body is not read. */
function receiveGone({ body, statusCode }: Response): ReceivedEnd {
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
