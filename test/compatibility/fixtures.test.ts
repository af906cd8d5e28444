/** The fixtures of released versions stay as they are, and each version has some. */

import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { digests } from './digests.ts';
import { digestOf, filesOf, fixture, versions } from './fixtures.ts';

describe('the fixtures', () => {
  it('of each version are unchanged', () => {
    expect(Object.fromEntries(versions.map((version) => [version, digestOf(version)]))).toEqual(digests);
  });

  it('exist for the version of package.json: npm run fixtures writes them', () => {
    const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')) as {
      readonly version: string;
    };
    expect(versions).toContain(version.split('.', 2).join('.'));
  });

  it.each(versions)('of %s have less than 300 kB', (version) => {
    const sizes = filesOf(version).map((file) => statSync(fixture(version, file)).size);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(300_000);
  });
});
