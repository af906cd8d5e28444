/**
 * What people and other programs do to stored pages: they delete, replace and truncate them. And what an operator does
 * about the failure that follows, as the runbook says: restore the page and start, or start with `restart`.
 */

import { isDeepStrictEqual } from 'node:util';
import {
  entriesOf,
  keyOfPage,
  exportOf,
  type Observations,
  type ObservedExport,
  pageMetadataOf,
  parentsOf,
  partitionOf,
  type StateItem,
  stateNameOf,
  stateSortKey,
} from '../invariants/observations.ts';
import type { ExecutionEvent, SimulatedExecution } from '../step-functions/step-functions.ts';
import { recordOf } from '../world/dynamodb.ts';
import type { FaultKind } from '../world/faults.ts';
import type { Rng } from '../world/rng.ts';
import { createStoredObject, type StoredObject } from '../world/s3.ts';
import { siteOf } from '../world/sdk-clients.ts';

const second = 1_000;
const minute = 60_000;

/** How long after a page was found to be damaged an operator repairs the run, at most. */
export const maxRepairDelayMs = 10 * minute;

export interface Operators {
  /** Decides whether someone will change what has just been stored at `key`. */
  onStored(key: string): void;
  /** Lets an operator act on a failed execution. */
  onEvent(event: ExecutionEvent): void;
}

