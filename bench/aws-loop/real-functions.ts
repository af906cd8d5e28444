/**
 * The functions as they are deployed, over local sockets and against the model: what is on top of it is our own code, and
 * what stands in for AWS.
 */

import type { BenchOptions, Table } from '../harness/benchmark.ts';
import { measuredScript, type ProcessFigures } from '../harness/measured-process.ts';
import { startPageService } from '../harness/page-service.ts';
import { type Contender, figureOf, sideBySide } from '../harness/rounds.ts';
import { digits, withSpread } from '../harness/tables.ts';
import type { Latencies } from './latencies.ts';
import { functionEnvironment, startAws } from './local-aws.ts';
import { modelledWalk } from './modelled-run.ts';

/** Where everything takes some time, and where nothing does but our own code and what stands in for AWS. */
const settings = [
  { label: 'both take 50 ms', latencyMs: 40, bodyMs: 10, storingMs: 50, pages: 50 },
  { label: 'both take none', latencyMs: 0, bodyMs: 0, storingMs: 0, pages: 200 },
] as const;

const idle: Latencies = {
  serviceFirstByteMs: 0,
  serviceBodyMs: 0,
  s3PutMs: 0,
  s3HeadMs: 0,
  dynamoReadMs: 0,
  dynamoWriteMs: 0,
  transitionMs: 0,
  invokeMs: 0,
};

interface Real {
  readonly label: string;
  readonly perInvocation: number;
  /** What the model makes of it, with nothing that takes time but service and store. */
  readonly modelledMs: number;
  readonly rounds: readonly ProcessFigures[];
}

export async function measureFunctions(options: BenchOptions): Promise<readonly Real[]> {
  const real: Real[] = [];
  for (const { label, latencyMs, bodyMs, storingMs, pages: whole } of settings) {
    const pages = options.quick ? 5 : whole;
    await using service = await startPageService({ pageBytes: 100_000, pages, latencyMs, bodyMs });
    const contenders = [1, 25].map(
      (perInvocation): Contender<ProcessFigures> => ({
        name: `${perInvocation}`,
        async once() {
          await using aws = await startAws({ storingMs });
          const exportSettings = { pagesPerInvocation: perInvocation };
          const env = functionEnvironment(aws, { baseUrl: service.baseUrl }, exportSettings);
          return await measuredScript(new URL('function-run.ts', import.meta.url), [], [], env);
        },
      }),
    );
    const rounds = await sideBySide(contenders, options, `functions, ${label}`);
    for (const perInvocation of [1, 25]) {
      const latencies = { ...idle, serviceFirstByteMs: latencyMs, serviceBodyMs: bodyMs, s3PutMs: storingMs };
      const walk = { latencies, pages, pagesPerInvocation: perInvocation, answersAtOnce: 2 };
      const modelledMs = (await modelledWalk(walk)).wallMs / pages;
      real.push({ label, perInvocation, modelledMs, rounds: rounds.get(`${perInvocation}`) ?? [] });
    }
  }
  return real;
}

export function functionsTable(real: readonly Real[]): Table {
  return {
    title: 'Real: the deployed functions over local sockets, pages of 100 KB',
    columns: [
      'service and store',
      'pages an invocation',
      'modelled, ms a page',
      'real, ms a page',
      'on top',
      'CPU of the functions, ms a page',
    ],
    rows: real.map(({ label, perInvocation, modelledMs, rounds }) => {
      const named = new Map([['functions', rounds]]);
      const real = figureOf(named, 'functions', ({ loopMs = 0, pages = 1 }) => loopMs / pages);
      return [
        label,
        `${perInvocation}`,
        digits(modelledMs),
        withSpread(real),
        digits(real.median - modelledMs),
        withSpread(figureOf(named, 'functions', ({ loopCpuMs = 0, pages = 1 }) => loopCpuMs / pages)),
      ];
    }),
  };
}
