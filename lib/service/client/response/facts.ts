/** The facts of a response: those of its head, and those of its document once that has been read. */

import { queryOf } from '../../api/auth/kinds.ts';
import type { Description } from '../../api/description.ts';
import type { PageFacts } from '../../api/next/kind.ts';
import { InvalidDescription, InvalidPage } from '../../api/next/kind.ts';
import { formOfNext, kindOf } from '../../api/next/kinds.ts';
import { statusesOfPages } from '../../api/page.ts';
import { withoutParameters } from '../../api/request.ts';
import type { PathValue } from '../../api/response-facts.ts';
import { containsKey, presentable } from '../../redaction/redact.ts';
import type { PageContent } from '../../formats/format-check.ts';
import { textIn } from '../../formats/formats.ts';
import { contractError, type ErrorContext, failure } from '../errors.ts';
import { headerOf, type Headers } from './response-headers.ts';

export interface RequestedPage {
  readonly api: Description;
  readonly requested: URL;
  readonly isFirst: boolean;
  readonly mayBeGone: boolean;
  /** The cursor that was sent, as a text; for the first page, what was sent in its place. */
  readonly sent: string | undefined;
  readonly size: number | undefined;
}

interface ResponseHead {
  readonly statusCode: number;
  readonly headers: Headers;
}

const nothing: PathValue = { parent: false };

/** Without `content`, the facts of the head alone. */
export function factsOf(
  context: ErrorContext,
  { api, ...request }: RequestedPage,
  { statusCode, headers }: ResponseHead,
  content?: Pick<PageContent, 'value'> & Partial<PageContent>,
): PageFacts {
  const quote = (text: string, maxLength: number) => presentable(text, context.keys, maxLength);
  const header = headerOf(headers);
  const withoutKeys = (url: string) => withoutParameters(url, Object.keys(queryOf(api.auth)));
  const trimmed = (value: PathValue): PathValue => ({ ...value, text: textIn(api.page, value) });
  return {
    ...request,
    status: statusCode,
    statuses: statusesOfPages(api.page),
    header,
    isSent: (text) => text === request.sent || isSameAddress(withoutKeys(text), { api, ...request }),
    headerNames: Object.keys(headers),
    isRepeated: (name) => Array.isArray(headers[name.toLowerCase()]),
    link: () => kindOf(api.next).parameters?.(api.next, { header, quote }),
    value: (path) => (content === undefined ? nothing : trimmed(content.value(path))),
    reports: content?.reports ?? null,
    inLastReport: trimmed(content?.inLastReport ?? nothing),
    isEmpty: false,
    mayBeSilent: false,
    quote,
    hasSecret: (text) => containsKey(text, context.keys),
    withoutKeys,
  };
}

/** Whether a URL of the next page leads to the page that was requested: its cursor is a path. */
function isSameAddress(text: string, { api, requested, sent }: RequestedPage): boolean {
  if (sent === undefined || formOfNext(api) !== 'url') return false;
  return URL.parse(text, requested.href)?.href === URL.parse(sent, requested.href)?.href;
}

/** The result of `read`. @throws ContractError in place of InvalidPage; ConfigurationError of InvalidDescription */
export function asContractError<Result>(context: ErrorContext, read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof InvalidPage)) throw error;
    if (!(error instanceof InvalidDescription)) throw contractError(context, error.message);
    const message = `${context.server.name} sent a response for ${context.label} that its description does not fit`;
    throw failure(context, 'ConfigurationError', `${message}: ${error.message}`);
  }
}
