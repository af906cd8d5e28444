/**
 * What an operator's commands need of the place where exports run: a directory on this machine, or a deployed stack.
 * Everything here is for looking and for starting; what a run does is in `../ports.ts`.
 */

import type { ExportDefinition, FailedRun, Instant, RunId, RunResult } from '../model.ts';
import type { EventSink, Executions, PageLog, ReportService, RunHistory, RunRef, StoreReader } from '../ports.ts';

export interface Deployment extends AsyncDisposable {
  /** For a person: `directory ./exports`, `stack ReportExporter in eu-central-1`. */
  readonly name: string;
  /** How a command names it: `--out ./exports`, `--stack ReportExporter`. */
  readonly option: string;
  /** In alphabetical order. */
  exportNames(): Promise<readonly string[]>;
  /** @throws ConfigurationError where it holds no such export, or its settings cannot be read */
  open(exportName: string): Promise<DeployedExport>;
}

export interface DeployedExport {
  readonly name: string;
  /** What its next run is made with. */
  readonly definition: ExportDefinition;
  readonly service: DeployedService;
  readonly store: StoreReader;
  readonly log: PageLog & RunHistory;
  readonly executions: Executions;
  /** When it starts by itself. */
  nextStart(): Promise<NextStart>;
  /** What held the run up, in order of time, as far back as it is remembered. */
  incidents(run: RunSpan): AsyncIterable<Incident>;
  /** The newest of them; cheaper than reading them all. */
  lastIncident(run: RunSpan): Promise<Incident | undefined>;
  /** Makes a run, or the rest of an unfinished one. A failed run is an outcome, not an exception. */
  start(request: StartRequest, watching: StartOptions): Promise<RunEnd>;
}

/** The service as an installed export speaks to it. */
export interface DeployedService {
  /** Its base URL, or `simulator`. */
  readonly address: string;
  readonly vendor: string;
  readonly cursorIn: 'query' | 'body';
  /** Where the key comes from: `environment variable REPORT_EXPORT_API_KEY`, `secret arn:…`. Never the key. */
  readonly keySource: string;
  /**
   * A client with the key in it. Where a simulator is all there is, it is started, and `say` told where it answers.
   * @throws ConfigurationError where there is no key to be had
   */
  readonly connect: (say: (text: string) => void) => Promise<ReportService & AsyncDisposable>;
}

export type NextStart =
  /** `about`: by a rate, whose beats are known only from the last one, or within a flexible window. */
  | { readonly kind: 'scheduled'; readonly at: Instant; readonly about: boolean; readonly expression: string }
  | { readonly kind: 'disabled'; readonly expression: string }
  | { readonly kind: 'by-hand' };

/** A run and the time in which it was worked on; without an end, until now. */
export interface RunSpan extends RunRef {
  readonly startedAt: Instant;
  readonly completedAt?: Instant | undefined;
}

export type Incident = { readonly at: Instant; readonly page: number | null } & (
  | {
      /** An attempt that failed, and was or may be repeated. */
      readonly kind: 'failed-attempt';
      readonly error: string;
      readonly message: string;
    }
  | {
      /** The service asked for patience, and got it. */
      readonly kind: 'wait';
      readonly seconds: number;
    }
  | {
      /** An execution gave up; the next start goes on. */
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
  /** Whether to stay until the run's end, through all its executions. On this machine there is no other way. */
  readonly follow: boolean;
  /** Told of the run's progress while it is followed. */
  readonly emit: EventSink;
  /** Told what else a person may want to know. */
  readonly say: (text: string) => void;
  /** Told of failed attempts that will be repeated. */
  readonly onRetry: (retry: Retry) => void;
  /** On this machine it interrupts the run; elsewhere only the watching. */
  readonly signal: AbortSignal;
}

/** A failed attempt that Step Functions, or the interpreter, retries. */
export interface Retry {
  readonly state: string;
  readonly error: string;
  readonly message: string;
  /** Which retry comes next, from 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** The delay before it, if it is known. */
  readonly delaySeconds?: number | undefined;
  /** The longest delay before it, if only that is known: Step Functions picks a random one up to this. */
  readonly maxDelaySeconds?: number | undefined;
}

/** How a start, and where it was followed the run, ended. */
export type RunEnd =
  | {
      readonly status: 'completed';
      readonly result: RunResult /** Where it can be opened. */;
      readonly manifest: string;
    }
  | { readonly status: 'skipped'; readonly reason: string }
  | { readonly status: 'failed'; readonly failed: FailedRun }
  | { readonly status: 'interrupted' }
  /** Under way, and no longer watched. */
  | { readonly status: 'started'; readonly execution: string; readonly run: RunId | null };
