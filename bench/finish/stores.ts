/**
 * A local DynamoDB and S3 that hold one run of any number of pages, all logged and stored, and that know no more than FinishRun
 * asks: its state, its entries, its listing, and uploads, whose bytes are counted and discarded.
 */

import { startServerProcess } from '../harness/server-process.ts';

export interface StoreLatencies {
  /** From a Query to its response. */
  readonly queryMs: number;
  /** From a ListObjectsV2 to its response. */
  readonly listMs: number;
  /** Of each upload; 0: as fast as it can. */
  readonly uploadBytesPerSecond: number;
}

export interface StoreOptions extends StoreLatencies {
  readonly pages: number;
}

/** The export, and the execution that owns its run. */
export const exportName = 'reports';
export const serviceName = 'bench';
export const execution = 'arn:aws:states:us-east-1:123456789012:execution:Bench:measured';
export const runId = '20261120T020000Z-1f3a5c';

export interface Stores extends AsyncDisposable {
  /** Both stores. */
  readonly endpoint: string;
}

export async function startStores(options: StoreOptions): Promise<Stores> {
  return await startServerProcess(new URL('stores-process.ts', import.meta.url), [JSON.stringify(options)]);
}
