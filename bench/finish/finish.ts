/**
 * FinishRun for runs of many pages: it reads all log entries and lists all objects, at the same time, and writes the manifest.
 * With the deployed step and adapters; only the stores at the other end of the sockets are local.
 */

import type { Benchmark, BenchmarkOptions } from '../harness/benchmark.ts';
import { measureScript, type ProcessFigures } from '../harness/measured-process.ts';
import { type Contender, figureOf, measureRounds, type Rounds } from '../harness/rounds.ts';
import { formatNumber, formatSpread } from '../harness/tables.ts';
import { functionEnvironment } from '../aws-loop/local-aws.ts';
import { startStores, type StoreLatencies } from './stores.ts';

const allPages = [10_000, 100_000, 1_000_000];

interface Case {
  readonly label: string;
  readonly latencies: StoreLatencies;
}

const cases: readonly Case[] = [
  { label: 'none', latencies: { queryMs: 0, listMs: 0, uploadBytesPerSecond: 0 } },
  {
    label: '8 ms per Query, 40 ms per LIST, 30 MB/s',
    latencies: { queryMs: 8, listMs: 40, uploadBytesPerSecond: 30e6 },
  },
];

/** As lib/cdk/functions.ts and lib/cdk/function-limits.ts set them. */
const functionMemoryMebibytes = 1_769;
const functionTimeoutSeconds = 900;

export const finish: Benchmark = {
  name: 'finish',
  title: 'FinishRun for runs of many pages',
  async run(options) {
    const sizes = options.quick ? [2_000, 10_000] : allPages;
    const contenders = sizes.flatMap((pages) =>
      cases.map(({ label, latencies }) => ({ pages, label, contender: createContender(pages, label, latencies) })),
    );
    const rounds = await measureRounds(
      contenders.map(({ contender }) => contender),
      withFewerRounds(options),
      'finish',
    );
    const rows = contenders.map(({ pages, label, contender }) => [
      new Intl.NumberFormat('en').format(pages),
      label,
      ...figuresOf(rounds, contender.name, pages),
    ]);
    return {
      tables: [
        {
          title: 'One invocation of FinishRun',
          columns: ['pages', 'latency', 'wall, s', 'CPU, s', 'CPU µs per page', 'peak RSS, MB'],
          rows,
        },
      ],
      measured: Object.fromEntries(rounds),
      notes: [
        `The function has ${functionMemoryMebibytes} MiB, with which Lambda gives it one vCPU, and ${functionTimeoutSeconds} s.`,
        'The stores are a process that needs CPU of its own, on the other core.',
      ],
    };
  },
};

/** A run of a million pages takes minutes, and the rounds hardly differ. */
const withFewerRounds = (options: BenchmarkOptions): BenchmarkOptions => ({
  ...options,
  repetitions: Math.ceil(options.repetitions / 3),
});

function createContender(pages: number, label: string, latencies: StoreLatencies): Contender<ProcessFigures> {
  return {
    name: `${pages} pages, latency ${label}`,
    async measure() {
      await using stores = await startStores({ pages, ...latencies });
      const aws = {
        env: {
          AWS_REGION: 'us-east-1',
          AWS_ACCESS_KEY_ID: 'access-key',
          AWS_SECRET_ACCESS_KEY: 'secret-key',
          AWS_ENDPOINT_URL: stores.endpoint,
        },
        table: 'table',
      };
      const env = functionEnvironment(aws, { baseUrl: 'http://127.0.0.1' });
      const figures = await measureScript(new URL('finish-run.ts', import.meta.url), [], [], env);
      if (figures.pages !== pages) throw new Error(`FinishRun published ${figures.pages} of ${pages} pages`);
      return figures;
    },
  };
}

function figuresOf(rounds: Rounds<ProcessFigures>, name: string, pages: number): string[] {
  return [
    formatSpread(figureOf(rounds, name, ({ wallMs }) => wallMs / 1_000)),
    formatSpread(figureOf(rounds, name, ({ cpuMs }) => cpuMs / 1_000)),
    formatNumber(figureOf(rounds, name, ({ cpuMs }) => (cpuMs * 1_000) / pages).median),
    formatNumber(figureOf(rounds, name, ({ peakRssBytes }) => peakRssBytes / 1e6).median),
  ];
}
