/**
 * The loop on AWS: how long a page takes against the service's own time and the store's, for one and for several pages an
 * invocation, and what Step Functions costs for it. First as a model, in simulated time, with latencies that are
 * parameters; then by the functions as they are deployed, over real sockets, to see that the model does not lie and how
 * much of our own comes on top.
 */

import type { Bench, BenchOptions, Table } from '../harness/benchmark.ts';
import { digits } from '../harness/tables.ts';
import { type Latencies, latenciesFrom, serviceMs, storeMs } from './latencies.ts';
import { modelledWalk, type WalkFigures } from './modelled-run.ts';
import { functionsTable, measureFunctions } from './real-functions.ts';

const pagesPerInvocation = [1, 5, 25, 100];

/** Step Functions Standard in us-east-1, by the price list. */
const dollarsPerTransition = 0.025 / 1_000;

export const awsLoop: Bench = {
  name: 'aws-loop',
  title: 'The loop on AWS',
  async run(options) {
    const latencies = latenciesFrom(process.env.BENCH_LOOP);
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

/** What is equal or slower is so by the page: the service's two times together, and the store's two writes. */
function casesOf(given: Latencies): readonly Case[] {
  const { serviceFirstByteMs: firstByte, serviceBodyMs: body, dynamoWriteMs: write } = given;
  const service = serviceMs(given);
  const share = service > 0 ? storeMs(given) / service : 0;
  const slowStore = { s3PutMs: Math.max(0, service - write) };
  return [
    { label: 'service slower', latencies: given },
    { label: 'equal', latencies: { ...given, ...slowStore } },
    {
      label: 'store slower',
      latencies: { ...given, ...slowStore, serviceFirstByteMs: firstByte * share, serviceBodyMs: body * share },
    },
    {
      label: 'equal, and both fast',
      latencies: { ...given, serviceFirstByteMs: firstByte * share, serviceBodyMs: body * share },
    },
  ];
}

interface Modelled extends Case {
  readonly perInvocation: number;
  readonly pages: number;
  /** By a service that works on one request of ours at a time, and by one that works on two. */
  readonly inTurn: WalkFigures;
  readonly atOnce: WalkFigures;
}

async function measureModel(given: Latencies, { quick, say }: BenchOptions): Promise<readonly Modelled[]> {
  const pages = quick ? 200 : 2_000;
  const modelled: Modelled[] = [];
  for (const one of casesOf(given)) {
    for (const perInvocation of pagesPerInvocation) {
      say(`loop on AWS, ${one.label}, ${perInvocation} an invocation`);
      const walk = { latencies: one.latencies, pages, pagesPerInvocation: perInvocation };
      const inTurn = await modelledWalk({ ...walk, answersAtOnce: 1 });
      const atOnce = await modelledWalk({ ...walk, answersAtOnce: 2 });
      modelled.push({ ...one, perInvocation, pages, inTurn, atOnce });
    }
  }
  return modelled;
}

function modelTable(modelled: readonly Modelled[]): Table {
  const ratio = (value: number) => `${value.toFixed(3)}×`;
  return {
    title: 'Modelled: wall time of a page, in simulated milliseconds',
    columns: [
      'case',
      'service',
      'store',
      'pages an invocation',
      'ms a page',
      'of the slower',
      'service takes two requests at once',
      'Lambda ms a page',
      'Step Functions, $ a million pages',
    ],
    rows: modelled.map(({ label, latencies, perInvocation, pages, inTurn, atOnce }) => {
      const slower = Math.max(serviceMs(latencies), storeMs(latencies));
      return [
        label,
        digits(serviceMs(latencies)),
        digits(storeMs(latencies)),
        `${perInvocation}`,
        digits(inTurn.wallMs / pages),
        ratio(inTurn.wallMs / pages / slower),
        ratio(atOnce.wallMs / pages / slower),
        digits(inTurn.lambdaMs / pages),
        ((inTurn.transitions / pages) * 1e6 * dollarsPerTransition).toFixed(2),
      ];
    }),
  };
}

function notesOn(given: Latencies): readonly string[] {
  const { transitionMs, invokeMs, dynamoReadMs } = given;
  const loop = 2 * transitionMs + invokeMs + 2 * dynamoReadMs;
  return [
    `Modelled with ${JSON.stringify(given)}; BENCH_LOOP sets others.`,
    `With K pages an invocation a page takes at most max(service, store) + (min(service, store) + ${loop} ms) / K: the last page's ` +
      `storing has nothing beside it, and each turn of the loop takes ${loop} ms by itself. So 25 keep within 1.05 of the ` +
      `slower where min + ${loop} ms is at most 1.25 max; where both are equal, from ${digits(loop / 0.25)} ms on.`,
  ];
}
