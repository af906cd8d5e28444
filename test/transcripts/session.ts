/**
 * Runs a transcript: a session at a terminal, as text. A line that begins with `$` is a command, one with `#` is a
 * situation (`situations.ts`), and one with `##` is a heading. All other lines are output. They are replaced by what
 * the commands print now:
 *
 * - `2>` begins a line of stderr. `exit 1` is the exit status, unless it is 0.
 * - A JSON object is printed in several lines.
 * - Times, run IDs and amounts are the same each time. What is not has a name: `$SERVICE`, `<port>`, `<cwd>`.
 *
 * `report-exporter` runs in this process, with a clock that each wait sets forward. `requests` lists what the service
 * has received since it was last called. Other commands run in a shell.
 */

import { spawnSync } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { runProgram } from '../../bin/program.ts';
import { packageJson } from '../support/package/installation.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { openPlace, type Place } from './place.ts';
import { applySituation } from './situations.ts';

/** The transcript with the output that its commands have now. */
export async function runTranscript(transcript: string): Promise<string> {
  await using directory = await temporaryDirectory();
  await using place = openPlace();
  const before = process.cwd();
  process.chdir(directory.path);
  try {
    const lines: string[] = [];
    for (const step of stepsOf(transcript)) {
      const [first = ''] = step;
      lines.push(...step);
      if (first.startsWith('# ')) await applySituation(first.slice(2), place);
      if (!first.startsWith('$ ')) continue;
      const { output, status } = await runCommand(step.join('\n').slice(2), place);
      lines.push(...output.flatMap((chunk) => shownLines(chunk, place)));
      lines.push(...(status === 0 ? [''] : [`exit ${status}`, '']));
    }
    return `${lines.join('\n').trimEnd()}\n`;
  } finally {
    process.chdir(before);
  }
}

/** Commands, situations and headings. A command with a here-document has several lines. */
function stepsOf(transcript: string): readonly (readonly string[])[] {
  const steps: string[][] = [];
  let end: string | undefined;
  for (const line of transcript.split('\n')) {
    if (end !== undefined) steps.at(-1)?.push(line);
    else if (/^([$#]|##) /.test(line)) steps.push([line]);
    if (line === end) end = undefined;
    else if (line.startsWith('$ ')) end = /<<(\w+)$/.exec(line)?.[1];
  }
  return steps;
}

interface Chunk {
  readonly stream: 'stdout' | 'stderr';
  text: string;
}

interface Ended {
  readonly status: number;
  /** In the order in which it was written. */
  readonly output: readonly Chunk[];
}

async function runCommand(command: string, place: Place): Promise<Ended> {
  const [, name = '', value = ''] = /^export (\w+)=(.*)$/.exec(command) ?? [];
  if (name !== '') {
    place.env[name] = value;
    return { status: 0, output: [] };
  }
  if (command === 'requests') return { status: 0, output: [{ stream: 'stdout', text: place.takeRequests() }] };
  if (!command.startsWith('report-exporter')) return runInShell(command, place);
  const [first = '', ...rest] = command.split(' | ');
  const ended = await runHere(first, place);
  if (rest.length === 0) return ended;
  const piped = ended.output.filter(({ stream }) => stream === 'stdout').map(({ text }) => text);
  const filtered = runInShell(rest.join(' | '), place, piped.join(''));
  return { ...filtered, output: [...ended.output.filter(({ stream }) => stream === 'stderr'), ...filtered.output] };
}

function runInShell(command: string, { env }: Place, input = ''): Ended {
  const { status, stdout, stderr } = spawnSync('sh', ['-c', command], {
    encoding: 'utf8',
    input,
    env: { PATH: process.env.PATH, ...env },
  });
  return {
    status: status ?? 1,
    output: [
      { stream: 'stdout', text: stdout },
      { stream: 'stderr', text: stderr },
    ],
  };
}

async function runHere(command: string, place: Place): Promise<Ended> {
  const words = wordsOf(command, place);
  const output: Chunk[] = [];
  const terminal = (stream: Chunk['stream']) => ({
    columns: 120,
    write(chunk: string | Uint8Array) {
      const text = Buffer.from(chunk as string).toString();
      place.onOutput(text);
      const last = output.at(-1);
      if (last?.stream === stream) last.text += text;
      else output.push({ stream, text });
      return true;
    },
  });
  const status = await runProgram(words.slice(1), {
    env: place.env,
    stdout: terminal('stdout'),
    stderr: terminal('stderr'),
    signal: place.beginCommand(command),
    runtime: place.runtime,
    program: 'report-exporter',
  });
  return { status, output };
}

/** The words of a command, as a shell expands them. Few have something to expand, and a shell takes long to start. */
function wordsOf(command: string, { env }: Place): readonly string[] {
  if (/^[-\w ./:=,@]+$/.test(command)) return command.split(' ');
  const { stdout } = spawnSync('sh', ['-c', `printf '%s\\0' ${command}`], { encoding: 'utf8', env });
  return stdout.split('\0').slice(0, -1);
}

function shownLines({ stream, text }: Chunk, place: Place): readonly string[] {
  if (text === '') return [];
  const lines = text.replace(/\n$/, '').split('\n').flatMap(unfold);
  return lines.map((line) => `${stream === 'stderr' ? '2> ' : ''}${withNames(line, place)}`.trimEnd());
}

/** What differs from run to run, by name. */
function withNames(line: string, { service }: Place): string {
  const replacements: readonly (readonly [string | RegExp, string])[] = [
    ...(service === undefined ? [] : [[service.baseUrl, '$SERVICE'] as const]),
    [realpathSync('.'), '<cwd>'],
    [/(?<=127\.0\.0\.1:)\d+/g, '<port>'],
    // test/local/sqlite/page-log.test.ts checks that the state file has it.
    [/(?<=from its table )\w+/g, '<table>'],
    [/(?<=request ID )[-0-9a-f]+/g, '<id>'],
    [`Node.js ${process.versions.node}`, 'Node.js <version>'],
    [new RegExp(`(?<=report-exporter )${packageJson.version}`, 'g'), '<version>'],
  ];
  return replacements.reduce((text, [found, name]) => text.replaceAll(found, name), line);
}

const maxWidth = 120;

/** A JSON object in lines that a person can read. */
function unfold(line: string): readonly string[] {
  if (!line.startsWith('{') || !line.endsWith('}')) return [line];
  return jsonText(JSON.parse(line), '').split('\n');
}

function jsonText(value: unknown, indent: string): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const isList = Array.isArray(value);
  const [open, close] = isList ? ['[', ']'] : ['{ ', ' }'];
  const deeper = `${indent}  `;
  const parts = Object.entries(value).map(
    ([name, part]) => `${isList ? '' : `${JSON.stringify(name)}: `}${jsonText(part, deeper)}`,
  );
  if (parts.length === 0) return isList ? '[]' : '{}';
  const short = `${open}${parts.join(', ')}${close}`;
  if (indent.length + short.length <= maxWidth && !short.includes('\n')) return short;
  return [open.trim(), ...filledLines(parts, deeper), `${indent}${close.trim()}`].join('\n');
}

/** As many parts on a line as there is space for. */
function filledLines(parts: readonly string[], indent: string): readonly string[] {
  const lines: string[] = [];
  for (const [index, part] of parts.entries()) {
    const text = index === parts.length - 1 ? part : `${part},`;
    const longer = `${lines.at(-1)} ${text}`;
    const fits = lines.length > 0 && longer.length <= maxWidth && !longer.includes('\n');
    if (fits) lines[lines.length - 1] = longer;
    else lines.push(`${indent}${text}`);
  }
  return lines;
}
