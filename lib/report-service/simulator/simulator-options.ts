/** What a simulator is told when it is started. */

import type { Exchange } from './exchange.ts';
import type { FaultScript } from './fault-scripts.ts';
import type { ReportSource } from './report-source.ts';

export interface SimulatorOptions {
  /** The vendor's part of the header names: `SERVICE` makes `X-SERVICE-API-KEY` and `x-service-cursor`. */
  readonly vendor: string;
  /** The only key that is let in. */
  readonly apiKey: string;
  readonly reports: ReportSource;
  /** 0, the default, takes a free one. */
  readonly port?: number | undefined;
  /** Signs the cursors; an instance with another seed refuses them. 1 by default. */
  readonly seed?: string | number | undefined;
  /** Milliseconds since the epoch: decides which reports exist yet, and becomes the date header. */
  readonly now?: (() => number) | undefined;
  /** See `fault-scripts.ts`. */
  readonly faults?: FaultScript | undefined;
  /** Told of each exchange before the last of its answer is sent: a client that has its answer finds it noted. */
  readonly onExchange?: ((exchange: Exchange) => void) | undefined;
}
