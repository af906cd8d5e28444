/** Holds the README to what it is about: the sections that alarms name, and every option and setting there is. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runbookChapter, runbookSections } from '../../lib/cdk/runbook.ts';
import { errorNames } from '../../lib/core/errors.ts';
import { exportSettingsSchema, serviceSettingsSchema } from '../../lib/core/settings.ts';
import { run } from '../support/command-line.ts';

const readme = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8');

describe('the README', () => {
  it('has every section that an alarm names, in its chapter', () => {
    const chapter = readme.split(/^## /m).find((text) => text.startsWith(`${runbookChapter}\n`));
    for (const section of Object.values(runbookSections)) expect(chapter).toContain(`\n### ${section}\n`);
  });

  it('explains every error', () => {
    // A superseded execution ends quietly, so nobody has to do anything about it.
    for (const name of errorNames.filter((each) => each !== 'RunSupersededError'))
      expect(readme).toContain(`| \`${name}\` |`);
  });

  it('explains every setting', () => {
    const named = [...Object.keys(serviceSettingsSchema.shape), ...Object.keys(exportSettingsSchema.shape)];
    for (const setting of named) expect(readme).toMatch(new RegExp(`[.\`]${setting}\``));
  });

  it.each(['local', 'service'])('explains every option of %s', async (command) => {
    const { stdout } = await run([command, '--help']);
    const options = [...stdout.matchAll(/^ {2}(--[a-z-]+)/gm)].map(([, option]) => option ?? '');
    expect(options.length).toBeGreaterThan(4);
    for (const option of options) expect(readme).toContain(option);
  });
});
