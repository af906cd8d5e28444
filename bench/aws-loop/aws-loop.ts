/**
 * The loop on AWS: the wall time of a page compared with the times of the service and the store, for one and for several pages per
 * invocation, and what Step Functions costs. First as a model in simulated time, with latencies as parameters; then with the
 * deployed functions over real sockets, to check the model and to measure our own overhead.
 */

import type { Benchmark, BenchmarkOptions, Table } from '../harness/benchmark.ts';
import { formatNumber } from '../harness/tables.ts';
import { type Latencies, parseLatencies, serviceMs, storeMs } from './latencies.ts';
import { type RunFigures, runModel } from './modelled-run.ts';
import { functionsTable, measureFunctions } from './real-functions.ts';

const pagesPerInvocation = [1, 5, 25, 100];

/** Step Functions Standard in us-east-1, list price. */
const dollarsPerTransition = 0.025 / 1_000;

export const awsLoop: Benchmark = {
  name: 'aws-loop',
  title: 'The loop on AWS',
  async run(options) {
    const latencies = parseLatencies(process.env.BENCH_LOOP);
    const modelled = await measureModel(latencies, options);
    const real = await measureFunctions(options);
    return {
      tables: [modelTable(modelled), functionsTable(real)],
      measured: { latencies, modelled, real },
      notes: notesOn(latencies),
    };
  },
};

interface Case {
  readonly label: string;
  readonly latencies: Latencies;
}

/** The total of the service (first byte and body) and that of the store (both writes) are equal, or one is larger. */
function casesOf(latencies: Latencies): readonly Case[] {
  const { serviceFirstByteMs: firstByte, serviceBodyMs: body, dynamoWriteMs: write } = latencies;
  const service = serviceMs(latencies);
  const factor = service > 0 ? storeMs(latencies) / service : 0;
  const slowStore = { s3PutMs: Math.max(0, service - write) };
  const fastService = { serviceFirstByteMs: firstByte * factor, serviceBodyMs: body * factor };
  return [
    { label: 'service slower', latencies },
    { label: 'equal', latencies: { ...latencies, ...slowStore } },
    { label: 'store slower', latencies: { ...latencies, ...slowStore, ...fastService } },
    { label: 'equal, both fast', latencies: { ...latencies, ...fastService } },
  ];
}

interface Modelled extends Case {
  readonly perInvocation: number;
  readonly pages: number;
  /** With a service that processes one request at a time. */
  readonly oneAtATime: RunFigures;
  /** With a service that processes two requests at once. */
  readonly twoAtOnce: RunFigures;
}

async function measureModel(
  latencies: Latencies,
  { quick, reportProgress }: BenchmarkOptions,
): Promise<readonly Modelled[]> {
  const pages = quick ? 200 : 2_000;
  const modelled: Modelled[] = [];
  for (const one of casesOf(latencies)) {
    for (const perInvocation of pagesPerInvocation) {
      reportProgress(`loop on AWS, ${one.label}, ${perInvocation} per invocation`);
      const model = { latencies: one.latencies, pages, pagesPerInvocation: perInvocation };
      const oneAtATime = await runModel({ ...model, concurrentResponses: 1 });
      const twoAtOnce = await runModel({ ...model, concurrentResponses: 2 });
      modelled.push({ ...one, perInvocation, pages, oneAtATime, twoAtOnce });
    }
  }
  return modelled;
}

function modelTable(modelled: readonly Modelled[]): Table {
  const ratio = (value: number) => `${value.toFixed(3)}×`;
  return {
    title: 'Modelled: wall time per page, in simulated milliseconds',
    columns: [
      'case',
      'service',
      'store',
      'pages per invocation',
      'ms per page',
      'relative to the slower',
      'if the service processes two requests at once',
      'Lambda ms per page',
      'Step Functions, $ per million pages',
    ],
    rows: modelled.map(({ label, latencies, perInvocation, pages, oneAtATime, twoAtOnce }) => {
      const slower = Math.max(serviceMs(latencies), storeMs(latencies));
      return [
        label,
        formatNumber(serviceMs(latencies)),
        formatNumber(storeMs(latencies)),
        `${perInvocation}`,
        formatNumber(oneAtATime.wallMs / pages),
        ratio(oneAtATime.wallMs / pages / slower),
        ratio(twoAtOnce.wallMs / pages / slower),
        formatNumber(oneAtATime.lambdaMs / pages),
        ((oneAtATime.transitions / pages) * 1e6 * dollarsPerTransition).toFixed(2),
      ];
    }),
  };
}

function notesOn(latencies: Latencies): readonly string[] {
  const { transitionMs, invokeMs, dynamoReadMs } = latencies;
  const iterationMs = 2 * transitionMs + invokeMs + 2 * dynamoReadMs;
  return [
    `Modelled with ${JSON.stringify(latencies)}. BENCH_LOOP sets other latencies.`,
    `With K pages per invocation a page takes at most max(service, store) + (min(service, store) + ${iterationMs} ms) / K: nothing ` +
      `runs beside the storing of the last page, and an iteration of the loop takes ${iterationMs} ms itself. So 25 pages stay ` +
      `within 1.05 of the slower one if min + ${iterationMs} ms is at most 1.25 max; if both are equal, from ` +
      `${formatNumber(iterationMs / 0.25)} ms on.`,
  ];
}
