/**
 * A service that answers as the contract says (sections 2 and 4.1) as fast as Node can: every page is the same document,
 * made beforehand, so that what is measured is who asks. `sample` pages are real enough to be read: generated reports.
 */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

export interface PageServiceOptions {
  /** About so many bytes a page, to within a report. */
  readonly pageBytes: number;
  readonly pages: number;
  /** From the request to the first byte of the answer. */
  readonly latencyMs?: number;
  /** From then to the last byte. */
  readonly bodyMs?: number;
}

export interface PageService extends AsyncDisposable {
  readonly baseUrl: string;
  /** Exactly. */
  readonly pageBytes: number;
}

/** Starts it in a process of its own: it must not share a thread with whoever is measured. */
export async function startPageService(options: PageServiceOptions): Promise<PageService> {
  const child = fork(fileURLToPath(new URL('serve-pages.ts', import.meta.url)), [JSON.stringify(options)]);
  const [started] = (await once(child, 'message')) as [Pick<PageService, 'baseUrl' | 'pageBytes'>];
  return {
    ...started,
    async [Symbol.asyncDispose]() {
      const ended = once(child, 'exit');
      child.kill();
      await ended;
    },
  };
}
