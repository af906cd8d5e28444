/** What was asked and what was answered, for tests and for the curious. The API key is never in it. */

import type { IncomingHttpHeaders } from 'node:http';
import type { Headers } from './response.ts';

export interface Exchange {
  /** Counts the requests to this simulator from 1. */
  readonly number: number;
  readonly method: string;
  /** Path and query as they came, percent-encoding and all. */
  readonly target: string;
  /** Without the key's header. */
  readonly requestHeaders: IncomingHttpHeaders;
  /** Parsed where it is JSON, otherwise as text. */
  readonly requestBody: unknown;
  /** The cursor in force, query before body; undefined where none was sent, or where the request could not be read. */
  readonly cursor: string | undefined;

  /** 0 where the connection was cut before the status line. */
  readonly status: number;
  readonly headers: Headers;
  /** The values of the cursor header as sent: one, or none on the last page, or whatever a fault made of it. */
  readonly nextCursors: readonly string[];
  /** The identifiers of the page's reports. */
  readonly reports: readonly string[];
  /** Bytes of the body that were handed to the connection, and their SHA-256 in lower-case hexadecimal. */
  readonly bytes: number;
  readonly sha256: string;
  /** False where a fault, the client or a report that could not be read ended the answer early. */
  readonly whole: boolean;
  /** Why the answer is not whole, where no fault was scripted; or what lies behind a 500. */
  readonly problem?: unknown;
}
