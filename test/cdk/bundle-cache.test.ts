/** The cache of the functions' bundles in a checkout. */

import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { cachedBundles } from '../../lib/cdk/code/bundle-cache.ts';
import { byStep } from '../../lib/core/state-machine/definition.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const bundles = byStep((step) => `// ${step}`);

describe('the cache of the bundles', () => {
  it('bundles once while nothing changes', async () => {
    await using folder = await temporaryDirectory();
    const bundle = vi.fn<() => typeof bundles>(() => bundles);
    expect(cachedBundles(folder.path, bundle)).toEqual(bundles);
    expect(cachedBundles(folder.path, bundle)).toEqual(bundles);
    expect(bundle).toHaveBeenCalledTimes(1);
  });

  it('keeps only the bundles of the present sources, and replaces damaged ones', async () => {
    await using folder = await temporaryDirectory();
    writeFileSync(join(folder.path, 'earlier.json'), JSON.stringify(bundles));
    cachedBundles(folder.path, () => bundles);
    const [file = '', ...others] = readdirSync(folder.path);
    expect(file).toMatch(/^[0-9a-f]{64}\.json$/);
    expect(others).toEqual([]);
    writeFileSync(join(folder.path, file), '{');
    const bundle = vi.fn<() => typeof bundles>(() => bundles);
    expect(cachedBundles(folder.path, bundle)).toEqual(bundles);
    expect(bundle).toHaveBeenCalledTimes(1);
  });

  it('does without where it cannot write', async () => {
    await using folder = await temporaryDirectory();
    const file = join(folder.path, 'file');
    writeFileSync(file, '');
    expect(cachedBundles(join(file, 'cache'), () => bundles)).toEqual(bundles);
  });
});
