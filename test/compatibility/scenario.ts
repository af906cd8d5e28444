/**
 * The exports of the fixtures, each left in another situation by the version that wrote them: what the fixtures' script does,
 * and what the tests expect of every later version.
 *
 * A published fixture is never written again, so what a situation means must not change either. Add new ones at the end, with
 * the version that first has them.
 */

import { basename } from 'node:path';
import { ExportError } from '../../lib/core/errors.ts';
import type { LoopState } from '../../lib/core/model.ts';
import { asRunId } from '../../lib/core/model.ts';
import type { PageLog, PageStore, ReportService, RunHistory, StepDependencies } from '../../lib/core/ports.ts';
import type { FunctionSettingsInput } from '../../lib/core/settings/environment.ts';
import { beginRun } from '../../lib/core/steps/begin-run.ts';
import { exportPage } from '../../lib/core/steps/export-page.ts';
import { failRun } from '../../lib/core/steps/fail-run.ts';
import { finishRun } from '../../lib/core/steps/finish-run.ts';
import type { Functions } from '../support/export/function-machine.ts';
import { type Script, type ScriptedService, scriptedService, someReports } from '../support/export/scripted-service.ts';

export const source = 'https://reports.example.com';
export const serviceName = 'acme';
export const prefix = `all/${serviceName}/`;
export const bucket = 'bucket';

/** Nine reports, a minute apart. Two of them are a page. */
export const reports = someReports(9);
export const createService = (script?: Script): ScriptedService => scriptedService(reports, script);

type ExportInput = FunctionSettingsInput['exports'][number];

export interface Situation {
  readonly export: string;
  /** The inputs of its executions. What happens, happens in the last one. */
  readonly starts: readonly { readonly since?: string }[];
  readonly happens?: Interruption;
  readonly settings?: Partial<ExportInput>;
  /** Only where Step Functions runs the export: a local run neither waits in a state nor continues in another execution. */
  readonly onlyOnAws?: true;
  /** What the next start does. */
  readonly next: {
    /** Whether it resumes the run. */
    readonly resumes: boolean;
    /** The reports that its run publishes, by number: from the first one to the ninth. Undefined: none. */
    readonly firstReport: number | undefined;
    /** How many pages it has to request. */
    readonly requests: number;
  };
}

type Interruption =
  /** The process dies before this: the request of the page, the log entry of the page, the manifest, or `run.json`. */
  | { readonly killedBefore: 'request' | 'entry'; readonly page: number }
  | { readonly killedBefore: 'manifest' | 'run' }
  /** The service answers the request of the page with this error; then, if it is temporary, the process dies. */
  | { readonly page: number; readonly error: ConstructorParameters<typeof ExportError> };

export const situations: readonly Situation[] = [
  { export: 'completed', starts: [{}], next: { resumes: false, firstReport: undefined, requests: 1 } },
  {
    export: 'interrupted',
    starts: [{}, { since: '2026-11-01T00:02:00Z' }],
    happens: { killedBefore: 'request', page: 3 },
    next: { resumes: true, firstReport: 3, requests: 2 },
  },
  {
    export: 'stored',
    starts: [{}],
    happens: { killedBefore: 'entry', page: 3 },
    next: { resumes: true, firstReport: 1, requests: 2 },
  },
  {
    export: 'failed',
    starts: [{}],
    happens: { page: 3, error: ['RequestRejectedError', 'Report service responded with 400 to page 3'] },
    next: { resumes: true, firstReport: 1, requests: 3 },
  },
  {
    export: 'abandoned',
    starts: [{}],
    happens: { page: 3, error: ['CursorRejectedError', 'Report service responded with 410 to page 3'] },
    settings: { maxCursorRestarts: 0 },
    next: { resumes: false, firstReport: 1, requests: 5 },
  },
  {
    export: 'unpublished',
    starts: [{}],
    happens: { killedBefore: 'manifest' },
    next: { resumes: true, firstReport: 1, requests: 0 },
  },
  {
    export: 'waiting',
    starts: [{}],
    happens: {
      page: 2,
      error: ['ServiceThrottledError', 'Report service responded with 429', { retryAfterSeconds: 3_600 }],
    },
    onlyOnAws: true,
    next: { resumes: true, firstReport: 1, requests: 4 },
  },
  {
    export: 'continued',
    starts: [{}],
    settings: { iterationsPerExecution: 2 },
    onlyOnAws: true,
    next: { resumes: true, firstReport: 1, requests: 3 },
  },
  {
    export: 'unlisted',
    starts: [{}],
    happens: { killedBefore: 'run' },
    settings: { publishEmptyRuns: false },
    next: { resumes: true, firstReport: 1, requests: 0 },
  },
];

/** The settings of the functions, as the deployment writes them beside their code. */
export const functionSettings: FunctionSettingsInput = {
  service: { baseUrl: source, vendor: 'ACME' },
  exports: situations.map(({ export: name, settings }) => ({
    name,
    size: 2,
    filter: { type: 'daily', region: { in: ['north', 'Zürich "süd"', ''] }, amount: -0.5 },
    since: { initial: '2026-11-01T00:00:00Z' },
    ...settings,
  })),
};

export type Storage = { readonly store: PageStore; readonly log: PageLog & RunHistory };

export interface Interrupted extends Storage {
  readonly service: ReportService;
  readonly isKilled: () => boolean;
}

/** The storage and the service of a process to which `happens` happens. Once it is killed, it does nothing more. */
export function interrupt({ store, log }: Storage, happens: Interruption | undefined): Interrupted {
  let killed = false;
  let requests = 0;
  const dieIf = (dies: boolean) => {
    killed ||= dies;
    if (killed) throw new Error('The process was killed');
  };
  const isBefore = (point: string, page?: number) =>
    happens !== undefined &&
    'killedBefore' in happens &&
    happens.killedBefore === point &&
    (!('page' in happens) || happens.page === page);
  const service = createService((_, page) => {
    if (happens !== undefined && 'error' in happens && happens.page === page) throw new ExportError(...happens.error);
    return undefined;
  });
  return {
    isKilled: () => killed,
    service: {
      async fetchPage(request) {
        requests += 1;
        // After a wait, the same page is requested again.
        dieIf(
          isBefore('request', requests) || (happens !== undefined && 'error' in happens && requests > happens.page),
        );
        return await service.fetchPage(request);
      },
    },
    store: {
      ...store,
      async putDocument(key, chunks) {
        dieIf(isBefore(basename(key, '.json')));
        await store.putDocument(key, chunks);
      },
    },
    log: {
      ...log,
      async exportState(name) {
        dieIf(false);
        return await log.exportState(name);
      },
      async append(entry) {
        dieIf(isBefore('entry', entry.page));
        return await log.append(entry);
      },
    },
  };
}

/** The steps as the functions run them, with other storage or another service. */
export function stepFunctions(deps: StepDependencies): Functions {
  return {
    BeginRun: async ({ input, execution }) => await beginRun(deps, { input, execution }),
    ExportPage: async ({ input, execution }) => await exportPage(deps, { loop: input as LoopState, execution }),
    FinishRun: async ({ input, execution }) =>
      await finishRun(deps, { run: asRunId((input as LoopState).run), execution }),
    FailRun: async ({ input: failure, execution }) => await failRun(deps, { failure, execution }),
  };
}
