/**
 * `npm run bench`: runs the benchmarks named, or all of them, and tells the figures as tables and, with --json, as a file.
 * One after the other, and best on a machine that does nothing else: they are ratios, but spread is spread.
 */

import { writeFileSync } from 'node:fs';
import { arch, cpus, platform, release, totalmem } from 'node:os';
import { parseArgs } from 'node:util';
import { awsLoop } from './aws-loop/aws-loop.ts';
import { coldStart } from './cold-start/cold-start.ts';
import { floor } from './floor/floor.ts';
import type { Bench } from './harness/benchmark.ts';
import { tableText } from './harness/tables.ts';
import { memory } from './memory/memory.ts';
import { peers } from './peers/peers.ts';
import { peersKilled } from './peers/peers-killed.ts';
import { xmlCheck } from './xml-check/xml-check.ts';

const benches: readonly Bench[] = [floor, peers, peersKilled, awsLoop, coldStart, memory, xmlCheck];

const usage = `npm run bench -- [names] [--repetitions N] [--quick] [--json FILE]

${benches.map(({ name, title }) => `  ${name.padEnd(12)} ${title}`).join('\n')}

--repetitions N  rounds in which all contenders of a benchmark take their turn (5)
--quick          one small round, to see that all of it works; its figures mean nothing
--json FILE      every figure of every round as well, as JSON
`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    repetitions: { type: 'string', default: '5' },
    quick: { type: 'boolean', default: false },
    json: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
const repetitions = values.quick ? 1 : Number(values.repetitions);
const unknown = positionals.filter((name) => !benches.some((bench) => bench.name === name));
if (values.help || unknown.length > 0 || !(Number.isInteger(repetitions) && repetitions > 0)) {
  const wrong = unknown.length > 0 ? `There is no benchmark ${unknown.join(', ')}.\n\n` : '';
  (values.help ? process.stdout : process.stderr).write(`${wrong}${usage}`);
  process.exit(values.help ? 0 : 2);
}

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
const tty = process.stderr.isTTY === true;
const say = (line: string) => process.stderr.write(tty ? `\r\x1b[K${line}` : `${line}\n`);
for (const { name, title, run } of benches) {
  if (positionals.length > 0 && !positionals.includes(name)) continue;
  const { tables, measured, notes = [] } = await run({ repetitions, quick: values.quick, say });
  if (tty) process.stderr.write('\r\x1b[K');
  results[name] = { title, tables, notes, measured };
  process.stdout.write(`## ${title}\n\n${tables.map(tableText).join('\n')}\n`);
  for (const note of notes) process.stdout.write(`- ${note}\n`);
  process.stdout.write('\n');
}
if (values.json !== undefined) {
  writeFileSync(
    values.json,
    `${JSON.stringify({ measuredAt: new Date().toISOString(), machine, results }, null, 1)}\n`,
  );
}
