/** `npm run bench`: runs benchmarks one after the other and prints their tables. How to read them: bench/README.md */

import { writeFileSync } from 'node:fs';
import { arch, cpus, platform, release, totalmem } from 'node:os';
import { parseArgs } from 'node:util';
import { awsLoop } from './aws-loop/aws-loop.ts';
import { backfill } from './backfill/backfill.ts';
import { coldStart } from './cold-start/cold-start.ts';
import { finish } from './finish/finish.ts';
import { floor } from './floor/floor.ts';
import { footprint } from './footprint/footprint.ts';
import type { Benchmark } from './harness/benchmark.ts';
import { formatTable } from './harness/tables.ts';
import { latency } from './latency/latency.ts';
import { memory } from './memory/memory.ts';
import { peersSpeed } from './peers/peers.ts';
import { peersKilled } from './peers/peers-killed.ts';
import { start } from './start/start.ts';
import { xmlCheck } from './xml-check/xml-check.ts';

const benchmarks: readonly Benchmark[] = [
  latency,
  floor,
  peersSpeed,
  peersKilled,
  awsLoop,
  coldStart,
  memory,
  xmlCheck,
  start,
  finish,
  footprint,
  backfill,
];

const help = `Usage: npm run bench -- [benchmark ...] [options]

Runs the benchmarks, all of them by default. Run them on an idle machine.

${benchmarks.map(({ name, title }) => `  ${name.padEnd(12)} ${title}`).join('\n')}

  --repetitions N  rounds in which all contenders of a benchmark take turns (5)
  --quick          one small round, to see that everything works; its figures mean nothing
  --json FILE      also writes every figure of every round to FILE
  --help           prints this help
`;

const { values, positionals } = parseCommandLine();
if (values.help) {
  process.stdout.write(help);
  process.exit(0);
}
const repetitions = values.quick ? 1 : Number(values.repetitions);
const unknown = positionals.filter((name) => !benchmarks.some((benchmark) => benchmark.name === name));
const problems = [
  ...unknown.map((name) => `There is no benchmark ${name}.`),
  ...(Number.isInteger(repetitions) && repetitions > 0 ? [] : ['--repetitions must be a positive integer.']),
];
if (problems.length > 0) failUsage(problems.join('\n'));

const machine = {
  processor: cpus()[0]?.model ?? 'unknown',
  cores: cpus().length,
  memoryGiB: Math.round(totalmem() / 2 ** 30),
  system: `${platform()} ${release()} ${arch()}`,
  node: process.version,
};
process.stdout.write(
  `${machine.cores} cores (${machine.processor}), ${machine.memoryGiB} GiB, ${machine.system}, Node ${machine.node}\n\n`,
);

const results: Record<string, unknown> = {};
const isTerminal = process.stderr.isTTY === true;
const reportProgress = (line: string) => process.stderr.write(isTerminal ? `\r\x1b[K${line}` : `${line}\n`);
for (const { name, title, run } of benchmarks) {
  if (positionals.length > 0 && !positionals.includes(name)) continue;
  const { tables, measured, notes = [] } = await run({ repetitions, quick: values.quick, reportProgress });
  if (isTerminal) process.stderr.write('\r\x1b[K');
  results[name] = { title, tables, notes, measured };
  process.stdout.write(`## ${title}\n\n${tables.map(formatTable).join('\n')}\n`);
  for (const note of notes) process.stdout.write(`- ${note}\n`);
  process.stdout.write('\n');
}
if (values.json !== undefined) {
  writeFileSync(
    values.json,
    `${JSON.stringify({ measuredAt: new Date().toISOString(), machine, results }, null, 1)}\n`,
  );
}

function parseCommandLine() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        repetitions: { type: 'string', default: '5' },
        quick: { type: 'boolean', default: false },
        json: { type: 'string' },
        help: { type: 'boolean', default: false },
      },
    });
  } catch (error) {
    return failUsage((error as Error).message);
  }
}

function failUsage(problem: string): never {
  process.stderr.write(`Error: ${problem}\n\n${help}`);
  process.exit(2);
}
