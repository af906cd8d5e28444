/** Sends the request for a page, and finds out whether the response is a page, before the page is read. */

import { isDeepStrictEqual } from 'node:util';
import type { Clock, PageRequest } from '../../../core/ports.ts';
import { withKeys } from '../../api/auth/query.ts';
import type { PageFacts } from '../../api/next/kind.ts';
import { allParts, pathsIn } from '../../api/when.ts';
import { readDocument } from '../../formats/formats.ts';
import type { ApiKeySource } from '../api-key.ts';
import type { createCredentials, Sent } from '../credentials.ts';
import type { Exchange, Response } from '../exchange.ts';
import type { httpRequest } from '../request.ts';
import { excerptOfText, readBeginning } from './excerpt.ts';
import { asContractError, factsOf, type RequestedPage } from './facts.ts';
import type { CreateGunzip } from './gzip.ts';
import { maxPeekBytes, peek } from './peek.ts';
import { asksBodyOf, mayRejectInPage, type Reaction, reactionTo } from './reaction.ts';

/** A response, and whether it is a page. */
export interface Answer {
  readonly response: Response;
  readonly reaction: Reaction;
  /** What the reaction is based on. */
  readonly facts: PageFacts;
  /** The beginning of the body, if the response is no page. */
  readonly excerpt: string;
}

interface AnswerDependencies {
  readonly exchange: Exchange;
  readonly credentials: ReturnType<typeof createCredentials>;
  readonly apiKey: ApiKeySource;
  readonly clock: Clock;
  /** Decompresses bodies. By default zlib does, in its threads. */
  readonly createGunzip: CreateGunzip | undefined;
}

/** The page that is requested, and what happens before each request. */
interface SentPage extends Pick<PageRequest, 'beforeSend'> {
  readonly page: RequestedPage;
  readonly renewals: Renewals;
}

/** After a 403, an invocation renews its credentials once: many parents may be forbidden, whatever is sent. */
export interface Renewals {
  afterForbidden?: { readonly rejected: Sent; readonly renewed: Promise<Renewed> } | undefined;
}

interface Renewed {
  readonly sent: Sent;
  readonly isNew: boolean;
}

/**
 * The response; if it rejects the credentials, and there are newer ones or a newer client certificate, the response to
 * a second request with these.
 */
export async function sendWithFreshCredentials(
  deps: AnswerDependencies,
  parts: ReturnType<typeof httpRequest>,
  { page, beforeSend, renewals }: SentPage,
): Promise<Answer> {
  const { exchange, credentials, apiKey } = deps;
  const send = async ({ headers, query }: Sent): Promise<Answer> => {
    const authenticated = { path: withKeys(parts.path, query), headers: { ...parts.headers, ...headers } };
    const response = await exchange.send({ ...parts, ...authenticated }, beforeSend);
    return await answerIn(deps, response, page);
  };
  // An exchange of a refresh token has no deadline: the new token must be stored.
  const within = (read: () => Promise<Sent>) => (apiKey.update === undefined ? exchange.within(read) : read());
  const first = await within(() => credentials.get());
  const answer = await send(first);
  if (answer.reaction.kind !== 'credentials') return answer;
  const renew = async (): Promise<Renewed> => {
    const sent = await within(() => credentials.refresh(first));
    const isRefreshed = await exchange.refreshNetwork();
    return { sent, isNew: isRefreshed || !isDeepStrictEqual(sent, first) };
  };
  const isForbidden = answer.response.statusCode === 403 && answer.reaction.part === undefined;
  const { sent, isNew } = await (isForbidden ? renewOnce(renewals, first, renew) : renew());
  return isNew ? await send(sent) : answer;
}

/** The renewal of the first request that was forbidden. Requests that were sent meanwhile use its credentials, too. */
async function renewOnce(renewals: Renewals, first: Sent, renew: () => Promise<Renewed>): Promise<Renewed> {
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
  { exchange, clock, createGunzip }: AnswerDependencies,
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
