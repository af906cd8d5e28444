/** Sends the request for a page, and finds what its response says before its page is read. */

import { isDeepStrictEqual } from 'node:util';
import type { Clock, PageRequest } from '../../../core/ports.ts';
import type { PageFacts } from '../../api/next/kind.ts';
import { readDocument } from '../../formats/formats.ts';
import type { ApiKeySource } from '../api-key.ts';
import type { createCredentials, Sent } from '../credentials.ts';
import type { Exchange, Response } from '../exchange.ts';
import type { httpRequest } from '../request.ts';
import { excerptOfText, readBeginning } from './excerpt.ts';
import { asContractError, factsOf, type RequestedPage } from './facts.ts';
import type { CreateGunzip } from './gzip.ts';
import { maxPeekBytes, peek } from './peek.ts';
import { asksBodyOf, mayRejectInPage, pathsAsked, type Reaction, reactionTo } from './reaction.ts';

/** A response, and what it says besides pages. */
export interface Answer {
  readonly response: Response;
  readonly reaction: Reaction;
  /** What the reaction is based on. */
  readonly facts: PageFacts;
  /** How the body of a response begins that is no page. */
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
}

/**
 * The response; if it rejects the credentials, and there are newer ones or a newer client certificate, the response to
 * a second request with these.
 */
export async function sendWithFreshCredentials(
  deps: AnswerDependencies,
  parts: ReturnType<typeof httpRequest>,
  { page, beforeSend }: SentPage,
): Promise<Answer> {
  const { exchange, credentials, apiKey } = deps;
  const send = async ({ headers }: Sent): Promise<Answer> => {
    const response = await exchange.send({ ...parts, headers: { ...parts.headers, ...headers } }, beforeSend);
    return await answerIn(deps, response, page);
  };
  // A refresh token that is being exchanged is stored before this request may end, and the process with it.
  const within = (read: () => Promise<Sent>) => (apiKey.update === undefined ? exchange.within(read) : read());
  const first = await within(() => credentials.get());
  const answer = await send(first);
  if (answer.reaction.kind !== 'credentials') return answer;
  const refreshed = await within(() => credentials.refresh(first));
  const isRefreshed = await exchange.refreshNetwork();
  return isRefreshed || !isDeepStrictEqual(refreshed, first) ? await send(refreshed) : answer;
}

/** What the response says before its page is read. The body of any other response is read as far as it is asked for. */
async function answerIn(
  { exchange, clock, createGunzip }: AnswerDependencies,
  response: Response,
  page: RequestedPage,
): Promise<Answer> {
  const { api } = page;
  const { context } = exchange;
  const answer = (content?: Parameters<typeof factsOf>[3]) => {
    const facts = factsOf(context, page, response, content);
    const reaction = asContractError(context, () => reactionTo(facts, api, clock.now));
    return { response, facts, reaction, excerpt: '' };
  };
  const ofHead = answer();
  if (ofHead.reaction.kind === 'page') {
    if (!mayRejectInPage(api)) return ofHead;
    const peeked = await peek(exchange, response);
    const inPage = answer(peeked.bytes && (await readDocument(peeked.bytes, pathsAsked(api))));
    const isRejected = inPage.reaction.kind === 'credentials';
    return { ...(isRejected ? inPage : ofHead), response: peeked.response };
  }
  const isAsked = asksBodyOf(response.statusCode, api);
  const limit = isAsked ? maxPeekBytes : undefined;
  const beginning = await readBeginning(context, response, { sleep: clock.sleep, createGunzip, limit });
  const excerpt = excerptOfText(context, response.headers, beginning);
  if (!isAsked || !beginning.isWhole) return { ...ofHead, excerpt };
  return { ...answer(await readDocument(beginning.bytes, pathsAsked(api))), excerpt };
}
