/**
 * The error for a response that is no page. The contract specifies neither statuses nor errors: the table in
 * docs/service-contract.md, section 7, is an assumption, made in this one place.
 */

import type { ErrorName, ExportError } from '../../../core/errors.ts';
import type { ConditionPart } from '../../api/condition.ts';
import type { PageFacts } from '../../api/next/kind.ts';
import { presentable } from '../../redaction/redact.ts';
import { contractError, type ErrorContext, failure } from '../errors.ts';
import type { Response } from '../exchange.ts';
import { isKeyRejected, type Reaction } from './reaction.ts';

/** What was requested, as messages describe it. */
export interface Requested {
  readonly credentials: {
    readonly name: string;
    readonly rejected: string;
    /** Whether a person has stored what was sent. */
    readonly isStored: boolean;
  };
  /** The settings that may be wrong if a request for a token is not understood. Absent: a page was requested. */
  readonly misunderstood?: string;
  /**
   * What was sent: no cursor for the first page, a text, a count, a count in a pass that proves pages, that of the page
   * after the last one, or a URL.
   */
  readonly cursor: 'none' | 'text' | 'count' | 'inPass' | 'afterLast' | 'url';
  /** The settings that say where a cursor is found and sent. */
  readonly cursorSettings: string;
  /** Whether a description says what responses mean. Absent: no setting does. */
  readonly isDescribed?: boolean;
  /** `ApiKeySource.place`. */
  readonly secretPlace?: string | undefined;
  /** Whether the cursor was a URL of the service, and led to another path than the first request has. */
  readonly isOtherPath?: boolean;
  readonly method: string;
  /** Without its query. */
  readonly path: string;
  readonly address: string;
  /** The settings of its fields. Absent: there are none. */
  readonly fields?: string;
}

/** undefined: the response is a page, is an empty one, ends the pages, or says that there are none. */
export function errorOfReaction(
  context: ErrorContext,
  reaction: Reaction,
  facts: PageFacts,
  { requested, excerpt }: { readonly requested: () => Requested; readonly excerpt: string },
): ExportError | undefined {
  const response = { statusCode: facts.status, headers: { location: facts.header('location') } };
  switch (reaction.kind) {
    case 'page':
    case 'empty':
    case 'end':
    case 'gone':
      return undefined;
    case 'throttled':
      return throttledError(context, response, reaction.seconds, excerpt);
    case 'credentials':
      return reaction.part === undefined
        ? statusError(context, response, requested(), excerpt)
        : rejectedTokenError(context, requested(), describe(reaction.part, facts));
    case 'cursorExpired': {
      const reason = `its response for ${context.label} has ${describe(reaction.part, facts)}`;
      return failure(context, 'CursorRejectedError', `${context.server.name} no longer accepts the cursor: ${reason}`);
    }
    case 'error': {
      // With `not`, the value is often only a code.
      const response = reaction.part.not === undefined || excerpt === '' ? '' : `. Response: ${excerpt}`;
      return contractError(context, `it reports an error: ${describe(reaction.part, facts)}${response}`);
    }
    case 'status':
      return statusError(context, response, requested(), excerpt);
  }
}

/** The error for a response without success, after any refresh of the API key. `excerpt` is how its body begins. */
export function statusError(
  context: ErrorContext,
  response: Pick<Response, 'statusCode' | 'headers'>,
  requested: Requested,
  excerpt: string,
): ExportError {
  const [name, explanation] = explain(context, response, requested, excerpt);
  const isForbidden = response.statusCode === 403 && requested.misunderstood === undefined;
  return failure(context, name, describeResponse(context, response, explanation, excerpt), { isForbidden });
}

