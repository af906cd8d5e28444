/**
 * Settings that are accepted, or refused with each problem and its path. In `problems.txt`, `# {…}` has fields of the
 * service, and `# export`, `# schedule` and `# file` those of the export, of its schedule and of the file. `# aws {}`:
 * they are those of a deployment. `* a | b` is a case, with its columns in the place of `@1` and `@2`. Each line `> …`
 * is a part of a problem; without any, there is none.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { deploymentSettings } from '../../lib/cdk/settings/read-settings.ts';
import { repetitionsOf } from '../support/service/exchanges.ts';
import { problemsOfFile } from '../support/settings-file.ts';

const [, ...blocks] = readFileSync(join(import.meta.dirname, 'problems.txt'), 'utf8').split(/^### /m);
const all = blocks.flatMap(repetitionsOf).map((block) => {
  const [title = '', ...lines] = block.trim().split('\n');
  const noted = (name: string) =>
    Object.assign(
      {},
      ...lines.filter((line) => line.startsWith(`# ${name}{`)).map((line) => JSON.parse(line.slice(name.length + 2))),
    ) as Readonly<Record<string, unknown>>;
  const schedule = noted('schedule ');
  const settings = {
    services: { a: { baseUrl: 'https://a.example', ...noted('') } },
    exports: [
      {
        name: 'reports',
        ...noted('export '),
        ...(Object.keys(schedule).length > 0 && { schedule: { expression: 'rate(1 hour)', ...schedule } }),
      },
    ],
    ...noted('file '),
  };
  const parse = lines.includes('# aws {}') ? deploymentSettings : undefined;
  const expected = lines.filter((line) => /^> ./.test(line)).map((line) => line.slice(2));
  return { title, settings, parse, expected };
});

it.each(all)('$title', ({ settings, parse, expected }) => {
  const problems = problemsOfFile(JSON.stringify(settings), parse).map((line) => line.replace(/^some\.json:1:? /, ''));
  expect(problems.map((line, index) => (line.includes(expected[index] ?? line) ? expected[index] : line))).toEqual(
    expected,
  );
  // The secret of a person who has put it into the settings.
  expect(problems.join()).not.toContain('hunter2');
});
