/**
 * What the operator's commands need from the place where exports run: a directory on this machine, or a deployed stack.
 * The interfaces through which the steps do their work are in `../core/ports.ts`.
 */

import type { ExportError } from '../core/errors.ts';
import type { ExportDefinition, FailedRun, Instant, RunFailure, RunId, RunResult } from '../core/model.ts';
import type { StartInput } from '../core/steps/start-input.ts';
import type { Finding } from './findings.ts';
import type { ProbedPeriod, ProbeResult } from './probe-service.ts';
import type { EventSink, Executions, PageLog, ReportService, StoreReader } from '../core/ports.ts';
import type { Description } from '../service/api/description.ts';
import type { ServiceSettings } from '../settings/settings.ts';

export interface Target extends AsyncDisposable {
  /** For messages: `directory ./exports`, `stack ReportExporter in eu-central-1`. */
  readonly name: string;
  /** The command-line option that selects it: `--out ./exports`, `--stack ReportExporter`. */
  readonly option: string;
  /** Whether nothing can have run: it is only settings. */
  readonly isNew?: boolean;
  /** In alphabetical order. */
  exportNames(): Promise<readonly string[]>;
  /** @throws ConfigurationError if there is no such export, or its settings cannot be read */
  open(exportName: string): Promise<ExportTarget>;
  /** Every export by name, to read its status. What one request can read of many is read once. */
  openAll(): Promise<readonly (ExportTarget | UnreadableExport)[]>;
  /** What `doctor` finds that is of no single export. Absent: there is nothing. */
  check?(): Promise<readonly Finding[]>;
}

/** An export whose settings or state cannot be read. */
export interface UnreadableExport {
  readonly export: string;
  /** The name of its service, as in `ExportTarget`; null if that cannot be read either. */
  readonly service: string | null;
  readonly error: { readonly name: string; readonly message: string };
}

export function unreadableExport(exportName: string, service: string | null, cause: unknown): UnreadableExport {
  const { name, message } = cause instanceof Error ? cause : new Error(String(cause));
  return { export: exportName, service, error: { name, message } };
}

export interface ExportTarget {
  readonly name: string;
  /** The definition that its next run uses. */
  readonly definition: ExportDefinition;
  /** Where the settings of its next run come from, in a directory. Absent: they were deployed. */
  readonly settings?: SettingsOrigin | undefined;
  readonly service: DeployedService;
  /** The name of its service in a stack; the address of its service in a directory. */
  readonly serviceName: string;
  readonly store: StoreReader;
  readonly log: PageLog;
  readonly executions: Executions;
  /**
   * Writes to the folders of the store, and to whatever else a run writes to, and removes it again. Absent where the operator
   * may not write although runs may.
   * @throws ConfigurationError if it cannot be written
   */
  checkWritable?(folders: readonly string[]): Promise<void>;
  /**
   * Has the function that fetches its pages request one and throw it away, and so tests the network, the role and the key of that
   * function. Absent where exports run in this process.
   */
  readonly probeFromFunction?: {
    readonly functionArn: string;
    readonly probe: (period: ProbedPeriod) => Promise<ProbeResult>;
  };
  readSchedule(): Promise<ScheduleState>;
  /** The maximum age of its newest completed run. Absent: it has none. */
  readonly freshnessSeconds?: number | null | undefined;
  /** Why the newest start in a directory has begun no run, if it ended before its execution. The state of the export has others. */
  readonly failedStart?: RunFailure | undefined;
  /** What delayed or stopped the execution of an unfinished run last, from its newest events. Absent where executions have none. */
  lastIncident?(execution: string): Promise<Incident | undefined>;
  /** Begins a run, or resumes an unfinished one. A failed run is a result, not an exception. */
  start(request: StartRequest, options: StartOptions): Promise<RunEnd>;
}

export interface SettingsOrigin {
  /** The settings file that every start reads again. null: there is none; the options of the last run count. */
  readonly file: string | null;
  /** Why the file cannot be used. Nothing starts then, and what is stored is shown with the settings of the last run. */
  readonly problem?: ExportError | undefined;
}

