/** Reads a response with the status of a page: it must prove that it is a complete page, and say what follows. */

import { asDocumentRoot, rootOfColumns } from '../../../core/document-root.ts';
import type { Clock, FetchOptions, ReceivedPage } from '../../../core/ports.ts';
import { type Condition, evaluate, needsBody, partsOf, valuesOf } from '../../api/condition.ts';
import type { Description } from '../../api/description.ts';
import { kindOf } from '../../api/next/kinds.ts';
import type { Next, PageFacts } from '../../api/next/kind.ts';
import { mediaTypesOf, reportsIn } from '../../api/page.ts';
import { listPath } from '../../api/paths.ts';
import { isSomething } from '../../api/response-facts.ts';
import { documentValue, type PageContent } from '../../formats/format-check.ts';
import { type CreatePageCheck, showsEnd } from '../../formats/formats.ts';
import { containsKey, presentable } from '../../redaction/redact.ts';
import { contractError, type ErrorContext, failure } from '../errors.ts';
import type { Exchange, Response } from '../exchange.ts';
import { asContractError, factsOf, type RequestedPage } from './facts.ts';
import { excerptOfText, readBeginning } from './excerpt.ts';
import { type CreateGunzip, isInGzip } from './gzip.ts';
import { blankRemedy, missingList } from './missing-list.ts';
import { readBody } from './response-body.ts';
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
  /** Throws the error for what a document says that is no page. */
  readonly assertPage: (facts: PageFacts, excerpt: () => string) => void;
}

/** @throws ContractError if the response is not a complete page, or does not say whether there is a next one */
export async function receivePage(
  exchange: Exchange,
  response: Response,
  page: RequestedPage,
  options: PageOptions,
): Promise<ReceivedPage> {
  const { context } = exchange;
  const { api } = page;
  const { headers, trailers } = response;
  const { sink, createGunzip, maxPageBytes, onNextCursor } = options;
  const mayBeBlank = saysBlank(api);
  const isBlank = mayBeBlank && singleValue(headers['content-length']) === '0';
  const isGzip = isInGzip(context, headers['content-encoding'], options.compression);
  if (!isBlank) await assertContentType(context, response, api, options);
  const contentType = isBlank ? ownType(api) : readContentType(context, headers);
  assertFraming(context, headers, isGzip || showsEnd(api.page), maxPageBytes);

  const head = factsOf(context, page, response);
  const early = asContractError(context, () => nextInHead(head, api));
  if (early !== undefined) onNextCursor?.(cursorOfNext(context, early));

  const check = options.createCheck((text) => presentable(text, context.keys, 150));
  // Nothing of the Report Export Service is described.
  const remedyIfBlank = api.pagination === undefined ? undefined : blankRemedy;
  const reading = { sink, isGzip, createGunzip, maxPageBytes, check, mayBeBlank, remedyIfBlank };
  const body = await readBody(exchange, response, reading);
  // That there are no bytes proves something only if a length or chunks say so.
  if (body.bytes === 0 && mayBeBlank) assertFraming(context, headers, false, maxPageBytes);
  const header = kindOf(api.next).header?.(api.next);
  assertNoLateNext(context, Object.keys(trailers), { header, isLast: early?.kind === 'last' });
  const content = body.content ?? { value: (path: string) => documentValue(path, body.bytes) };
  const { rootName = null } = body.content ?? {};
  // The name is stored with the page.
  if (containsKey(rootName ?? '', context.keys)) {
    const what = api.page.format === 'csv' ? 'first row' : 'name of the root element';
    throw contractError(context, `the ${what} contains the API key`);
  }
  const facts = factsOf(context, page, response, content);
  options.assertPage(facts, body.excerpt);
  const proved = asContractError(context, () => provePage(facts, api, content));
  const next = early ?? asContractError(context, () => kindOf(api.next).read(proved, api));
  const nextCursor = cursorOfNext(context, next);
  if (early === undefined) onNextCursor?.(nextCursor);
  const toRoot = api.page.format === 'csv' ? rootOfColumns : asDocumentRoot;
  return {
    ...received(response),
    nextCursor,
    contentType,
    transferredBytes: isGzip ? body.transferredBytes : undefined,
    reports: proved.reports,
    reportsDigest: body.content?.reportsDigest,
    documentRoot: rootName === null ? null : toRoot(rootName),
    documentRootText: () => presentable(rootName ?? '', context.keys, 200),
    excerpt: body.excerpt,
  };
}

