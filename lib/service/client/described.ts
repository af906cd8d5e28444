/** An export's description as its client uses it, and how a request of it is sent. */

import type { Clock, PageRequest } from '../../core/ports.ts';
import type { Description } from '../api/description.ts';
import { loadPageCheck } from '../formats/formats.ts';
import type { Exchange } from './exchange.ts';
import type { DescribedRequest } from './request.ts';
import type { Answer, Renewals } from './response/answer.ts';
import type { RequestedPage } from './response/facts.ts';
import type { CreateGunzip } from './response/gzip.ts';
import type { Requested } from './response/response-status.ts';
import type { Throttle } from './throttle.ts';

export interface Described {
  readonly api: Description;
  /** Loaded with the first request. */
  readonly pageCheck: () => ReturnType<typeof loadPageCheck>;
  /** The renewals of credentials in an invocation, or in a local run. */
  readonly renewals: Renewals;
}

export function withPageCheck(api: Description): Described {
  let loaded: ReturnType<typeof loadPageCheck> | undefined;
  return { api, pageCheck: () => (loaded ??= loadPageCheck(api)), renewals: {} };
}

/** A response, and what reading it needs. */
export interface Sent {
  readonly answer: Answer;
  readonly page: RequestedPage;
  readonly exchange: Exchange;
  readonly clock: Clock;
  readonly throttle: Throttle;
  readonly createGunzip: CreateGunzip | undefined;
  readonly describeRequest: () => Requested;
}

interface SendOptions {
  readonly signal?: AbortSignal | undefined;
  /** In place of the path and the query of the request. */
  readonly path?: string;
}

/** Sends the request with credentials, and lets `use` read the response. */
export type SendDescribed = <Result>(
  described: Described,
  request: DescribedRequest & Pick<PageRequest, 'beforeSend'>,
  options: SendOptions,
  use: (sent: Sent) => Promise<Result>,
) => Promise<Result>;
