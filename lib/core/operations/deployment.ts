/**
 * What the operator's commands need from the place where exports run: a directory on this machine, or a deployed stack.
 * The interfaces through which the steps do their work are in `../ports.ts`.
 */

import type { ExportDefinition, FailedRun, Instant, RunId, RunResult } from '../model.ts';
import type { EventSink, Executions, PageLog, ReportService, RunHistory, RunRef, StoreReader } from '../ports.ts';

export interface Deployment extends AsyncDisposable {
  /** For messages: `directory ./exports`, `stack ReportExporter in eu-central-1`. */
  readonly name: string;
  /** The command-line option that selects it: `--out ./exports`, `--stack ReportExporter`. */
  readonly option: string;
  /** In alphabetical order. */
  exportNames(): Promise<readonly string[]>;
  /** @throws ConfigurationError if there is no such export, or its settings cannot be read */
  open(exportName: string): Promise<DeployedExport>;
}

export interface DeployedExport {
  readonly name: string;
  /** The definition that its next run uses. */
  readonly definition: ExportDefinition;
  readonly service: DeployedService;
  readonly store: StoreReader;
  readonly log: PageLog & RunHistory;
  readonly executions: Executions;
  /** When its schedule starts it next. */
  nextStart(): Promise<NextStart>;
  /** The incidents of the run in chronological order, as far back as they are recorded. */
  incidents(run: RunSpan): AsyncIterable<Incident>;
  /** The newest incident of the run; cheaper than reading all of them. */
  lastIncident(run: RunSpan): Promise<Incident | undefined>;
  /** Begins a run, or resumes an unfinished one. A failed run is a result, not an exception. */
  start(request: StartRequest, options: StartOptions): Promise<RunEnd>;
}

/** The report service, as the export is configured to use it. */
export interface DeployedService {
  /** Its base URL, or `simulator`. */
  readonly address: string;
  readonly vendor: string;
  readonly cursorIn: 'query' | 'body';
  /** Where the API key comes from: `environment variable REPORT_EXPORT_API_KEY`, `secret arn:…`. Never the key. */
  readonly keySource: string;
  /**
   * Creates a client that has the API key. A simulator is started first, and `say` is called with its address.
   * @throws ConfigurationError if there is no API key
   */
  readonly connect: (say: (text: string) => void) => Promise<ReportService & AsyncDisposable>;
}

export type NextStart =
  | {
      readonly kind: 'scheduled';
      readonly at: Instant;
      /** True for a rate, whose phase is known only from the last run, and for a schedule with a flexible time window. */
      readonly approximate: boolean;
      readonly expression: string;
    }
  | { readonly kind: 'disabled'; readonly expression: string }
  | { readonly kind: 'manual' };

/** A run and its time span, which extends to the present if the run is not completed. */
export interface RunSpan extends RunRef {
  readonly startedAt: Instant;
  readonly completedAt?: Instant | undefined;
}

/** What delayed or stopped a run. */
export type Incident = { readonly at: Instant; readonly page: number | null } & (
  | {
      /** An attempt failed. It was retried, or will be. */
      readonly kind: 'failed-attempt';
      readonly error: string;
      readonly message: string;
    }
  | {
      /** The service responded with Retry-After, and the run waited. */
      readonly kind: 'wait';
      readonly seconds: number;
    }
  | {
      /** An execution failed after all its retries. The next start resumes the run. */
      readonly kind: 'failed-run';
      readonly error: string;
      readonly message: string;
    }
);

export interface StartRequest {
  readonly since?: Instant | undefined;
  readonly restart?: boolean | undefined;
}

export interface StartOptions {
  /** Whether to wait for the end of the run, across all its executions. A local run is always followed. */
  readonly follow: boolean;
  /** Receives the run's events while it is followed. */
  readonly emit: EventSink;
  /** Receives other messages for the operator. */
  readonly say: (text: string) => void;
  /** Receives failed attempts that will be retried. */
  readonly onRetry: (retry: Retry) => void;
  /** Interrupts a local run. A deployed run continues, but is no longer followed. */
  readonly signal: AbortSignal;
}

/** A failed attempt that Step Functions, or the interpreter, retries. */
export interface Retry {
  readonly state: string;
  readonly error: string;
  readonly message: string;
  /** The number of the next retry, from 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** The delay before it, if it is known. */
  readonly delaySeconds?: number | undefined;
  /** The longest delay before it, if only that is known: Step Functions picks a random one up to this. */
  readonly maxDelaySeconds?: number | undefined;
}

/** The result of a start; of the run, if it was followed. */
export type RunEnd =
  | {
      readonly status: 'completed';
      readonly result: RunResult;
      /** The address of the manifest. */
      readonly manifest: string;
    }
  | { readonly status: 'skipped'; readonly reason: string }
  | { readonly status: 'failed'; readonly failed: FailedRun }
  | { readonly status: 'interrupted' }
  /** The run is in progress and is not followed, or no longer. `run` is null while it has none. */
  | { readonly status: 'started'; readonly execution: string; readonly run: RunId | null };
