/**
 * Sends a request of a described API with credentials, and finds out whether the response is a page, before the page is
 * read. If the response rejects the credentials, and there are newer ones, the request is sent once more.
 */

import { isDeepStrictEqual } from 'node:util';
import type { ExportError } from '../../core/errors.ts';
import type { Clock, PageRequest } from '../../core/ports.ts';
import type { ServiceSettings } from '../../settings/settings.ts';
import { type Auth, authKindOf, needsSecret } from '../api/auth/kinds.ts';
import { withKeys } from '../api/auth/query.ts';
import type { Description } from '../api/description.ts';
import type { PageFacts } from '../api/next/kind.ts';
import { formOfNext, kindOf, provedBy } from '../api/next/kinds.ts';
import { allParts, pathsIn } from '../api/when.ts';
import { type loadPageCheck, readDocument } from '../formats/formats.ts';
import type { ApiKeySource } from './api-key.ts';
import type { CredentialSource, Sent as SentCredentials } from './credentials.ts';
import type { Exchange, Response } from './exchange.ts';
import { type DescribedRequest, httpRequest, pathOfRequest, type RequestSettings, sentCursor } from './request.ts';
import { excerptOfText, readBeginning } from './response/excerpt.ts';
import { asContractError, factsOf, type RequestedPage } from './response/facts.ts';
import type { CreateGunzip } from './response/gzip.ts';
import { maxPeekBytes, peek } from './response/peek.ts';
import { asksBodyOf, mayRejectInPage, type Reaction, reactionTo } from './response/reaction.ts';
import { errorOfReaction, type Requested } from './response/response-error.ts';

/** An export's description as its client uses it. */
export interface Described {
  readonly api: Description;
  /** Loaded with the first request. */
  readonly pageCheck: () => ReturnType<typeof loadPageCheck>;
  /** The renewals of credentials in an invocation, or in a local run. */
  readonly renewals: Renewals;
}

/** After a 403, an invocation renews its credentials once: many parents may be forbidden, whatever is sent. */
interface Renewals {
  afterForbidden?: { readonly rejected: SentCredentials; readonly renewed: Promise<Renewed> } | undefined;
}

interface Renewed {
  readonly sent: SentCredentials;
  readonly isNew: boolean;
}

/** A response, and whether it is a page. */
interface Answer {
  readonly response: Response;
  readonly reaction: Reaction;
  /** What the reaction is based on. */
  readonly facts: PageFacts;
  /** The beginning of the body, if the response is no page. */
  readonly excerpt: string;
}

/** What was sent, and the answer. */
export interface Sent extends Answer {
  readonly page: RequestedPage;
  /**
   * The error for the reaction `found`; undefined if it is no error. A Retry-After is returned even if the signal is
   * aborted: the caller's other requests have to wait, too.
   * @throws the reason of the aborted signal in place of any other error
   */
  readonly errorOf: (found: Reaction, facts: PageFacts, details: ErrorDetails) => ExportError | undefined;
}

interface ErrorDetails {
  readonly excerpt: string;
  /** Changes how messages describe the request. */
  readonly describe?: (requested: Requested) => Requested;
}

interface SendDependencies {
  readonly base: URL;
  readonly settings: RequestSettings & Pick<ServiceSettings, 'auth'>;
  readonly credentials: CredentialSource;
  readonly apiKey: ApiKeySource;
  readonly clock: Clock;
  /** Decompresses bodies. By default zlib does, in its threads. */
  readonly createGunzip: CreateGunzip | undefined;
}

export type Send = ReturnType<typeof createSend>;

/** Returns a function that sends a request. Its `path`, if given, replaces the path and the query. */
export function createSend(deps: SendDependencies) {
  const { base, settings, apiKey } = deps;
  return async function send(
    exchange: Exchange,
    { api, renewals }: Pick<Described, 'api' | 'renewals'>,
    request: DescribedRequest,
    { signal, path }: { readonly signal?: AbortSignal | undefined; readonly path?: string | undefined },
  ): Promise<Sent> {
    const parts = { ...httpRequest(base, api, request, settings), ...(path !== undefined && { path }) };
    const page = requestedPage(api, request, new URL(`${base.origin}${parts.path}`));
    const sendWith = async ({ headers, query }: SentCredentials): Promise<Answer> => {
      const authenticated = { path: withKeys(parts.path, query), headers: { ...parts.headers, ...headers } };
      const response = await exchange.send({ ...parts, ...authenticated }, request.beforeSend);
      return await answerIn(deps, exchange, response, page);
    };
    const requested = (): Requested => ({
      ...requestedOf(page, settings.auth, pathOfRequest(base, api, request)),
      secretPlace: apiKey.place,
      method: parts.method,
      path: parts.path.replace(/\?.*/, ''),
    });
    return {
      ...(await sendWithFreshCredentials(deps, exchange, renewals, sendWith)),
      page,
      errorOf(found, facts, { excerpt, describe = (each) => each }) {
        const details = { requested: () => describe(requested()), excerpt };
        const error = errorOfReaction(exchange.context, found, facts, details);
        if (error !== undefined && error.retryAfterSeconds === undefined) signal?.throwIfAborted();
        return error;
      },
    };
  };
}

