/**
 * A service that answers as the contract says (sections 2 and 4.1) as fast as Node can: every page is the same document,
 * made beforehand, so that what is measured is who asks. Its pages are real enough to be read: generated reports.
 */

import { startServer } from './server-process.ts';

export interface PageServiceOptions {
  /** About so many bytes a page, to within a report. */
  readonly pageBytes: number;
  readonly pages: number;
  /** From the request to the first byte of the answer. */
  readonly latencyMs?: number;
  /** From then to the last byte. */
  readonly bodyMs?: number;
  /** Each page tells its number, and the filter's date is heeded: its reports are older than the service. */
  readonly numbered?: boolean;
}

/** What its process is told. */
export interface ServingOptions extends PageServiceOptions {
  readonly telling: boolean;
}

export interface PageService extends AsyncDisposable {
  readonly baseUrl: string;
  /** Exactly. */
  readonly pageBytes: number;
}

/**
 * Starts it in a process of its own: it must not share a thread with whoever is measured. With numbered pages `onAsked`
 * hears which page was asked for.
 */
export async function startPageService(
  options: PageServiceOptions,
  onAsked?: (page: number) => void,
): Promise<PageService> {
  const script = new URL('page-service-process.ts', import.meta.url);
  const serving: ServingOptions = { ...options, telling: onAsked !== undefined };
  return await startServer<Pick<PageService, 'baseUrl' | 'pageBytes'>>(script, [JSON.stringify(serving)], (message) =>
    onAsked?.((message as { asked: number }).asked),
  );
}