/** A login page or an error of a gateway is recognized by how it begins. @throws ContractError */
async function assertContentType(
  context: ErrorContext,
  response: Response,
  { page }: Description,
  { sleep }: Pick<PageOptions, 'sleep'>,
): Promise<void> {
  const problem = problemOfContentType(context, response.headers, page);
  if (problem === undefined) return;
  const excerpt = excerptOfText(context, response.headers, await readBeginning(context, response, { sleep }));
  throw contractError(context, excerpt === '' ? problem : `${problem}. Response: ${excerpt}`);
}

/** A page without content and without reports, such as one with status 204. Nothing of the body is stored. */
export async function receiveEmptyPage(
  context: ErrorContext,
  response: Response,
  page: RequestedPage,
  options: Pick<PageOptions, 'sink' | 'onNextCursor'> & { readonly isEnd: boolean },
): Promise<ReceivedPage> {
  const { api, isFirst } = page;
  response.body.destroy();
  const facts = { ...factsOf(context, page, response), isEmpty: true, mayBeSilent: isFirst, reports: 0 };
  const next: Next = options.isEnd
    ? { kind: 'last' }
    : asContractError(context, () => kindOf(api.next).read(facts, api));
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
  };
}

const received = ({ headers, timing }: Response) => ({
  serviceTime: readServiceTime(headers.date, timing.latencyMs),
  timing,
});

const ownType = ({ page }: Description): string => mediaTypesOf(page)[0] ?? 'application/octet-stream';

function cursorOfNext(context: ErrorContext, next: Next): ReceivedPage['nextCursor'] {
  if (next.kind === 'page') return next.cursor;
  if (next.kind === 'last') return null;
  const message = `${context.server.name} no longer continues the walk of ${context.label}: ${next.reason}`;
  throw failure(context, 'CursorRejectedError', message);
}

/** What follows the page, if its head decides that; undefined: the body does. */
function nextInHead(head: PageFacts, api: Description): Next | undefined {
  const kind = kindOf(api.next);
  if (kind.header === undefined || needsBody(api.last)) return undefined;
  // A first page may be empty, and then nothing else needs to say that it is the last one.
  const isSilent =
    api.last !== undefined && evaluate(api.last, head, { pageStatuses: head.statuses }).answer === 'silent';
  if (isSilent && head.isFirst && api.when?.empty !== undefined) return undefined;
  return kind.read(head, api);
}

/** Whether a document without any bytes may be a page: a condition is about it. */
const saysBlank = ({ last, when }: Description): boolean =>
  [...partsOf(last), ...partsOf(when?.empty)].some((part) => part.at === '' && valuesOf(part).includes(null));

/** The facts of a page that has its list of reports, or says that there are none. @throws InvalidPage */
function provePage(facts: PageFacts, api: Description, content: Pick<PageContent, 'value'> & Partial<PageContent>) {
  const { page, when } = api;
  const path = listPath({ format: page.format, reports: reportsIn(page) });
  const isBlank = content.reports === undefined && page.format !== 'bytes';
  // In XML, a list without reports is often not there at all, and its place is the root.
  if (page.format === 'xml' && facts.reports === 0 && isEmpty(when?.empty, facts))
    return { ...facts, isEmpty: true, mayBeSilent: facts.isFirst };
  if (!isBlank && (path === undefined || facts.reports !== null)) return facts;
  const list = path === undefined ? undefined : content.value(path);
  const mayBeMissing = list === undefined || path === '' || !isSomething(list);
  if (mayBeMissing && isEmpty(when?.empty, facts)) {
    // `null` at the list is also what error documents have: then `last` must hold, or `error` has been asked.
    const isMissing = list === undefined || list.type !== 'null' || when?.error !== undefined;
    return { ...facts, isEmpty: true, reports: 0, mayBeSilent: facts.isFirst && isMissing };
  }
  throw missingList({ list, path, content, api });
}

const isEmpty = (empty: Condition | undefined, facts: PageFacts): boolean =>
  empty !== undefined && evaluate(empty, facts, { pageStatuses: facts.statuses, onlyPresent: true }).answer === 'holds';
