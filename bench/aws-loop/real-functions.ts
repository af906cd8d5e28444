/**
 * The deployed functions over local sockets, compared with the model. The difference is our own code, the SDK and the local
 * substitutes for AWS.
 */

import type { BenchmarkOptions, Table } from '../harness/benchmark.ts';
import { measureScript, type ProcessFigures } from '../harness/measured-process.ts';
import { startPageService } from '../harness/page-service.ts';
import { type Contender, figureOf, measureRounds } from '../harness/rounds.ts';
import { formatNumber, formatSpread } from '../harness/tables.ts';
import type { Latencies } from './latencies.ts';
import { functionEnvironment, startLocalAwsProcess } from './local-aws.ts';
import { runModel } from './modelled-run.ts';

/** With latencies, and without: then only our own code and the substitutes take time. */
const cases = [
  { label: '50 ms each', latencyMs: 40, bodyMs: 10, putObjectDelayMs: 50, pages: 50 },
  { label: 'no latency', latencyMs: 0, bodyMs: 0, putObjectDelayMs: 0, pages: 200 },
] as const;

const pagesPerInvocation = [1, 25];

const noLatency: Latencies = {
  serviceFirstByteMs: 0,
  serviceBodyMs: 0,
  s3PutMs: 0,
  s3HeadMs: 0,
  dynamoReadMs: 0,
  dynamoWriteMs: 0,
  transitionMs: 0,
  invokeMs: 0,
  mapStartMs: 0,
  syncEndMs: 0,
};

interface MeasuredFunctions {
  readonly label: string;
  readonly perInvocation: number;
  /** A page in the model, with the latencies of the service and the store only. */
  readonly modelledMs: number;
  readonly rounds: readonly ProcessFigures[];
}

export async function measureFunctions(options: BenchmarkOptions): Promise<readonly MeasuredFunctions[]> {
  const measured: MeasuredFunctions[] = [];
  for (const { label, latencyMs, bodyMs, putObjectDelayMs, pages: fullPages } of cases) {
    const pages = options.quick ? 5 : fullPages;
    await using service = await startPageService({ pageBytes: 100_000, pages, latencyMs, bodyMs });
    const contenders = pagesPerInvocation.map((perInvocation): Contender<ProcessFigures> => ({
      name: `${perInvocation}`,
      async measure() {
        await using aws = await startLocalAwsProcess({ putObjectDelayMs });
        const exportSettings = { pagesPerInvocation: perInvocation };
        const env = functionEnvironment(aws, { baseUrl: service.baseUrl }, exportSettings);
        return await measureScript(new URL('function-run.ts', import.meta.url), [], [], env);
      },
    }));
    const rounds = await measureRounds(contenders, options, `functions, ${label}`);
    for (const perInvocation of pagesPerInvocation) {
      const latencies = {
        ...noLatency,
        serviceFirstByteMs: latencyMs,
        serviceBodyMs: bodyMs,
        s3PutMs: putObjectDelayMs,
      };
      const model = { latencies, pages, pagesPerInvocation: perInvocation, concurrentResponses: 2 };
      const modelledMs = (await runModel(model)).wallMs / pages;
      measured.push({ label, perInvocation, modelledMs, rounds: rounds.get(`${perInvocation}`) ?? [] });
    }
  }
  return measured;
}

export function functionsTable(measured: readonly MeasuredFunctions[]): Table {
  return {
    title: 'Measured: the deployed functions over local sockets, pages of 100 KB',
    columns: [
      'service and store',
      'pages per invocation',
      'modelled, ms per page',
      'measured, ms per page',
      'difference',
      'CPU of the functions, ms per page',
    ],
    rows: measured.map(({ label, perInvocation, modelledMs, rounds }) => {
      const byName = new Map([['functions', rounds]]);
      const measuredMs = figureOf(byName, 'functions', ({ loopMs = 0, pages = 1 }) => loopMs / pages);
      return [
        label,
        `${perInvocation}`,
        formatNumber(modelledMs),
        formatSpread(measuredMs),
        formatNumber(measuredMs.median - modelledMs),
        formatSpread(figureOf(byName, 'functions', ({ loopCpuMs = 0, pages = 1 }) => loopCpuMs / pages)),
      ];
    }),
  };
}
