/**
 * Checks the root elements of pages and what is recorded of them, and which invocations must therefore know the right one. The service
 * has one for all its pages; as a fault, it sends documents with others.
 */

import { unmarshall } from '@aws-sdk/util-dynamodb';
import type { Process } from '../world/process.ts';
import {
  exportOf,
  type Observations,
  type ObservedExport,
  partitionOf,
  type Seen,
  type StateItem,
  stateNameIn,
  stateSortKey,
} from './observations.ts';

/** Of all pages in XML. */
const serviceRoot = 'reports';

/** Whether the body is one of the service's pages, as far as its root element says. */
export const isPageInXml = (body: Buffer): boolean => /^<\?xml [^>]*>\n<reports( next="[^"]*")?>/.test(body.toString());

/** For the state of an export, or of one of its windows, before it is stored. */
export function checkDocumentRoot(
  observations: Observations,
  seen: Seen,
  { name, scenario }: ObservedExport,
  state: StateItem,
  previous: StateItem | undefined,
  isOfWindow: boolean,
): void {
  const { world, writer } = observations;
  if (scenario.settings.format !== 'XML') return;
  const violate = (details: string) =>
    world.violate('the root element of completed runs is recorded', `${name}: ${details}`);
  const { documentRoot, active, lastCompleted, plan } = state;
  if (isOfWindow && documentRoot === undefined && plan?.abandonedAt === undefined) violate('not with a planned window');
  for (const root of [documentRoot, active?.documentRoot]) {
    if (root !== undefined && root !== serviceRoot) violate(root);
  }
  if (documentRoot !== undefined) learn(seen, name, world.time.now());
  const recorded = isOfWindow ? stateOf(observations, name)?.documentRoot : documentRoot;
  if (lastCompleted !== undefined && recorded === undefined) violate(`none after run ${lastCompleted.result.run}`);

  const before = previous?.active;
  if (active === undefined || before === undefined || active.cursorRestarts <= before.cursorRestarts) return;
  if (active.documentRoot !== undefined) learn(seen, active.run, world.time.now());
  else if ((seen.firstPagesAt.get(before.run) ?? Number.POSITIVE_INFINITY) < writer().startedAt) {
    violate(`run ${active.run} has started over, and does not know that of run ${before.run}`);
  }
}

function learn({ rootsKnownSince }: Seen, name: string, now: number): void {
  rootsKnownSince.set(name, rootsKnownSince.get(name) ?? now);
}

/**
 * Whether the process must know the root element of page 1: it was recorded before it began. That of a run which has started
 * over is known to its own invocations, not to the check before a backfill.
 */
export function mustKnowRoot(observations: Observations, seen: Seen, { step, payload, startedAt }: Process): boolean {
  const stateName = stateNameIn(payload.input) ?? '';
  const run = step === 'Operator' ? undefined : stateOf(observations, stateName)?.active?.run;
  const known = [exportOf(payload.input) ?? '', run ?? ''];
  return known.some((name) => (seen.rootsKnownSince.get(name) ?? Number.POSITIVE_INFINITY) < startedAt);
}

function stateOf({ dynamoDb }: Observations, stateName: string): StateItem | undefined {
  const item = dynamoDb().item(partitionOf(stateName.split('/')[0] ?? ''), stateSortKey(stateName));
  return item && (unmarshall({ ...item }) as StateItem);
}