const requestedPage = (api: Description, request: PageRequest, requested: URL): RequestedPage => ({
  api,
  requested,
  isFirst: request.cursor === null,
  // The first request for a parent creates its job, if it has one.
  mayBeGone: request.cursor === null && request.parent !== undefined && request.job === undefined,
  sent: sentCursor(api, request),
  size: request.request.size,
});

/** The request in messages. `firstPath` is the path of the first request. */
function requestedOf(page: RequestedPage, auth: Auth, firstPath: string) {
  const { api } = page;
  const { rejected, token } = authKindOf(auth);
  return {
    // If they are tokens, new ones have been rejected, too.
    credentials: { name: 'API key', rejected, isStored: token === undefined && needsSecret({ auth }) },
    cursor: kindOfSent(page),
    isDescribed: api.pagination !== undefined,
    // The cursor was a URL of the service with another path than that of the first request.
    isOtherPath: kindOfSent(page) === 'url' && page.requested.pathname !== firstPath,
    ...api.settings,
  };
}

/** The kind of cursor that the request sent. */
function kindOfSent({ api, isFirst, sent = '' }: RequestedPage): Requested['cursor'] {
  if (isFirst) return 'none';
  const { sends, isAfterLast } = kindOf(api.next);
  if (provedBy(api.next) !== undefined) return 'inPass';
  if (sends === 'count') return isAfterLast?.(sent) === true ? 'afterLast' : 'count';
  return formOfNext(api) === 'url' ? 'url' : 'text';
}

/** Sends the request, and once more if it is rejected and there are newer credentials or a newer client certificate. */
async function sendWithFreshCredentials(
  { credentials, apiKey }: SendDependencies,
  exchange: Exchange,
  renewals: Renewals,
  sendWith: (sent: SentCredentials) => Promise<Answer>,
): Promise<Answer> {
  // An exchange of a refresh token has no deadline: the new token must be stored.
  const within = (read: () => Promise<SentCredentials>) =>
    apiKey.update === undefined ? exchange.within(read) : read();
  const first = await within(() => credentials.get());
  const answer = await sendWith(first);
  if (answer.reaction.kind !== 'credentials') return answer;
  const renew = async (): Promise<Renewed> => {
    const sent = await within(() => credentials.refresh(first));
    const isRefreshed = await exchange.refreshNetwork();
    return { sent, isNew: isRefreshed || !isDeepStrictEqual(sent, first) };
  };
  const isForbidden = answer.response.statusCode === 403 && answer.reaction.part === undefined;
  const { sent, isNew } = await (isForbidden ? renewOnce(renewals, first, renew) : renew());
  return isNew ? await sendWith(sent) : answer;
}

/** The renewal of the first request that was forbidden. Requests that were sent meanwhile use its credentials, too. */
async function renewOnce(renewals: Renewals, first: SentCredentials, renew: () => Promise<Renewed>): Promise<Renewed> {
  renewals.afterForbidden ??= { rejected: first, renewed: renew() };
  const { rejected, renewed } = renewals.afterForbidden;
  try {
    return isDeepStrictEqual(rejected, first) ? await renewed : { sent: first, isNew: false };
  } catch (error) {
    renewals.afterForbidden = undefined;
    throw error;
  }
}

/** The answer before its page is read. The body of a response that is no page is read as far as conditions need it. */
async function answerIn(
  { clock, createGunzip }: Pick<SendDependencies, 'clock' | 'createGunzip'>,
  exchange: Exchange,
  response: Response,
  page: RequestedPage,
): Promise<Answer> {
  const { api } = page;
  const { context } = exchange;
  const answerWith = (content?: Parameters<typeof factsOf>[3]) => {
    const facts = factsOf(context, page, response, content);
    const reaction = asContractError(context, () => reactionTo(facts, api, clock.now));
    return { response, facts, reaction, excerpt: '' };
  };
  const fromHead = answerWith();
  if (fromHead.reaction.kind === 'page') {
    if (!mayRejectInPage(api)) return fromHead;
    const peeked = await peek(exchange, response);
    const fromBody = answerWith(peeked.bytes && (await readDocument(peeked.bytes, pathsIn(allParts(api)))));
    const isRejected = fromBody.reaction.kind === 'credentials';
    return { ...(isRejected ? fromBody : fromHead), response: peeked.response };
  }
  const isAsked = asksBodyOf(response.statusCode, api);
  const limit = isAsked ? maxPeekBytes : undefined;
  const beginning = await readBeginning(context, response, { sleep: clock.sleep, createGunzip, limit });
  const excerpt = excerptOfText(context, response.headers, beginning);
  if (!isAsked || !beginning.isWhole) return { ...fromHead, excerpt };
  return { ...answerWith(await readDocument(beginning.bytes, pathsIn(allParts(api)))), excerpt };
}
