/**
 * A report service that responds as docs/service-contract.md says, as fast as Node can: every page is the same document, made in
 * advance. Its pages consist of generated reports.
 */

import { startServerProcess } from './server-process.ts';

export interface PageServiceOptions {
  /** The size of a page, approximately. */
  readonly pageBytes: number;
  readonly pages: number;
  /** From the request to the first byte of the response. */
  readonly latencyMs?: number;
  /** From the first byte to the last. */
  readonly bodyMs?: number;
  /** Puts its number into each page. Reports are dated before the start of the service: later requests get an empty page. */
  readonly numbered?: boolean;
}

/** The argument of page-service-process.ts. */
export interface PageServiceProcessOptions extends PageServiceOptions {
  readonly reportRequests: boolean;
}

/** Sent for each request with `reportRequests`. */
export interface RequestMessage {
  readonly requestedPage: number;
}

export interface PageService extends AsyncDisposable {
  readonly baseUrl: string;
  /** The exact size of a page. */
  readonly pageBytes: number;
}

/** `onRequest` gets the number of each requested page; it needs `numbered`. */
export async function startPageService(
  options: PageServiceOptions,
  onRequest?: (page: number) => void,
): Promise<PageService> {
  const script = new URL('page-service-process.ts', import.meta.url);
  const processOptions: PageServiceProcessOptions = { ...options, reportRequests: onRequest !== undefined };
  return await startServerProcess<Pick<PageService, 'baseUrl' | 'pageBytes'>>(
    script,
    [JSON.stringify(processOptions)],
    (message) => onRequest?.((message as RequestMessage).requestedPage),
  );
}
