import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { faultKinds } from '../simulation/world/faults.ts';

describe('docs/simulation.md', () => {
  const page = readFileSync(new URL('../../docs/simulation.md', import.meta.url), 'utf8');

  it.each(faultKinds)('describes the fault %s', (kind) => {
    expect(page).toContain(`\`${kind}\``);
  });
});
