/** What a resumed run must have published, wherever it is stored. */

import { expect } from 'vitest';
import type { ExportState } from '../../lib/core/model.ts';
import { problemsIn } from '../support/docs/published-schemas.ts';
import { sha256Of } from '../support/builders.ts';
import type { Manifest } from '../support/export/export-bench.ts';
import type { ScriptedService } from '../support/export/scripted-service.ts';
import { reports, type Situation } from './scenario.ts';

/** `before` and `after` are the states of the export; `read` returns an object. */
export async function expectPublished(
  { export: name, next }: Situation,
  before: ExportState,
  after: ExportState,
  service: ScriptedService,
  read: (key: string) => Promise<string>,
): Promise<void> {
  const run = after.lastCompleted?.result.run;
  expect(after.active).toBeUndefined();
  expect(next.resumes).toBe(before.active !== undefined);
  if (next.resumes) expect(run).toBe(before.active?.run);
  else expect([before.lastCompleted?.result.run, before.lastAbandoned?.run]).not.toContain(run);
  expect(service.requests).toHaveLength(next.requests);

  const latest = JSON.parse(await read(`${name}/latest.json`)) as { readonly run: string; readonly manifest: string };
  expect(latest.run).toBe(run);
  const manifest = JSON.parse(await read(latest.manifest)) as Manifest & {
    readonly pages: readonly { readonly key: string; readonly sha256: string }[];
  };
  expect(problemsIn('manifest.v1', manifest)).toEqual([]);
  const expected = next.firstReport === undefined ? [] : reports.slice(next.firstReport - 1).map(({ id }) => id);
  const pages = await Promise.all(manifest.pages.map(async ({ key, sha256 }) => ({ sha256, text: await read(key) })));
  for (const { sha256, text } of pages) expect(sha256Of(text)).toBe(sha256);
  // Byte for byte: two reports a page, as the service sends them.
  const texts = Array.from({ length: Math.max(1, Math.ceil(expected.length / 2)) }, (_, index) => {
    const ids = expected.slice(index * 2, index * 2 + 2);
    return `<reports>${ids.map((id) => `<report id="${id}"/>`).join('')}</reports>`;
  });
  expect(pages.map(({ text }) => text)).toEqual(texts);
  expect(manifest.totals).toMatchObject({ pages: texts.length, reports: expected.length });
}
