/**
 * Maps errors of the connection to errors of the export. Nearly always a retry helps; but a response that is not HTTP, or
 * whose headers are too large, breaks the contract, and a service that cannot be reached may have another address.
 */

import { codeOf, type ErrorName, ExportError } from '../../core/errors.ts';
import { certificateRemedy, explainClosedHandshake, explainNetworkError } from '../network/errors.ts';
import { explainUnreachable, reportService, type Server } from '../network/unreachable.ts';
import type { Deadline, Timeouts } from './deadline.ts';
import { failure, nameOf, type ErrorContext } from './errors.ts';

export const maxHeaderBytes = 16 * 1024;

interface Context {
  readonly callerSignal: AbortSignal | undefined;
  readonly deadline: Deadline;
  readonly timeouts: Timeouts;
  readonly isTls: boolean;
  /** How much of the body was received; undefined before the headers. */
  readonly bytesRead: number | undefined;
}

/**
 * The error to throw for an error of undici: the caller's own reason if the caller aborted, otherwise an ExportError. A
 * truncated response may raise an error without a code, so anything unknown counts as a broken connection.
 */
export function transportError(
  subject: ErrorContext,
  error: unknown,
  { callerSignal, deadline, timeouts, isTls, bytesRead }: Context,
): unknown {
  if (deadline.endedBy === 'caller') return callerSignal?.reason;
  // The request cannot be built.
  if (error instanceof ExportError) return error;
  const code = transportCode(error, bytesRead);
  if (programmingErrors.has(code)) return error;
  const network = deadline.endedBy === undefined ? explainNetworkError(error) : undefined;
  if (network !== undefined)
    return failure(subject, network.name, network.message(subject.label, subject.server ?? reportService), {
      cause: error,
    });
  const [name, problem, remedy] =
    deadline.endedBy === 'time'
      ? unavailable(`took longer than ${timeouts.totalTimeout} ms in total`)
      : explain(error, code, { timeouts, isTls, bytesRead }, subject.server);
  const place = bytesRead === undefined ? `for ${subject.label}` : `after ${bytesRead} bytes of ${subject.label}`;
  const advice = `${remedy === undefined ? '' : `. ${remedy}`}${certificateRemedy(error)}`;
  return failure(subject, name, `${nameOf(subject)} ${problem} ${place}${advice}`, { cause: error });
}

/** Not caused by the service, and not helped by a retry: the client was closed, or called undici wrongly. */
const programmingErrors = new Set(['UND_ERR_DESTROYED', 'UND_ERR_CLOSED', 'UND_ERR_INVALID_ARG']);

type Explanation = readonly [name: ErrorName, problem: string, remedy?: string];
const unavailable = (problem: string): Explanation => ['ServiceUnavailableError', problem];
const invalid = (problem: string): Explanation => [
  'ContractError',
  problem,
  'Send this message to the operators of the service, or of a proxy or load balancer before it',
];

function explain(
  error: unknown,
  code: string,
  { timeouts, isTls, bytesRead }: Pick<Context, 'timeouts' | 'isTls' | 'bytesRead'>,
  server: Server | undefined,
): Explanation {
  switch (code) {
    case 'UND_ERR_CONNECT_TIMEOUT':
      return unavailable(`did not accept a connection within ${timeouts.connectTimeout} ms`);
    case 'UND_ERR_HEADERS_TIMEOUT':
      return unavailable(`sent no response within ${timeouts.headersTimeout} ms`);
    case 'UND_ERR_BODY_TIMEOUT':
      return unavailable(`sent no data for ${timeouts.bodyTimeout} ms`);
    case 'UND_ERR_HEADERS_OVERFLOW':
      return invalid(`sent more than ${maxHeaderBytes} bytes of headers`);
    case 'NOT_HTTP':
      return invalid(`sent a response that is not valid HTTP (${parserProblem(error)})`);
  }
  // TLS errors during the body mean a broken connection: its certificate was accepted.
  if (bytesRead !== undefined) return unavailable('closed the connection');
  const unreachable = explainUnreachable(code, server) ?? (isTls ? explainClosedHandshake(error) : undefined);
  if (unreachable !== undefined) return ['ServiceUnreachableError', unreachable.problem, unreachable.remedy];
  return unavailable(`did not respond (${code || 'no error code'})`);
}

/** What the parser says, in its own words only. After a content-length, undici reports any error as a mismatch of lengths. */
function parserProblem(error: unknown): string {
  const [, reason] = /\(([\w ,'/.-]+)\)$/.exec(error instanceof Error ? error.message : '') ?? [];
  return (
    reason ?? 'malformed headers, or more than one length: content-length twice, or together with transfer-encoding'
  );
}

/** undici's code. Parser errors have none: `NOT_HTTP` stands for those that mean more than a lost connection. */
function transportCode(error: unknown, bytesRead: number | undefined): string {
  if (!(error instanceof Error)) return '';
  const code = codeOf(error);
  const isTruncated = error.message.includes('Invalid EOF state');
  if (error.name === 'HTTPParserError') return isTruncated ? '' : 'NOT_HTTP';
  // For some malformed responses, undici raises this before there is a body whose length could mismatch.
  if (code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH' && bytesRead === undefined) return 'NOT_HTTP';
  return code;
}
