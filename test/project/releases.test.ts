/** Keeps a release possible: one version, a changelog with a section for it, and the notes of the workflow. */

import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { releaseNotes } from '../../bin/release-notes.ts';
import { root, runNode } from '../support/package/installation.ts';

const textOf = (file: string) => readFileSync(join(root, file), 'utf8');
const { version } = JSON.parse(textOf('package.json')) as { readonly version: string };
const versionPattern = /^(\d+)\.(\d+)\.(\d+)$/;
const sortKey = (name: string) => name.replaceAll(/\d+/g, (number) => number.padStart(6, '0'));

/** The headings of CHANGELOG.md. */
const headings = [...textOf('CHANGELOG.md').matchAll(/^## (.*)$/gm)].map(([, heading = '']) => heading);
const releases = headings.slice(1).map((heading) => {
  const [, name = '', date = ''] = /^(\S+) - (\d{4}-\d\d-\d\d)$/.exec(heading) ?? [];
  return { name, date };
});

describe('the version', () => {
  it('of the lock file is that of package.json', () => {
    const lock = JSON.parse(textOf('package-lock.json')) as {
      readonly version: string;
      readonly packages: Readonly<Record<string, { readonly version?: string }>>;
    };
    expect([lock.version, lock.packages['']?.version]).toEqual([version, version]);
  });

  it('is that of the newest release, or, between releases, that of a later one with the suffix -dev', () => {
    const released = releases[0]?.name ?? '';
    if (version === released) return;
    expect(version).toMatch(/^\d+\.\d+\.\d+-dev$/);
    expect([version, released].toSorted((a, b) => sortKey(a).localeCompare(sortKey(b)))).toEqual([released, version]);
  });
});

describe('package.json', () => {
  it('allows publishing, to everybody and with provenance', () => {
    // The rehearsal in `npm run check:package` accepts a private package.
    const { publishConfig, ...fields } = JSON.parse(textOf('package.json')) as Readonly<Record<string, unknown>>;
    expect(fields).not.toHaveProperty('private');
    expect(publishConfig).toEqual({ access: 'public', provenance: true });
  });
});

describe('CHANGELOG.md', () => {
  it('begins with what is unreleased, followed by releases with their dates', () => {
    expect(headings[0]).toBe('Unreleased');
    for (const { name, date } of releases) {
      expect(name).toMatch(versionPattern);
      expect(new Date(date).toISOString().slice(0, 10)).toBe(date);
    }
  });
});

describe('the release notes', () => {
  const changelog =
    '# Changelog\n\n## Unreleased\n\n- next\n\n## 1.10.0 - 2026-02-01\n\n- ten\n\n### Fixed\n\n- bug\n\n## 1.1.0 - 2026-01-01\n';

  it('are the section of the version that the tag names', () => {
    expect(releaseNotes('v1.10.0', '1.10.0', changelog)).toBe('- ten\n\n### Fixed\n\n- bug');
  });

  it.each([
    ['the tag is not the version of package.json', 'v1.10.1', '1.10.0', 'Tag v1.10.0 instead'],
    [
      'the version is that of a build between releases',
      'v1.11.0-dev',
      '1.11.0-dev',
      'has 1.11.0-dev, the version of builds',
    ],
    ['there is no tag', '', '1.10.0', 'Tag v1.10.0 instead'],
    ['the version has no section', 'v1.11.0', '1.11.0', 'CHANGELOG.md has no notes for 1.11.0'],
    ['the section is empty', 'v1.1.0', '1.1.0', 'CHANGELOG.md has no notes for 1.1.0'],
  ])('are refused if %s', (_, tag, packageVersion, message) => {
    expect(() => releaseNotes(tag, packageVersion, changelog)).toThrow(message);
  });

  it('of the newest release exist', () => {
    // None, before the first one.
    for (const { name } of releases.slice(0, 1)) {
      expect(releaseNotes(`v${name}`, name, textOf('CHANGELOG.md'))).not.toBe('');
    }
  });

  it('are printed, or the reason why there are none', async () => {
    const [notes, refusal] = await Promise.all(
      [`v${version}`, 'v0.0.0'].map((tag) => runNode(root, ['bin/release-notes.ts', tag])),
    );
    expect(notes?.status).toBe(notes?.stdout === '' ? 1 : 0);
    expect(refusal).toMatchObject({ status: 1, stdout: '', stderr: expect.stringMatching(/^Error: [^\n]+\n$/) });
  });
});

describe('the workflows', () => {
  const workflows = globSync('.github/workflows/*.yml', { cwd: root });

  it('pin every action of others to a commit, and say which version that is', () => {
    const uses = workflows.flatMap((file) =>
      [...textOf(file).matchAll(/\buses: (.*)$/gm)].map(([, action = '']) => action),
    );
    const foreign = uses.filter((action) => !action.startsWith('./'));
    expect(foreign.length).toBeGreaterThan(5);
    for (const action of foreign) expect(action).toMatch(/^[\w-]+\/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });

  it('run every tier of .ci/run', () => {
    const [, tiers = ''] = /^tiers=\((.*)\)$/m.exec(textOf('.ci/run')) ?? [];
    expect(tiers.split(' ').length).toBeGreaterThan(5);
    const [, matrix = ''] = /^ +tier: \[(.*)\]$/m.exec(textOf('.github/workflows/ci.yml')) ?? [];
    expect(matrix.split(', ')).toEqual(tiers.split(' '));
  });
});
