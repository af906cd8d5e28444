/** docs/api.md is generated from the doc comments of lib/cdk, and complete. */

import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ReportExporter } from '../../lib/cdk/report-exporter.ts';
import { type ApiItem, apiReference, readPublicApi } from '../support/docs/api-reference.ts';

const file = join(import.meta.dirname, '../../docs/api.md');
const items = readPublicApi();

describe('docs/api.md', () => {
  it('is current', async () => {
    const hint = 'differs from the doc comments in lib/cdk. Write it again: npm run docs:api';
    await expect(apiReference(items), `${file} ${hint}`).toMatchFileSnapshot(file);
  });

  it('has a description of every class, property and method', () => {
    const all = items.flatMap((item) => [
      item,
      ...item.members.map((each) => ({ ...each, name: `${item.name}.${each.name}` })),
    ]);
    expect(all.length).toBeGreaterThan(40);
    const isDescribed = ({ kind, doc }: ApiItem) => doc !== '' || kind === 'constructor';
    expect(all.filter((item) => !isDescribed(item)).map(({ name }) => name)).toEqual([]);
  });

  it('has every public method of the construct', () => {
    const [construct] = items.filter(({ name }) => name === 'ReportExporter');
    const documented = construct?.members.map(({ name }) => name) ?? [];
    for (const name of Object.getOwnPropertyNames(ReportExporter.prototype)) expect(documented).toContain(name);
  });
});
