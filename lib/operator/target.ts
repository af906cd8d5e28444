/** What commands need from the place where exports run: a directory on this machine, or a deployed stack. */

import type { Incident } from '../aws/step-functions/history.ts';
import type { DeployedStartOptions } from '../aws/step-functions/follow-run.ts';
import type { Finding } from '../aws/stack/findings.ts';
import type { ExportDefinition, RunEnd } from '../core/model.ts';
import type { Executions, PageLog, ReportReader, ReportService, StoreReader } from '../core/ports.ts';
import type { StartRequest } from '../core/start/start-input.ts';
import type { LocalStartOptions } from '../local/run.ts';
import type { SettingsOrigin } from '../local/settings.ts';
import type { Description } from '../service/api/description.ts';
import type { ProbedPeriod, ProbeResult } from '../service/client/probe-service.ts';
import type { ServiceSettings } from '../settings/settings.ts';

export interface Target extends AsyncDisposable {
  /** For messages: `directory ./exports`, `stack ReportExporter in eu-central-1`. */
  readonly name: string;
  /** The command-line option that selects it: `--out ./exports`, `--stack ReportExporter`. */
  readonly option: string;
  /** Whether nothing can have run: it is only settings. */
  readonly isNew?: boolean;
  /** The exports that have settings, in alphabetical order. */
  exportNames(): Promise<readonly string[]>;
  /** @throws ConfigurationError if there is no such export, or its settings cannot be read */
  open(exportName: string): Promise<ExportTarget>;
  /**
   * Every export by name, to read its status: also one of a directory that its settings have no more. What one request
   * can read of many is read once.
   */
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
  /** The origin of the next run's settings in a directory. Absent: they were deployed, or are options. */
  readonly settings?: SettingsOrigin | undefined;
  readonly service: DeployedService;
  /** The name of its service in a stack; the address of its service in a directory. */
  readonly serviceName: string;
  readonly store: StoreReader;
  /** Loads the reader of the pages of the export of the parents; undefined if there is none. */
  readonly loadReportReader?: () => Promise<ReportReader | undefined>;
  readonly log: PageLog;
  readonly executions: Executions;
  /**
   * Writes to the folders of the store, and to whatever else a run writes to, and removes it again. Absent where the
   * operator may not write although runs may.
   * @throws ConfigurationError if it cannot be written
   */
  checkWritable?(folders: readonly string[]): Promise<void>;
  /**
   * Has the function that fetches its pages request one and throw it away, and so tests the network, the role and the
   * key of that function. Absent where exports run in this process.
   */
  readonly probeFromFunction?: {
    readonly functionArn: string;
    readonly probe: (period: ProbedPeriod) => Promise<ProbeResult>;
  };
  readSchedule(): Promise<ScheduleState>;
  /** The maximum age of its newest completed run. Absent: it has none. */
  readonly freshnessSeconds?: number | null | undefined;
  /** The newest delay or failure of an unfinished run's execution. Absent where executions have no events. */
  lastIncident?(execution: string): Promise<Incident | undefined>;
  /** Begins a run, or resumes an unfinished one. A failed run is a result, not an exception. */
  start(request: StartRequest, options: StartOptions): Promise<RunEnd>;
}

export interface DeployedService {
  /** Its base URL, or `simulator`. */
  readonly address: string;
  /** How many pages the service may be asked for at the same time. Absent: no limit. */
  readonly maxConcurrentPages?: number | undefined;
  readonly settings: Omit<ServiceSettings, 'baseUrl'>;
  /** The description of the export. */
  readonly api: Description;
  /**
   * Reads certificates and credentials, and describes them without secrets. Empty for a direct connection.
   * @throws ConfigurationError if they cannot be used
   */
  readonly describeNetwork: () => Promise<string>;
  /** Where the API key comes from: `environment variable REPORT_EXPORT_API_KEY`, `secret arn:…`. Never the key. */
  readonly keySource: string;
  /**
   * Creates a client that has the API key. A simulator is started first, and `notify` is called with its address.
   * `signal` ends a wait for another process that exchanges a refresh token.
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

/** Each place ignores the options of the other. */
export interface StartOptions extends DeployedStartOptions, LocalStartOptions {}
