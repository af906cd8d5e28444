/**
 * The start: from the command to the first request, for the command line as its users have it: packed and unpacked, run by Node
 * and by npx. Compared with Node alone, which starts and ends; with Node and undici, the least that sends the request; and with got.
 */

import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { pack, userVariables } from '../../test/support/package/installation.ts';
import type { Benchmark, Figures, Table } from '../harness/benchmark.ts';
import { type Contender, differenceOf, figureOf, measureRounds } from '../harness/rounds.ts';
import { formatNumber, formatSpread } from '../harness/tables.ts';
import { createTemporaryFolder } from '../harness/temporary-folder.ts';
import { type FirstRequestService, startFirstRequestService } from './first-request-service.ts';

interface StartFigures extends Figures {
  /** From the start of the process to the first bytes of its first request; of Node alone, to its end. */
  readonly startMs: number;
  /** To the end of the process. */
  readonly wallMs: number;
}

const node = 'node -e 0';
const bare = 'Node and undici';

export const start: Benchmark = {
  name: 'start',
  title: 'From the command to the first request',
  async run(options) {
    const folder = await createTemporaryFolder(join(process.cwd(), '.bench-'));
    try {
      const installed = await unpackInto(folder);
      await using service = await startFirstRequestService();
      const contenders = createContenders(installed, service);
      // A start is short, so it is repeated more often than other measurements.
      const repetitions = options.quick ? 1 : 4 * options.repetitions;
      const rounds = await measureRounds(contenders, { ...options, repetitions }, 'start');
      const startMs = ({ startMs: ms }: StartFigures) => ms;
      const table: Table = {
        title: 'Time until the first request',
        columns: [
          'contender',
          'first request, ms',
          `ms more than ${bare}`,
          `ms more than ${node}`,
          'whole process, ms',
        ],
        rows: contenders.map(({ name }) => [
          name,
          formatSpread(figureOf(rounds, name, startMs)),
          formatSpread(differenceOf(rounds, name, bare, startMs)),
          formatSpread(differenceOf(rounds, name, node, startMs)),
          formatNumber(figureOf(rounds, name, ({ wallMs }) => wallMs).median),
        ]),
      };
      return {
        tables: [table],
        measured: Object.fromEntries(rounds),
        notes: [
          `Of ${node}, the first request is its end.`,
          'The first start after the installation has no compile cache.',
        ],
      };
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
};

interface Installation {
  readonly project: string;
  readonly command: string;
  /** Where the command keeps compiled modules. */
  readonly compileCache: string;
  readonly nextOutput: () => string;
}

/** Installs the package in a project of its own, in the checkout: its dependencies are found in the folders above. */
async function unpackInto(folder: string): Promise<Installation> {
  const modules = join(folder, 'node_modules');
  await mkdir(join(modules, '.bin'), { recursive: true });
  await promisify(execFile)('tar', ['-xzf', await pack(folder), '-C', modules]);
  const command = join(modules, 'package/bin/report-exporter.mjs');
  await symlink(command, join(modules, '.bin/report-exporter'));
  await writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'project', private: true }));
  let outputs = 0;
  const nextOutput = () => {
    outputs += 1;
    return join(folder, `exports-${outputs}`);
  };
  return { project: folder, command, compileCache: join(modules, 'package/node_modules/.cache'), nextOutput };
}

function createContenders(
  { project, command, compileCache, nextOutput }: Installation,
  { baseUrl, nextArrival }: FirstRequestService,
): readonly Contender<StartFigures>[] {
  const script = (file: string) => fileURLToPath(new URL(`contenders/${file}`, import.meta.url));
  const local = () => ['local', '--base-url', baseUrl, '--out', nextOutput()];
  const sending = (name: string, program: string, args: () => readonly string[]): Contender<StartFigures> => ({
    name,
    async measure() {
      const arrival = nextArrival();
      const { startedAt, endedAt } = await runToEnd(program, args(), project);
      return { startMs: milliseconds(startedAt, await arrival), wallMs: milliseconds(startedAt, endedAt) };
    },
  });
  const cached = sending('report-exporter', process.execPath, () => [command, ...local()]);
  return [
    {
      name: node,
      async measure() {
        const { startedAt, endedAt } = await runToEnd(process.execPath, ['-e', '0'], project);
        const wallMs = milliseconds(startedAt, endedAt);
        return { startMs: wallMs, wallMs };
      },
    },
    sending(bare, process.execPath, () => [script('undici.mjs'), baseUrl]),
    sending('got 14, paginate', process.execPath, () => [script('got.mjs'), baseUrl]),
    cached,
    sending('npx report-exporter', 'npx', () => ['report-exporter', ...local()]),
    {
      name: 'report-exporter, first start',
      async measure() {
        await rm(compileCache, { recursive: true, force: true });
        return await cached.measure();
      },
    },
  ];
}

async function runToEnd(program: string, args: readonly string[], cwd: string) {
  const env = { ...userVariables, REPORT_EXPORT_API_KEY: 'bench' };
  const startedAt = process.hrtime.bigint();
  const child = spawn(program, args, { cwd, env, stdio: ['ignore', 'ignore', 'pipe'] });
  const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'close')]);
  const endedAt = process.hrtime.bigint();
  if (code !== 0) throw new Error(`${program} ${args.join(' ')} ended with ${String(code)}: ${stderr.slice(-2_000)}`);
  return { startedAt, endedAt };
}

const milliseconds = (from: bigint, to: bigint): number => Number(to - from) / 1e6;
