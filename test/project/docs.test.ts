/** Keeps README.md and docs true: nothing is missing, every command exists, every link and citation resolves. */

import { execFileSync } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { describe, expect, it } from 'vitest';
import { alarmIds, runbook } from '../../lib/cdk/alarms.ts';
import { errorNames } from '../../lib/core/errors.ts';
import { stepNames, stepRetries } from '../../lib/core/state-machine/retry-policy.ts';
import {
  anchorsOf,
  blocksOf,
  exampleIn,
  linksOf,
  pages,
  proseOf,
  sectionOf,
  textOf,
} from '../support/docs/doc-pages.ts';
import { problemsIn } from '../support/docs/published-schemas.ts';
import { userVariables } from '../support/package/installation.ts';
import { runInProcess } from '../support/process/command-line.ts';

const root = join(import.meta.dirname, '../..');

describe('the runbook', () => {
  const { page, alarms, errors } = runbook;

  it('has a section for every alarm', () => {
    for (const id of alarmIds) expect(sectionOf(page, 2, alarms)).toContain(`\n### ${id}\n`);
  });

  it('has a section for every error', () => {
    for (const name of errorNames) expect(sectionOf(page, 2, errors)).toContain(`\n### ${name}\n`);
  });

  it('names every error that the state machine retries, and an execution that a person stopped', () => {
    const retriers = stepNames.flatMap((step) => stepRetries(step));
    const names = retriers.flatMap(({ ErrorEquals }) => ErrorEquals).filter((name) => name !== 'States.ALL');
    for (const name of names) expect(textOf(page)).toMatch(new RegExp(`(^### |\`)${name}\\b`, 'm'));
    expect(textOf(page)).toContain('`ExecutionAborted`');
  });
});

describe('the pages', () => {
  it('show an event and a run.json of the same run that match their schemas', () => {
    const { detail } = JSON.parse(exampleIn('docs/consumers.md', 'completed-event.json')) as {
      detail: { result: object };
    };
    const summary: unknown = JSON.parse(exampleIn('docs/consumers.md', 'run.json'));
    expect(problemsIn('completed.v1', detail)).toEqual([]);
    expect(problemsIn('run.v1', summary)).toEqual([]);
    expect(summary).toMatchObject(detail.result);
  });

  it('name only files and folders that exist', () => {
    const paths = pages.flatMap((page) =>
      [...proseOf(page).matchAll(/`((?:bench|bin|docs|functions|lib|test)(?:\/[\w.-]+)*)`/g)].map(([, path = '']) => ({
        page,
        path,
      })),
    );
    expect(paths.length).toBeGreaterThan(30);
    expect(paths.filter(({ path }) => !existsSync(join(root, path)))).toEqual([]);
  });
});