/** The report service, as the export is configured to use it. */
export interface DeployedService {
  /** Its base URL, or `simulator`. */
  readonly address: string;
  /** How many pages the service may be asked for at the same time. Absent: no limit. */
  readonly maxConcurrentPages?: number | undefined;
  readonly settings: Omit<ServiceSettings, 'baseUrl'>;
  /** As the export describes it. */
  readonly api: Description;
  /**
   * Reads certificates and credentials, and describes them without secrets. Empty for a direct connection.
   * @throws ConfigurationError if they cannot be used
   */
  readonly describeNetwork: () => Promise<string>;
  /** Where the API key comes from: `environment variable REPORT_EXPORT_API_KEY`, `secret arn:…`. Never the key. */
  readonly keySource: string;
  /**
   * Creates a client that has the API key. A simulator is started first, and `notify` is called with its address. `signal` ends a wait
   * for another process that exchanges a refresh token.
   * @throws ConfigurationError if there is no API key, or certificates or credentials cannot be used
   */
  readonly connect: (notify: (text: string) => void, signal?: AbortSignal) => Promise<ReportService & AsyncDisposable>;
}

export type ScheduleState =
  | { readonly kind: 'scheduled' | 'disabled'; readonly expression: string; readonly timeZone: string }
  | {
      readonly kind: 'manual';
      /** In a directory: the schedule in the settings file, which only AWS follows. */
      readonly awsSchedule?: string;
    };

/** What delayed or stopped an unfinished run. */
export type Incident =
  /** An attempt failed and is retried; or an execution failed, and the next start resumes the run. */
  | ({ readonly kind: 'failed-attempt' | 'failed-run' } & RunFailure)
  /** The service responded with Retry-After. */
  | { readonly kind: 'wait'; readonly at: Instant; readonly seconds: number };

/** A start input without the name of the export; `slice` is written as a duration. */
export type StartRequest = Omit<StartInput, 'export' | 'scheduledTime' | 'slice' | 'continues' | 'waits'> & {
  readonly slice?: string | undefined;
};

export interface StartOptions {
  /** Whether to wait for the end of the run, across all its executions. A local run is always followed. */
  readonly follow: boolean;
  /** Receives the run's events while it is followed. */
  readonly emit: EventSink;
  /** Receives other messages for the operator. */
  readonly notify: (text: string) => void;
  /** Called once the execution of a deployed run has been started, with its ARN. */
  readonly onStarted?: ((execution: string) => void) | undefined;
  /** How many runs are being followed at the moment. The more, the less often each of them is polled. Default: 1. */
  readonly followers?: (() => number) | undefined;
  /** Receives failed attempts of a local run that will be retried. Those of a deployed run are messages. */
  readonly onRetry: (retry: Retry) => void;
  /** How often a step of a local run is tried at most, per kind of error. A stack has its own retry policy. */
  readonly maxAttempts?: number | undefined;
  /** Interrupts a local run. A deployed run continues, but is no longer followed. */
  readonly signal: AbortSignal;
}

/** A failed attempt that will be retried. */
export interface Retry {
  readonly state: string;
  readonly error: string;
  readonly message: string;
  /** The number of the next retry, from 1, among those of errors that share a retrier. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Whether the attempt has exported pages. Then the retries are counted from 1 again at the page that failed. */
  readonly hasProgressed?: boolean | undefined;
  /** The delay before it. */
  readonly delaySeconds: number;
}

/** The result of a start; of the run, if it was followed. */
export type RunEnd =
  | {
      readonly status: 'completed';
      readonly result: RunResult;
      /** The address of the manifest; null if the run is not published. */
      readonly manifest: string | null;
    }
  | {
      readonly status: 'skipped';
      readonly reason: string;
      /** Set if the bounds have been exported already. */
      readonly done?: true | undefined;
    }
  | { readonly status: 'failed'; readonly failed: FailedRun }
  | { readonly status: 'interrupted' }
  /** The run is in progress and is not followed, or no longer. `run` is null while it has none. */
  | { readonly status: 'started'; readonly execution: string; readonly run: RunId | null };