/** The part of a response that the condition is about, such as `"expired" at /error`. */
function describe({ at, header, parameter, status }: ConditionPart, facts: PageFacts): string {
  if (at !== undefined) {
    const { text, type } = facts.value(at);
    const shown = text === undefined ? (type ?? 'nothing') : facts.quote(text, 150);
    return `${shown} at ${at === '' ? 'its root' : at}`;
  }
  if (header !== undefined) return `${facts.quote(facts.header(header) ?? 'nothing', 150)} in the header ${header}`;
  return parameter === undefined ? `status ${String(status)}` : `the parameter ${parameter} of its link`;
}

/** The error if `when.tokenExpired` holds, also after the credentials were refreshed. */
function rejectedTokenError(context: ErrorContext, requested: Requested, reason: string): ExportError {
  const message = `${context.server.name} does not accept the credentials for ${context.label} (${reason})`;
  return failure(context, 'ConfigurationError', `${message}: ${rejectedCredentials(401, requested)}`);
}

/** The service asks to wait. `seconds` undefined: it does not say how long. */
export function throttledError(
  context: ErrorContext,
  response: Pick<Response, 'statusCode'>,
  seconds: number | undefined,
  excerpt: string,
): ExportError {
  const wait = seconds === undefined ? '' : `, retry after ${seconds} s`;
  const message = describeResponse(context, response, `too many requests${wait}`, excerpt);
  return failure(context, 'ServiceThrottledError', message, { retryAfterSeconds: seconds });
}

const describeResponse = (
  context: ErrorContext,
  { statusCode }: Pick<Response, 'statusCode'>,
  explanation: string,
  excerpt: string,
): string =>
  [
    `${context.server.name} responded with ${statusCode} for ${context.label}`,
    ...(explanation === '' ? [] : [`: ${explanation}`]),
    ...(excerpt === '' ? [] : [`. Response: ${excerpt}`]),
  ].join('');

function explain(
  context: ErrorContext,
  { statusCode: status, headers }: Pick<Response, 'statusCode' | 'headers'>,
  requested: Requested,
  excerpt: string,
): readonly [name: ErrorName, explanation: string] {
  if (isKeyRejected(status) || (status === 400 && requested.misunderstood !== undefined)) {
    return ['ConfigurationError', rejectedCredentials(status, requested)];
  }
  if (status === 408 || (status >= 500 && status < 600)) return ['ServiceUnavailableError', ''];
  if (status >= 400 && status < 500) return explainRejection(context, status, requested, excerpt);
  if (status >= 300 && status < 400 && status !== 304) {
    return ['RequestRejectedError', explainRedirect(context, headers.location, requested)];
  }
  return ['ContractError', explainOther(status, requested)];
}

function explainRejection(
  { server }: ErrorContext,
  status: number,
  requested: Requested,
  excerpt: string,
): readonly [name: ErrorName, explanation: string] {
  const { cursor, isOtherPath = false, path } = requested;
  const url = `${server.base.origin}${path}`;
  const repeats = 'If every run fails here, check';
  switch (cursor) {
    case 'text':
      return ['CursorRejectedError', explainCursor(url, status, requested, excerpt)];
    case 'afterLast': {
      const problem = `all reports had been received, and ${url} refuses the page after the last one`;
      return ['CursorRejectedError', `${problem}. Set next.confirm to false`];
    }
    case 'count': {
      const reason = 'Reports may have been deleted meanwhile, or the service limits how far pages are counted';
      return ['CursorRejectedError', `${url} has no page of this number. ${reason}. ${repeats} next`];
    }
    case 'inPass': {
      const ends = `If it answers so after its last page, set last to [{"reports": 0}, {"status": ${named404}}]`;
      return ['CursorRejectedError', `${url} has no page of this number. ${ends}`];
    }
    case 'url': {
      const problem = `${url}, the address of the next page, ${status === 404 ? 'does not exist' : 'was rejected'}`;
      if (!isOtherPath) return ['CursorRejectedError', `${problem}. ${repeats} next.at`];
      const remedy = 'It is not the path of the request. If its parameters suffice, set next.to to {"query": "*"}';
      return ['RequestRejectedError', `${problem}. ${remedy}`];
    }
    case 'none':
      return ['RequestRejectedError', explainFirst(url, status, requested)];
  }
}