describe('the package', () => {
  const options = ['pack', '--dry-run', '--json', '--ignore-scripts'];
  const [packed] = JSON.parse(execFileSync('npm', options, { cwd: root, env: userVariables, encoding: 'utf8' })) as [
    { readonly files: readonly { readonly path: string }[] },
  ];
  const files = packed.files.map(({ path }) => path);

  /** The problem of a link in the package's file `page`. */
  function problemOf(page: string, target: string): string | undefined {
    if (target.startsWith('https://')) return undefined;
    const [path = '', anchor] = target.split('#');
    const file = path === '' ? page : posix.join(posix.dirname(page), path);
    if (!files.some((name) => name === file || name.startsWith(`${file}/`))) return `${file} is not in the package`;
    return anchor === undefined || anchorsOf(file).includes(anchor) ? undefined : `${file} has no #${anchor}`;
  }

  it('has every page', () => {
    expect(pages.filter((page) => !files.includes(page))).toEqual([]);
  });

  it('needs the Node.js that its pages name', () => {
    const { engines } = JSON.parse(textOf('package.json')) as { readonly engines: { readonly node: string } };
    const named = [...pages, 'docs/recipes/node/catch-up.ts'].flatMap((page) =>
      [...textOf(page).matchAll(/Node\.js\s+(\d+[.\d]*) (or|and)/g)].map(([, version]) => `>=${version}`),
    );
    expect(new Set(named)).toEqual(new Set([engines.node]));
  });

  it('has everything that its pages link to or show', () => {
    const links = files
      // The templates of a project, which a build has copied, link to what the project installs.
      .filter((file) => file.endsWith('.md') && !file.startsWith('dist/'))
      .flatMap((page) => linksOf(page).map((target) => ({ page, target })));
    expect(links.length).toBeGreaterThan(200);
    expect(links.flatMap(({ page, target }) => problemOf(page, target)?.concat(`: ${page}`) ?? [])).toEqual([]);
  });

  it('has what a new project refers to', () => {
    const templates = globSync('lib/operator/templates/*/*.{md,json}', { cwd: root }).map(textOf);
    const targets = [...templates.join('').matchAll(/node_modules\/report-exporter\/([\w./#-]+)/g)].map(
      ([, target = '']) => target,
    );
    expect(targets.length).toBeGreaterThan(2);
    expect(targets.flatMap((target) => problemOf('README.md', target) ?? [])).toEqual([]);
  });
});

describe('the citations in the code', () => {
  /** Source text with comment lines joined, so that a citation may wrap. */
  const sources = globSync('{lib,functions,bin,test,bench}/**/*.ts', { cwd: root }).map((file) => ({
    file,
    text: readFileSync(join(root, file), 'utf8').replaceAll(/\s*\n\s*(?:\*(?!\/)|\/\/)?\s*/g, ' '),
  }));
  const citations = sources.flatMap(({ file, text }) =>
    [...text.matchAll(/\bdocs\/[\w-]+\.md(?:#[\w-]+|, sections? \d[\d., and]*\d|, section \d|, "[^"]+")?/g)].map(
      ([citation]) => ({ file, citation }),
    ),
  );

  it('are found', () => {
    expect(citations.filter(({ citation }) => citation.startsWith('docs/service-contract.md')).length).toBeGreaterThan(
      10,
    );
    expect(citations.filter(({ citation }) => citation.startsWith('docs/architecture.md')).length).toBeGreaterThan(0);
  });

  it('name a page, and a section, an anchor or a heading that it has', () => {
    const broken = citations.filter(({ citation }) => {
      const [page = ''] = /^docs\/[\w-]+\.md/.exec(citation) ?? [];
      if (!existsSync(join(root, page))) return true;
      const rest = citation.slice(page.length);
      if (rest.startsWith('#')) return !anchorsOf(page).includes(rest.slice(1));
      const titles = [...proseOf(page).matchAll(/^#+ (.+)$/gm)].map(([, title = '']) => title);
      const [, quoted] = /^, "(.+)"$/.exec(rest) ?? [];
      if (quoted !== undefined) return !titles.includes(quoted);
      const numbers = rest.match(/\d+(\.\d+)?/g) ?? [];
      return !numbers.every((number) =>
        titles.some((title) => title.startsWith(`${number}${number.includes('.') ? '' : '.'} `)),
      );
    });
    expect(broken).toEqual([]);
  });
});

describe('the command line', () => {
  /** The options in the help of each command. */
  async function optionsByCommand(): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
    const { stdout } = await runInProcess(['--help']);
    const commands = [...stdout.matchAll(/^ {2}([a-z]+)(?= | {2}|$)/gm)].map(([, command = '']) => command);
    const helps = commands
      .filter((command) => command !== 'help')
      .map(async (command) => {
        const help = (await runInProcess([command, '--help'])).stdout.split('\nOptions:\n')[1]?.split('\n\n')[0] ?? '';
        const names = [...help.matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm)].map(([, option = '']) => option);
        return [command, new Set(names)] as const;
      });
    return new Map(await Promise.all(helps));
  }

  /** Every call of the command line in the pages, in code blocks and between backticks. */
  const examples = pages.flatMap((page) => {
    const inBlocks = blocksOf(page).flatMap(({ text }) => text.split('\n').map((line) => line.split(' #')[0] ?? ''));
    const inProse = [...proseOf(page).matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code);
    return [...inBlocks, ...inProse].flatMap((line) => {
      const [, called] = /npx --no -- report-exporter ([^|&]+)/.exec(line) ?? [];
      const [, local] = /npm start -- ([^|&`]+)/.exec(line) ?? [];
      const words = called ?? (local === undefined ? undefined : `local ${local}`);
      return words === undefined ? [] : [{ page, line: words.trim() }];
    });
  });

  it('has a section for every command: its help has the options', async () => {
    const options = await optionsByCommand();
    expect(options.size).toBeGreaterThanOrEqual(9);
    for (const command of options.keys()) expect(sectionOf('docs/command-line.md', 2, command)).not.toBe('');
  });

  it('accepts every example in the pages', async () => {
    const options = await optionsByCommand();
    expect(examples.length).toBeGreaterThan(30);
    for (const { page, line } of examples) {
      const [command = '', ...words] = line.split(/\s+/);
      if (['COMMAND', '--version', '--help'].includes(command)) continue;
      const known = options.get(command);
      expect(known, `${page}: ${line}`).toBeDefined();
      const used = words.filter((word) => word.startsWith('--')).map((word) => word.split('=')[0] ?? '');
      expect(
        used.filter((option) => !known?.has(option)),
        `${page}: ${line}`,
      ).toEqual([]);
    }
  });
});
