/**
 * Checks the root elements of pages and what is recorded of them, and which invocations must therefore know the right
 * one. The service has one for all its pages; as a fault, it sends documents with others.
 */

import { isDeepStrictEqual } from 'node:util';
import { recordOf } from '../world/dynamodb.ts';
import type { Process } from '../world/process.ts';
import type { SimulatedService } from '../world/report-service.ts';
import {
  entriesOf,
  exportOf,
  type Observations,
  type ObservedExport,
  partitionOf,
  type Seen,
  type StateItem,
  stateNameIn,
  stateSortKey,
} from './observations.ts';

/** The root element of all pages in XML. */
const serviceRoot = 'reports';

/** Whether the body is one of the service's pages, as far as its root element says. */
export const isPageInXml = (body: Buffer): boolean => /^<\?xml [^>]*>\n<reports( next="[^"]*")?>/.test(body.toString());

/** For the state of an export, or of one of its bounded runs, before it is stored. */
export function checkDocumentRoot(
  observations: Observations,
  seen: Seen,
  { name, scenario }: ObservedExport,
  state: StateItem,
  previous: StateItem | undefined,
  isOfBoundedRun: boolean,
): void {
  const { world, writer } = observations;
  if (scenario.settings.format !== 'XML') return;
  const violate = (details: string) =>
    world.violate('the root element of completed runs is recorded', `${name}: ${details}`);
  const { documentRoot, active, lastCompleted } = state;
  for (const root of [documentRoot, active?.documentRoot]) {
    if (root !== undefined && root !== serviceRoot) violate(root);
  }
  // The findings of a bounded run apply only to its own bounds.
  if (documentRoot !== undefined && !isOfBoundedRun) learn(seen, name, world.time.now());
  // A run whose parents are all skipped has no page.
  const hasPages = lastCompleted !== undefined && entriesOf(observations, name, lastCompleted.result.run).length > 0;
  if (hasPages && documentRoot === undefined) violate(`none after run ${lastCompleted.result.run}`);

  const before = previous?.active;
  const hasStartedOver = writer().step === 'ExportPage' && !isDeepStrictEqual(active?.attempts, before?.attempts);
  if (active === undefined || !hasStartedOver) return;
  if (active.documentRoot !== undefined) learn(seen, active.run, world.time.now());
  else if ((seen.firstPagesAt.get(active.run) ?? Number.POSITIVE_INFINITY) < writer().startedAt) {
    violate(`run ${active.run} has started over, and does not know that of its pages`);
  }
}

function learn({ rootsKnownSince }: Seen, name: string, now: number): void {
  rootsKnownSince.set(name, rootsKnownSince.get(name) ?? now);
}

/**
 * Whether the process must know the root element of a first page: it was recorded before the process began, or the
 * process has had a response to a proof, or another slice has a page.
 */
export function mustKnowRoot(
  observations: Observations,
  seen: Seen,
  { id, payload, startedAt }: Process,
  service: Pick<SimulatedService, 'proofs'>,
): boolean {
  const exportName = exportOf(payload.input) ?? '';
  const active = stateOf(observations, stateNameIn(payload.input) ?? '')?.active;
  const isBefore = (at = Number.POSITIVE_INFINITY) => at < startedAt;
  if ([exportName, active?.run ?? ''].some((name) => isBefore(seen.rootsKnownSince.get(name)))) return true;
  if (active?.slices === undefined && active?.bounded === undefined) return false;
  if (service.proofs(id).some(({ page }) => page !== undefined)) return true;
  const hasPage = active.slices !== undefined && isBefore(seen.firstPagesAt.get(active.run));
  return hasPage && entriesOf(observations, exportName, active.run).length > 0;
}

function stateOf({ dynamoDb }: Observations, stateName: string): StateItem | undefined {
  const item = dynamoDb().item(partitionOf(stateName.split('/')[0] ?? ''), stateSortKey(stateName));
  return item && recordOf<StateItem>(item);
}