function explainCursor(url: string, status: number, requested: Requested, excerpt: string): string {
  const { method, cursorSettings, isDescribed } = requested;
  const problem = `${method} ${url} rejected the cursor, which may have expired. If every run fails here, check ${cursorSettings}`;
  if (isDescribed !== true) return problem;
  const isAboutCursor = excerpt === '' || /cursor|page/i.test(excerpt);
  const other = '. If the response is about something else, describe it in when.throttled or when.tokenExpired';
  return `${problem}${status === 404 ? `. ${endsAtStatus(named404)}` : ''}${isAboutCursor ? '' : other}`;
}

function explainFirst(url: string, status: number, requested: Requested): string {
  const { address, fields, misunderstood, isDescribed } = requested;
  if (status === 404) {
    const remedy = `. If this means that there are no reports, set when.empty to {"status": ${named404}}`;
    return `${url} does not exist. Check ${address}${isDescribed === true ? remedy : ''}`;
  }
  if (misunderstood !== undefined) return `the request was rejected. Check ${misunderstood}`;
  const advice = fields === undefined ? `Check ${address}` : `Check ${fields}: plan --request shows what is sent`;
  return `the request was rejected. ${advice}`;
}

function explainRedirect(
  { server, keys }: ErrorContext,
  location: unknown,
  { credentials, address, cursor }: Requested,
): string {
  const target = typeof location === 'string' ? URL.parse(location, server.base.href) : null;
  const isSameOrigin = target?.origin === server.base.origin;
  // Only the origin: the rest of the URL may contain secrets.
  const origin = target === null ? '' : `; the response redirects to ${presentable(target.origin, keys, 100)}`;
  if (isSameOrigin) {
    const remedy =
      cursor === 'url' ? 'Set next.to to {"query": "*"}, or use the new address' : `Use the new address in ${address}`;
    return `redirects are not followed, and this one stays on ${presentable(target.origin, keys, 100)}. ${remedy}`;
  }
  return `redirects are not followed, because they would forward the ${credentials.name}. Check ${address}${origin}`;
}

function explainOther(status: number, { cursor, isDescribed = false }: Requested): string {
  if (status === 304) return 'not modified, although the request has no condition';
  if (status < 200 || status >= 300) return 'not a valid HTTP status';
  const remedy = isDescribed ? remedyFor(status, cursor) : '';
  if (status === 204) return `no content${remedy}`;
  return `${status === 206 ? 'a partial response was not requested' : 'not the status of a page'}${remedy}`;
}

function remedyFor(status: number, cursor: Requested['cursor']): string {
  if ([201, 203, 206].includes(status)) return `. If pages have it, set page.status to [200, ${status}]`;
  if (status !== 204) return '';
  const remedy = '. If this is a page without reports, set when.empty to {"status": 204}';
  return cursor === 'none' ? remedy : `${remedy}. ${endsAtStatus('204')}`;
}

/** With a value that only this response has. */
const named404 = '404, "at": "PATH", "is": "VALUE"';

const endsAtStatus = (parts: string): string =>
  `If the page before was the last one, set last to {"status": ${parts}}, beside what it says now`;

/** Does not mention a refresh: a key from the environment is never refreshed. */
function rejectedCredentials(status: number, { credentials, secretPlace, isDescribed }: Requested): string {
  const { rejected, isStored } = credentials;
  if (!isStored) return rejected;
  const reason = status === 403 ? 'it may be wrong, or not allowed to read reports' : 'it may be wrong or have expired';
  const auth = isDescribed === true ? ', and api.auth' : '';
  return `${rejected}: ${reason}. Check ${secretPlace?.replace(/^The /, 'the ') ?? 'it'}${auth}`;
}
