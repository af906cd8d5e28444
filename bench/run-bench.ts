/** `npm run bench`: runs benchmarks one after the other and prints their tables. How to read them: bench/README.md */

import { arch, cpus, platform, release, totalmem } from 'node:os';
import { parseArgs } from 'node:util';
import { measureCoverage } from './coverage/coverage.ts';
import { finish } from './finish.ts';
import { floor } from './floor.ts';
import { functionOfSlices } from './function.ts';
import { type Benchmark, formatTable } from './harness/benchmark.ts';
import { latency } from './latency.ts';
import { link } from './link.ts';
import { parents } from './parents.ts';
import { slices } from './slices.ts';

const benchmarks: readonly Benchmark[] = [floor, latency, link, slices, parents, functionOfSlices, finish];

const help = `Usage: npm run bench -- [benchmark ...] [options]
       npm run bench -- coverage FOLDER [--out FOLDER]

Runs the benchmarks, all of them by default. Run them on an idle machine.

${benchmarks.map(({ name, title }) => `  ${name.padEnd(12)} ${title}`).join('\n')}

  coverage     how many streams of the Airbyte manifests FOLDER/*/manifest.yaml can be described

  --out DIR   where coverage writes a file for each stream (./coverage)
  --rounds N  rounds in which all contenders of a benchmark take turns (5)
  --quick     one small round, to see that everything works; its figures mean nothing
  --help      prints this help
`;

const { values, positionals } = parseCommandLine();
if (values.help) {
  process.stdout.write(help);
  process.exit(0);
}
if (positionals[0] === 'coverage') {
  const [, folder, ...others] = positionals;
  if (folder === undefined || others.length > 0) failUsage('coverage needs one folder of manifests.');
  for (const table of await measureCoverage(folder, values.out, (line) => process.stderr.write(`${line}\n`)))
    process.stdout.write(`${formatTable(table)}\n`);
  process.exit(0);
}
const { quick } = values;
const rounds = quick ? 1 : Number(values.rounds);
const unknown = positionals.filter((name) => !benchmarks.some((benchmark) => benchmark.name === name));
if (unknown.length > 0) failUsage(`There is no benchmark ${unknown.join(', ')}.`);
if (!Number.isInteger(rounds) || rounds < 1) failUsage('--rounds must be a positive integer.');

const machine = [`${cpus().length} cores (${cpus()[0]?.model})`, `${Math.round(totalmem() / 2 ** 30)} GiB`];
process.stdout.write(`${machine.join(', ')}, ${platform()} ${release()} ${arch()}, Node ${process.version}\n\n`);

for (const { name, title, run } of benchmarks) {
  if (positionals.length > 0 && !positionals.includes(name)) continue;
  const table = await run({ rounds, quick, reportProgress: (line) => process.stderr.write(`${line}\n`) });
  process.stdout.write(`## ${title}\n\n${formatTable(table)}\n`);
}

function parseCommandLine() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        rounds: { type: 'string', default: '5' },
        out: { type: 'string', default: 'coverage' },
        quick: { type: 'boolean', default: false },
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
