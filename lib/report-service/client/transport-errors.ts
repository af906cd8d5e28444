/**
 * What a connection that fails means to a run. Nearly always that trying again helps; but an answer that is not HTTP, or
 * too large to be one of this service's, breaks the contract.
 */

import type { ErrorName } from '../../core/errors.ts';
import type { Deadline } from './deadline.ts';
import { failure, type Subject } from './errors.ts';
import type { Limits } from './limits.ts';

export const maxHeaderBytes = 16 * 1024;

interface Circumstances {
  readonly caller: AbortSignal | undefined;
  readonly deadline: Deadline;
  readonly limits: Limits;
  /** How much of the body had come; undefined before the headers. */
  readonly bytesRead: number | undefined;
}

/**
 * The error to throw for one that undici threw: an interruption stays the caller's own reason, all else becomes an
 * ExportError. Truncation comes without a code at times, so what is not known otherwise counts as a broken connection.
 */
export function transportError(
  subject: Subject,
  error: unknown,
  { caller, deadline, limits, bytesRead }: Circumstances,
): unknown {
  if (deadline.endedBy === 'caller') return caller?.reason;
  const code = codeOf(error, bytesRead);
  if (ownMistakes.has(code)) return error;
  const [name, what] =
    deadline.endedBy === 'time'
      ? unavailable(`took longer than ${limits.totalTimeoutMs} ms in all`)
      : meaningOf(code, limits, bytesRead);
  const where = bytesRead === undefined ? `for ${subject.label}` : `after ${bytesRead} bytes of ${subject.label}`;
  return failure(subject, name, `Report service ${what} ${where}: it is tried again for a while`, { cause: error });
}

/** Not the service's doing, and not cured by trying again: the client was closed, or handed undici nonsense. */
const ownMistakes = new Set(['UND_ERR_DESTROYED', 'UND_ERR_CLOSED', 'UND_ERR_INVALID_ARG']);

type Meaning = readonly [name: ErrorName, what: string];
const unavailable = (what: string): Meaning => ['ServiceUnavailableError', what];
const broken = (what: string): Meaning => ['ContractError', what];

function meaningOf(code: string, limits: Limits, bytesRead: number | undefined): Meaning {
  switch (code) {
    case 'UND_ERR_CONNECT_TIMEOUT':
      return unavailable(`accepted no connection within ${limits.connectTimeoutMs} ms`);
    case 'UND_ERR_HEADERS_TIMEOUT':
      return unavailable(`sent no answer within ${limits.headersTimeoutMs} ms`);
    case 'UND_ERR_BODY_TIMEOUT':
      return unavailable(`fell silent for ${limits.bodyTimeoutMs} ms`);
    case 'UND_ERR_HEADERS_OVERFLOW':
      return broken(`sent more than ${maxHeaderBytes} bytes of headers`);
    case 'NOT_HTTP':
      return broken('sent what is not HTTP/1.1');
    default:
      return unavailable(bytesRead === undefined ? `gave no answer (${code || 'no code'})` : 'broke off');
  }
}

/** The error's code; of the parser's errors, which come without one, those that are more than a connection cut off. */
function codeOf(error: unknown, bytesRead: number | undefined): string {
  if (!(error instanceof Error)) return '';
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  const isCutOff = error.message.includes('Invalid EOF state');
  if (error.name === 'HTTPParserError') return isCutOff ? '' : 'NOT_HTTP';
  // What undici calls a malformed answer with a content-length, even before there is a body that could be too short.
  if (code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH' && bytesRead === undefined) return 'NOT_HTTP';
  return code;
}
