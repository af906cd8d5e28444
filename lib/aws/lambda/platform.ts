/** Everything that a function uses from outside its process. The simulation replaces it, and nothing else. */

import { systemRuntime } from '../../core/clock.ts';
import type { Runtime } from '../../core/ports.ts';
import type { Compress } from '../../core/storage/compression.ts';
import type { SpoolFile } from '../../core/storage/spool.ts';
import type { CreatePool } from '../../service/client/pools.ts';
import type { CreateGunzip } from '../../service/client/response/gzip.ts';
import { type SdkClient, withoutRequestLog } from '../sdk-config.ts';
import { powertools, type TelemetryOutput } from './telemetry.ts';

export interface Platform {
  readonly runtime: Runtime;
  /** Creates a client of an AWS service. The function names its class, so that its bundle has no others. */
  readonly createClient: <Client extends SdkClient, Config>(
    type: new (config: Config) => Client,
    config: Config,
  ) => Client;
  readonly telemetryOutput: TelemetryOutput;
  /** Connects to the report service. Absent: undici does. */
  readonly createPool?: CreatePool | undefined;
  /** Decompresses pages. Absent: zlib does, in its threads. */
  readonly createGunzip?: CreateGunzip | undefined;
  /** Compresses pages. Absent: zlib does, in its threads. */
  readonly compress?: Compress | undefined;
  /** Creates the file of a large body. Absent: in the temporary directory. */
  readonly openSpoolFile?: (() => SpoolFile) | undefined;
  /** The size of the parts in which large bodies are uploaded. Absent: 8 MiB. */
  readonly partBytes?: number | undefined;
  /** The most pages in flight in an invocation. Absent: 2, for which memory and storage of the function suffice. */
  readonly maxInFlight?: number | undefined;
}

export const lambdaPlatform: Platform = {
  runtime: systemRuntime,
  createClient: (type, config) => withoutRequestLog(new type(config)),
  telemetryOutput: powertools,
};
