/** Whether `next.by` identifies the reports of a page. Two passes of a run compare these IDs. */

import { hasId } from '../../core/steps/passes.ts';
import type { ExportTarget } from '../target.ts';

/** Why the IDs of page 1 do not identify its reports. Undefined: they do, or nothing compares them. */
export async function findIdProblem(
  { definition: { provedBy: paths }, service: { api } }: Pick<ExportTarget, 'definition' | 'service'>,
  body: readonly Uint8Array[],
): Promise<string | undefined> {
  if (paths === undefined) return undefined;
  // Libraries take time to load, and few exports need them.
  const { pageReaderOf } = await import('../../service/formats/values/report-reader.ts');
  const chunks = async function* () {
    yield* body;
  };
  const reports = (await pageReaderOf(api)?.read(chunks(), paths)) ?? [];
  const known = new Set<string>();
  const advice = 'so every run would fail. Name what identifies each report';
  const isWhole = paths.length === 1 && paths[0] === '';
  for (const [index, values] of reports.entries()) {
    const report = `next.by: report ${index + 1} of page 1`;
    const missing = paths[values.findIndex((value) => !hasId(value))];
    if (missing !== undefined)
      return `${report} has no text or number${missing === '' ? '' : ` at ${missing}`}, ${advice}`;
    const id = JSON.stringify(values.map((value) => value?.text));
    if (known.has(id)) return `${report} ${isWhole ? 'equals' : 'has the ID of'} an earlier one, ${advice}`;
    known.add(id);
  }
  return undefined;
}
