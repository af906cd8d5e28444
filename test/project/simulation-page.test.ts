import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { invariants } from '../simulation/invariants/invariant-names.ts';
import { mutants } from '../simulation/mutants/mutants.ts';
import { faultKinds } from '../simulation/world/faults.ts';

describe('docs/simulation.md', () => {
  const page = readFileSync(new URL('../../docs/simulation.md', import.meta.url), 'utf8');

  it.each(faultKinds)('describes the fault %s', (kind) => {
    expect(page).toContain(`\`${kind}\``);
  });

  it.each(invariants)('lists the invariant "%s"', (invariant) => {
    expect(page).toContain(`\n- ${invariant}\n`);
  });

  it('states the number of mutants', () => {
    expect(page).toContain(`# ${mutants.length} ways to break the protocol`);
    expect(page).toContain(`breaks the protocol in\n${mutants.length} ways`);
  });
});
