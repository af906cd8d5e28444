/** Holds README.md and docs to what they are about: nothing is left out, every command exists, every link leads somewhere. */

import { existsSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';
import { alarmIds, runbook } from '../../lib/cdk/runbook.ts';
import { errorNames } from '../../lib/core/errors.ts';
import { exportSettingsSchema, serviceSettingsSchema } from '../../lib/core/settings/settings.ts';
import { stepRetries } from '../../lib/core/state-machine/retry-policy.ts';
import type { PublishedName } from '../../lib/core/storage/published-schemas.ts';
import { run } from '../support/command-line.ts';
import { deploy, resourcesOf } from '../support/deployment.ts';
import { blocksOf, exampleIn, headingsOf, pages, proseOf, textOf } from '../support/doc-pages.ts';
import { problemsIn } from '../support/published-schemas.ts';

const root = join(import.meta.dirname, '../..');

/** The text below a heading of `page`, up to the next of its level or a higher one. */
function sectionOf(page: string, level: number, title: string): string {
  const [, after] = textOf(page).split(new RegExp(`^${'#'.repeat(level)} ${title.replaceAll('.', '\\.')}$`, 'm'));
  if (after === undefined) throw new Error(`${page} has no section ${JSON.stringify(title)}`);
  return after.split(new RegExp(`^#{1,${level}} `, 'm'))[0] ?? '';
}

describe('the runbook', () => {
  const { page, alarms, errors } = runbook;

  it('has a section for every alarm of a deployment, which says what it means, how to look and what to do', () => {
    const ids = Object.keys(resourcesOf(deploy().template, 'AWS::CloudWatch::Alarm')).map((id) =>
      id.replace('Exportsnightly', '').replace(/[0-9A-F]{8}$/, ''),
    );
    expect(ids.sort()).toEqual([...alarmIds].sort());
    for (const id of ids) expect(sectionOf(page, 2, alarms)).toContain(`\n### ${id}\n`);
  });

  it('has a section for every error', () => {
    for (const name of errorNames) expect(sectionOf(page, 2, errors)).toContain(`\n### ${name}\n`);
  });

  it('names every error that a step is tried again after, and what a person does to an execution', () => {
    const names = stepRetries.flatMap(({ ErrorEquals }) => ErrorEquals).filter((name) => name !== 'States.ALL');
    for (const name of names) expect(sectionOf(page, 2, errors)).toMatch(new RegExp(`(^### |\`)${name}\\b`, 'm'));
    expect(textOf(page)).toContain('`ExecutionAborted`');
  });

  it('says in each of them what it means, how to look and what to do', () => {
    const chapters = [alarms, errors].map((title) => sectionOf(page, 2, title));
    const titles = chapters.flatMap((chapter) => [...chapter.matchAll(/^### (.+)$/gm)].map(([, title = '']) => title));
    expect(titles.length).toBeGreaterThan(alarmIds.length + errorNames.length);
    for (const title of titles) {
      const section = sectionOf(page, 3, title);
      for (const question of [/means/i, /look/i, /\bdo\b/i]) {
        expect([...section.matchAll(/\*\*([^*]+):\*\*/g)].map(([, words]) => words).join(), `${title}`).toMatch(
          question,
        );
      }
    }
  });
});

describe('the pages', () => {
  it('explain every setting', () => {
    const named = [...Object.keys(serviceSettingsSchema.shape), ...Object.keys(exportSettingsSchema.shape)];
    for (const setting of named) expect(textOf('docs/deployment.md')).toMatch(new RegExp(`[.\`]${setting}[.\`]`));
  });

  it('show events that are as their schemas say', () => {
    for (const name of ['completed', 'failed'] as const) {
      const { detail } = JSON.parse(exampleIn('docs/consumers.md', `${name}-event.json`)) as { detail: unknown };
      expect(problemsIn(`${name}.v1` satisfies PublishedName, detail)).toEqual([]);
    }
  });

  it('begin with one that is short', () => {
    expect(textOf('README.md').split('\n').length).toBeLessThanOrEqual(150);
  });
});

describe('the links', () => {
  const links = pages.flatMap((page) =>
    [...proseOf(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => ({ page, target })),
  );
  const inside = links.filter(({ target }) => !/^[a-z]+:/.test(target));

  it('are there, and stay in the project', () => {
    expect(inside.length).toBeGreaterThan(20);
    expect(links.filter((link) => !inside.includes(link))).toEqual([]);
  });

  it.each(inside)('of $page to $target leads somewhere', ({ page, target }) => {
    const [path = '', anchor] = target.split('#');
    const file = path === '' ? page : relative(root, join(root, dirname(page), path));
    expect(existsSync(join(root, file)), `${file} is not there`).toBe(true);
    const anchors = anchor === undefined ? [] : headingsOf(file);
    expect(anchor === undefined || anchors.includes(anchor), `${file} has only ${anchors.join(', ')}`).toBe(true);
  });
});

describe('the commands', () => {
  /** By command: the options that its help names. */
  async function optionsOfCommands(): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
    const { stdout } = await run(['--help']);
    const commands = [...stdout.matchAll(/^ {2}([a-z]+)(?= | {2}|$)/gm)].map(([, command = '']) => command);
    const helps = commands
      .filter((command) => command !== 'help')
      .map(async (command) => {
        const help = (await run([command, '--help'])).stdout.split('\nOptions:\n')[1]?.split('\n\n')[0] ?? '';
        const names = [...help.matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm)].map(([, option = '']) => option);
        return [command, new Set(names)] as const;
      });
    return new Map(await Promise.all(helps));
  }

  /** Every command line of ours in the pages: in blocks, and in what stands between backticks. */
  const lines = pages.flatMap((page) => {
    const inBlocks = blocksOf(page).flatMap(({ text }) => text.split('\n').map((line) => line.split(' #')[0] ?? ''));
    const inProse = [...proseOf(page).matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code);
    return [...inBlocks, ...inProse].flatMap((line) => {
      const [, call] = /npx report-exporter ([^|&]+)/.exec(line) ?? [];
      const [, local] = /npm start -- ([^|&`]+)/.exec(line) ?? [];
      const words = call ?? (local === undefined ? undefined : `local ${local}`);
      return words === undefined ? [] : [{ page, line: words.trim() }];
    });
  });

  it('are all of them explained, with all their options', async () => {
    const options = await optionsOfCommands();
    expect(options.size).toBeGreaterThanOrEqual(10);
    const page = 'docs/command-line.md';
    const everywhere = sectionOf(page, 2, 'The place');
    for (const [command, names] of options) {
      const section = sectionOf(page, 2, command);
      const places = ['local', 'service'].includes(command) ? section : section + everywhere;
      const named = [...places.matchAll(/`(--[a-z-]+)[ `]/g)].map(([, option]) => option);
      expect(
        [...names].filter((name) => name !== '--help' && !named.includes(name)),
        `${command}`,
      ).toEqual([]);
    }
  });

  it('that stand in the pages exist, with the options they are given', async () => {
    const options = await optionsOfCommands();
    expect(lines.length).toBeGreaterThan(30);
    for (const { page, line } of lines) {
      const [command = '', ...words] = line.split(/\s+/);
      if (command === 'COMMAND') continue;
      const known = options.get(command);
      expect(known, `${page}: ${line}`).toBeDefined();
      const given = words.filter((word) => word.startsWith('--')).map((word) => word.split('=')[0] ?? '');
      expect(
        given.filter((option) => !known?.has(option)),
        `${page}: ${line}`,
      ).toEqual([]);
    }
  });
});