/** `faultsEndAt`: no page is damaged after this moment. */
export function createOperators(observations: Observations, faultsEndAt: number): Operators {
  const { world, prefix, exports } = observations;
  const s3 = () => observations.s3();
  const restoredRuns = new Set<string>();

  const changeLater = (kind: FaultKind, key: string, act: (rng: Rng) => void) => {
    const site = `${siteOf(key)}#${s3().versions(key).length}`;
    if (!world.injectFault(kind, site)) return;
    const rng = world.rng(`${kind}/${site}`);
    // Before the page is logged, while the run continues, or later.
    const soonMs = rng.between(0, 300);
    const delayMs = rng.pick([soonMs, rng.between(300, minute), rng.between(minute, 60 * minute)]);
    const isSoon = kind === 'unlogged-page-changed';
    world.time.after(Math.min(isSoon ? soonMs : delayMs, faultsEndAt - world.time.now()), () => act(rng));
  };

  const damage = (kind: string, key: string, replacement: StoredObject | undefined) => {
    world.log('operator', () => `${kind}: ${replacement === undefined ? 'deletes' : 'changes'} ${key}`);
    s3().damage(key, replacement, world.time.now());
  };

  const folderOf = (key: string) => key.slice(0, key.lastIndexOf('/') + 1);
  const pagesIn = (folder: string) => [...s3().objects.keys()].filter((key) => key.startsWith(`${folder}page-`)).sort();

  /** Changes a page whose run is not published yet. */
  const damageUnpublished = (kind: FaultKind, key: string, change: (page: StoredObject, rng: Rng) => Change) =>
    changeLater(kind, key, (rng) => {
      const page = s3().objects.get(key);
      if (page === undefined || s3().objects.has(`${folderOf(key)}manifest.json`)) return;
      const { replacement } = change(page, rng);
      if (replacement === undefined || !isSameObject(page, replacement)) damage(kind, key, replacement);
    });

  /** Copies a page to the key that follows the last page of the run. */
  const addPage = (kind: string, key: string) => {
    const last = pagesIn(folderOf(key)).at(-1) ?? key;
    const page = Number(/(\d{6})\.[a-z]+(?:\.gz)?$/.exec(last)?.[1]) + 1;
    damage(kind, keyOfPage(last, page), s3().objects.get(key));
  };

  const isLogged = (key: string) => {
    const { exportName, run } = partsOf(prefix, key);
    return entriesOf(observations, exportName, run).some((entry) => prefix + entry.key === key);
  };

  const replace = (key: string, { body, metadata }: StoredObject, rng: Rng): StoredObject => {
    // Other bytes of the same size, with the metadata of the page, are noticed before the page is logged only if S3 has
    // their SHA-256 (docs/guarantees.md).
    const hasChecksum = !isLogged(key) || rng.chance(0.5);
    const others = pagesIn(folderOf(key)).filter((other) => other !== key);
    switch (rng.pick(['same size', 'same size', 'longer', 'other metadata', 'no metadata', 'another page'])) {
      case 'same size': {
        const changed = Buffer.from(body);
        const index = rng.integerBelow(Math.max(1, changed.length));
        if (changed.length > 0) changed[index] = (changed[index] ?? 0) ^ 1;
        return createStoredObject(changed, metadata, hasChecksum);
      }
      case 'longer':
        return createStoredObject(Buffer.concat([body, Buffer.from('\n')]), metadata, rng.chance(0.5));
      case 'other metadata': {
        const page = { ...(JSON.parse(metadata.page ?? '{}') as object), nextCursor: null };
        return createStoredObject(body, { ...metadata, page: JSON.stringify(page) }, rng.chance(0.5));
      }
      case 'no metadata':
        return createStoredObject(body, {}, rng.chance(0.5));
      default: {
        const other = others.length === 0 ? undefined : s3().objects.get(rng.pick(others));
        return other ?? createStoredObject(body, {}, false);
      }
    }
  };

  /** The name of the state whose active run has failed. */
  const stateOfFailed = ({ name }: ObservedExport, failed: SimulatedExecution) => {
    const [, failedRun = ''] = /(\d{8}T\d{6}Z-[0-9a-f]{12})/.exec(failed.cause ?? '') ?? [];
    const active = observations.runs.get(failedRun);
    const stateName = active === undefined ? name : stateNameOf(active);
    const stored = observations.dynamoDb().item(partitionOf(name), stateSortKey(stateName));
    const run = stored && recordOf<StateItem>(stored).active?.run;
    return run === undefined || run !== failedRun ? undefined : { stateName, run };
  };

  const start = ({ stepFunctions }: ObservedExport, execution: string, input: object) => {
    world.log('operator', () => `starts ${execution} with ${JSON.stringify(input)}`);
    stepFunctions.start(execution, input);
  };

  /** Too many parents were gone, or one always fails. */
  const correctParents = (observed: ObservedExport, failed: SimulatedExecution, execution: string, rng: Rng) => {
    const { stateName, run } = stateOfFailed(observed, failed) ?? {};
    if (stateName === undefined || run === undefined) return;
    if (failed.cause?.includes('when.gone') === true) {
      // A new run would have the same parents, if the start has named theirs.
      if (!stateName.includes('/parents/')) start(observed, execution, { export: stateName, restart: true });
      return;
    }
    const [, number] = /of parent (\d+) of run/.exec(failed.cause ?? '') ?? [];
    const parent = parentsOf(observations, observed, run)[Number(number) - 1];
    const isFailing = observed.scenario.missingParents?.some(
      ({ kind, parents }) => kind === 'failing' && parents.includes(parent ?? ''),
    );
    if (parent === undefined || isFailing !== true || !rng.chance(0.6)) return;
    observed.skipped.add(parent);
    start(observed, execution, { export: stateName, skipParent: [parent] });
  };

  const repair = (observed: ObservedExport, failed: SimulatedExecution, execution: string, rng: Rng) => {
    const { name } = observed;
    const { stateName, run } = stateOfFailed(observed, failed) ?? {};
    if (run === undefined) return;
    const input = { export: stateName, ...(rng.chance(0.5) || restoredRuns.has(run) ? { restart: true } : {}) };
    if (!('restart' in input)) restore(name, run);
    start(observed, execution, input);
  };

  /** Each damaged page becomes the one that was logged. One that was not logged is removed. */
  const restore = (exportName: string, run: string) => {
    restoredRuns.add(run);
    const entries = entriesOf(observations, exportName, run);
    for (const key of new Set(s3().damages.map((each) => each.key))) {
      if (partsOf(prefix, key).run !== run) continue;
      const entry = entries.find((each) => prefix + each.key === key);
      const version = s3()
        .versions(key)
        .find((object) => pageMetadataOf(object).sha256 === entry?.sha256 && object.etag === `"${entry?.revision}"`);
      world.log('operator', () => `${version === undefined ? 'removes' : 'restores'} ${key}`);
      s3().restore(key, version);
    }
  };

  return {
    onStored(key) {
      if (/\/page-[\d.-]+\.[a-z]+(\.gz)?$/.test(key)) {
        damageUnpublished('page-deleted', key, () => ({ replacement: undefined }));
        damageUnpublished('page-replaced', key, (page, rng) => ({ replacement: replace(key, page, rng) }));
        if (!observations.writer().isAlive()) {
          damageUnpublished('unlogged-page-changed', key, (page, rng) => ({ replacement: replace(key, page, rng) }));
        }
        damageUnpublished('page-added', key, (page) => {
          addPage('page-added', key);
          return { replacement: page };
        });
        damageUnpublished('page-truncated', key, (page, rng) => {
          const { body, metadata } = page;
          if (body.length === 0) return { replacement: page };
          const rest = body.subarray(0, rng.integerBelow(body.length));
          return { replacement: createStoredObject(rest, metadata, rng.chance(0.5)) };
        });
      }
      if (!key.endsWith('/manifest.json')) return;
      changeLater('published-page-changed', key, (rng) => {
        const pages = pagesIn(folderOf(key));
        const page = rng.pick(pages);
        const stored = pages.length === 0 ? undefined : s3().objects.get(page);
        if (stored === undefined) return;
        damage('published-page-changed', page, rng.chance(0.5) ? undefined : replace(page, stored, rng));
      });
    },
    onEvent({ type, execution }) {
      const isConflict = execution.error === 'PageConflictError';
      const isAboutParents = /when\.gone|of parent \d+ of run/.test(execution.cause ?? '');
      if (type !== 'ended' || !(isConflict || isAboutParents)) return;
      // An execution that is redriven may fail a second time.
      const named = `${execution.name}-repair${execution.redriveCount === 0 ? '' : `-${execution.redriveCount}`}`;
      const rng = world.rng(named);
      const name = exportOf(execution.input) ?? [...exports.keys()][0] ?? '';
      const observed = exports.get(name);
      if (observed === undefined) return;
      const act = isConflict ? repair : correctParents;
      world.time.after(rng.between(30 * second, maxRepairDelayMs), () => act(observed, execution, named, rng));
    },
  };
}

/** The last page of a run already has the metadata of a last page, and an empty body has no byte to change. */
const isSameObject = (one: StoredObject, other: StoredObject): boolean =>
  one.body.equals(other.body) && isDeepStrictEqual(one.metadata, other.metadata);

interface Change {
  /** undefined: the object is deleted. */
  readonly replacement: StoredObject | undefined;
}

/** The export and the run that a key names. */
export function partsOf(prefix: string, key: string): { readonly exportName: string; readonly run: string } {
  const [exportName = '', , folder = ''] = key.slice(prefix.length).split('/');
  return { exportName, run: folder.replace(/^run=/, '') };
}
