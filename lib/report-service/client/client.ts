/**
 * The client of the Report Export Service (contract, section 4.1): sends one request a page, refuses every answer that is
 * not plainly a whole page, and leaves all retrying, but for a renewed key, to the state machine.
 */

import type { Dispatcher } from 'undici';
import askThrough from 'undici/lib/api/api-request.js';
import { ExportError } from '../../core/errors.ts';
import type { Clock, FetchedPage, PageRequest, ReportService } from '../../core/ports.ts';
import { createXmlCheck } from '../xml/well-formedness.ts';
import { type ApiKeySource, keysSent, usableApiKey } from './api-key.ts';
import { poolTo } from './connection-pool.ts';
import { type Deadline, startDeadline } from './deadline.ts';
import { excerptOf } from './error-body.ts';
import type { Subject } from './errors.ts';
import type { Limits } from './limits.ts';
import { type CursorRoute, headerNames, httpRequest } from './request.ts';
import { pageBody } from './response-body.ts';
import {
  checkFraming,
  checkTrailers,
  contentTypeOf,
  cursorOf,
  serviceTimeOf,
  withRequestId,
} from './response-headers.ts';
import { answerError, isGood, refusesKey } from './response-status.ts';
import { transportError } from './transport-errors.ts';

export interface ReportServiceClientOptions {
  /** Up to where `/v1/report/export` begins; may have a path of its own. */
  readonly baseUrl: string;
  /** The vendor's part of the header names. */
  readonly vendor: string;
  readonly cursorIn: CursorRoute;
  readonly apiKey: ApiKeySource;
  readonly limits: Limits;
  readonly clock: Clock;
  /** What carries the requests; by default a pool of connections of the client's own. */
  readonly dispatcher?: Dispatcher | undefined;
}

export type ReportServiceClient = ReportService & {
  /** Closes every connection at once; a body still being read fails. */
  close(): Promise<void>;
};

/** One call of `fetchPage`: what is asked, with which keys so far, and how long it may take. */
interface Exchange {
  readonly request: PageRequest;
  readonly subject: Subject;
  readonly tried: Set<string>;
  readonly deadline: Deadline;
  /** The error to throw for one of the connection's. */
  readonly translate: (error: unknown, subject: Subject, bytesRead?: number) => unknown;
}

interface Answer extends Dispatcher.ResponseData {
  /** From sending to headers. */
  readonly elapsedMs: number;
}

/**
 * A page's `body` must be read or returned from, or its connection stays open until the total time is up.
 * An error of `apiKey` passes through unchanged; so does the reason of a signal that interrupts.
 *
 * @example
 * const service = createReportServiceClient({ baseUrl: 'https://reports.example.com', vendor: 'SERVICE', … });
 * const page = await service.fetchPage({ request, since, cursor: null, label: 'page 1' });
 * for await (const chunk of page.body) await file.write(chunk);
 */
export function createReportServiceClient(options: ReportServiceClientOptions): ReportServiceClient {
  const { apiKey, clock, cursorIn, limits } = options;
  const { now } = clock;
  const base = baseOf(options.baseUrl);
  const names = headerNames(options.vendor);
  const sent = keysSent();
  const dispatcher = options.dispatcher ?? poolTo(base, limits);

  /** The answer to the request, sent again once where its key is refused and a newer one is there. */
  async function answerTo(exchange: Exchange): Promise<Answer> {
    const answer = await send(exchange, await currentKey(exchange, () => apiKey.get()));
    if (!refusesKey(answer.statusCode)) return answer;
    const renewed = await currentKey(exchange, () => apiKey.refresh()).catch((error: unknown) => {
      answer.body.destroy();
      throw error;
    });
    if (exchange.tried.has(renewed)) return answer;
    answer.body.destroy();
    return send(exchange, renewed);
  }

  /** `fetchKey`, but no longer than the exchange may take. */
  async function currentKey({ deadline, translate, subject }: Exchange, fetchKey: () => Promise<string>) {
    const key = await deadline.race(fetchKey()).catch((error: unknown) => {
      throw deadline.endedBy === undefined ? error : translate(error, subject);
    });
    return usableApiKey(key);
  }

  async function send({ request, subject, tried, deadline, translate }: Exchange, key: string): Promise<Answer> {
    tried.add(key);
    sent.add(key);
    const sentAt = now();
    try {
      const parts = httpRequest(base, request, cursorIn, { name: names.apiKey, key });
      const response = await deadline.race(
        askThrough.call(dispatcher, { ...parts, origin: base.origin, signal: deadline.signal }),
      );
      // A body destroyed before it was read emits an error, which without a listener would end the process.
      response.body.on('error', () => {});
      return { ...response, elapsedMs: now() - sentAt };
    } catch (error) {
      throw translate(error, subject);
    }
  }

  /** @throws ContractError where the headers do not promise a whole page */
  function pageOf({ request, deadline, translate }: Exchange, subject: Subject, answer: Answer): FetchedPage {
    const { headers, trailers, body, elapsedMs } = answer;
    const isXml = request.request.format === 'XML' && request.request.container === 'NONE';
    const contentType = contentTypeOf(subject, headers, isXml);
    checkFraming(subject, headers, isXml, limits.maxPageBytes);
    const nextCursor = cursorOf(subject, headers[names.cursor]);
    const xmlCheck = isXml ? createXmlCheck() : undefined;
    const passage = pageBody(body, {
      subject,
      maxPageBytes: limits.maxPageBytes,
      refuseTrailers: () => checkTrailers(subject, trailers, names.cursor),
      xmlCheck,
      translate: (error, bytesRead) => translate(error, subject, bytesRead),
    });
    body.once('close', deadline.release);
    return {
      nextCursor,
      serviceTime: serviceTimeOf(headers.date, elapsedMs),
      contentType,
      body: passage.body,
      reports() {
        if (xmlCheck === undefined) return null;
        if (!passage.hasEnded()) throw new Error(`The reports of ${subject.label} are known once its body has ended`);
        return xmlCheck.reports;
      },
    };
  }

  return {
    async fetchPage(request, signal) {
      signal?.throwIfAborted();
      const deadline = startDeadline(limits.totalTimeoutMs, signal, clock);
      const translate: Exchange['translate'] = (error, subject, bytesRead) =>
        transportError(subject, error, { caller: signal, deadline, limits, bytesRead });
      const subject = { label: request.label, keys: sent.keys };
      const exchange: Exchange = { request, subject, tried: new Set(), deadline, translate };
      let answer: Answer | undefined;
      try {
        answer = await answerTo(exchange);
        const answered = withRequestId(subject, answer.headers);
        if (isGood(answer.statusCode)) return pageOf(exchange, answered, answer);
        const excerpt = await excerptOf(answer, sent.keys, clock);
        signal?.throwIfAborted();
        throw answerError(answered, answer, { sentCursor: request.cursor !== null, now: now(), base, excerpt });
      } catch (error) {
        answer?.body.destroy();
        deadline.release();
        throw error;
      }
    },
    close: () => dispatcher.destroy(),
  };
}

function baseOf(baseUrl: string): URL {
  const base = URL.parse(baseUrl);
  if (base !== null && /^https?:$/.test(base.protocol)) return base;
  throw new ExportError('ConfigurationError', 'baseUrl: must be a URL, such as https://reports.example.com');
}
