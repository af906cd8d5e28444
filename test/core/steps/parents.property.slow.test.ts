/**
 * Random histories of an export and of the export of its parents: the list changes between and during runs, parents are
 * gone and come back, processes are killed at any effect, runs are restarted, and settings are deployed in between. An
 * oracle that shares no code with the product knows which children each run must have. Each mutant breaks a rule.
 */

import { Readable } from 'node:stream';
import { describe, expect } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import type { ExportedParents, ExportState, LogEntry } from '../../../lib/core/model.ts';
import type { PageRequest, ReceivedEnd, StepDependencies } from '../../../lib/core/ports.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';
import { reportReaderOf } from '../../../lib/service/formats/values/report-reader.ts';
import { aFetchedPage, collect, type FetchedPage } from '../../support/builders.ts';
import { anExportBench, type Bench } from '../../support/export/export-bench.ts';
import { cursorAt, positionOf } from '../../support/export/scripted-service.ts';
import { cases, fc, it } from '../../support/property.ts';

const minute = 60_000;
const initialMs = Date.UTC(2026, 10, 20);
const names = ['a', 'b', 'c', 'd'];
const pageSize = 2;

interface Child {
  readonly id: string;
  readonly parent: string;
  readonly date: number;
}

type Action =
  | { readonly kind: 'child' | 'list' | 'gone'; readonly parent: string }
  | { readonly kind: 'publish' }
  /** Starts the children. `killedAt`: the effect at which its process ends. */
  | {
      readonly kind: 'start';
      readonly killedAt: number;
      readonly restart: boolean;
      readonly since?: number | undefined;
    }
  | { readonly kind: 'deploy'; readonly parallel: number };

const parent = fc.constantFrom(...names);
const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constantFrom('child', 'child', 'list', 'gone'), parent }) },
  { weight: 5, arbitrary: fc.constant({ kind: 'publish' } as const) },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('start' as const),
      killedAt: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 40 })),
      restart: fc.oneof({ weight: 5, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
      since: fc.oneof(
        { weight: 5, arbitrary: fc.constant(undefined) },
        { weight: 1, arbitrary: fc.integer({ min: 115, max: 150 }) },
      ),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('deploy' as const), parallel: fc.integer({ min: 1, max: 3 }) }),
  },
);

const parents: ExportedParents = {
  export: 'repos',
  id: '/@id',
  also: {},
  where: [],
  inHeaders: [],
  hasCoverage: true,
  listsChanges: false,
};
const since = { from: 'watermark', initial: instantOf(initialMs), overlapMs: 0 } as const;
const issues = { name: 'issues', stateName: 'issues', since, parents };
const reportsXml = (ids: readonly string[]) => `<reports>${ids.map((id) => `<report id="${id}"/>`).join('')}</reports>`;

/** Breaks a rule in the dependencies of the export with the parents. Created once for each history. */
type Break = (deps: StepDependencies) => Partial<StepDependencies>;
type Mutant = () => Break;

/** What the oracle knows. */
function createWorld(mutant: Mutant = () => () => ({})) {
  const broken = mutant();
  const children: Child[] = [];
  const listed = new Set(['a', 'b']);
  const gone = new Set<string>();
  /** The parents in each run of `repos`. */
  const plans = new Map<string, readonly string[]>();
  /** The children in completed runs. */
  const exported = new Set<string>();
  const seen = new Set<string>();
  let newest: string | undefined;
  /** The newest run of `repos` at each start of a run of `issues`. */
  const newestAt = new Map<string, Set<string | undefined>>();
  const violations: string[] = [];
  let left = Number.POSITIVE_INFINITY;
  let isSinceNamed = false;
  const crash = () => {
    left -= 1;
    if (left === 0) throw new ExportError('ConfigurationError', 'killed');
  };
  const repos: Bench = anExportBench({
    crash,
    limits: { pagesPerInvocation: 2 },
    definition: { name: 'repos', stateName: 'repos' },
    script({ cursor }) {
      const start = positionOf(cursor);
      const ids = [...listed];
      const page = ids.slice(start, start + pageSize);
      const nextCursor = start + pageSize < ids.length ? cursorAt(start + pageSize) : null;
      return aFetchedPage({ body: reportsXml(page), reports: page.length, nextCursor });
    },
  });
  const now = () => repos.deps.runtime.now();
  function respond({ parent: of = '', since: from, cursor }: PageRequest): FetchedPage | ReceivedEnd {
    if (gone.has(of) && cursor === null) return { kind: 'end', reason: 'gone', status: 404 };
    const start = positionOf(cursor);
    const missed = children.find(
      ({ parent: own, date, id }) => own === of && date >= initialMs && date < Date.parse(from) && !exported.has(id),
    );
    if (missed !== undefined && !isSinceNamed) violations.push(`gap: ${missed.id} is before ${from}`);
    const all = children.filter(({ parent: own, date }) => own === of && date >= Date.parse(from));
    const page = all.slice(start, start + pageSize);
    const nextCursor = start + pageSize < all.length ? cursorAt(start + pageSize) : null;
    const body = reportsXml(page.map(({ id }) => id));
    return aFetchedPage({ body, reports: page.length, nextCursor, serviceTime: null });
  }
  let parallel = 1;
  const issuesBench = (): Bench => {
    const bench = repos.with({
      script: respond,
      limits: { pagesPerInvocation: 2, goneAtMostPercent: 100 },
      definition: { ...issues, slicing: { parallel } },
    });
    Object.assign(bench.deps, { reportReader: reportReaderOf({ parentPage: { format: 'xml' } }) });
    Object.assign(bench.deps, broken({ ...bench.deps }));
    return bench;
  };

  /** Checks a manifest of `issues` that is new: each parent of the plan, and no child twice. */
  function checkPublished(bench: Bench): void {
    for (const key of [...bench.store.objects.keys()].filter((each) => /^issues\/.*manifest\.json$/.test(each))) {
      if (seen.has(key)) continue;
      seen.add(key);
      const {
        run,
        pages,
        parents: head,
      } = bench.manifest(key) as unknown as {
        readonly run: string;
        readonly pages: readonly { readonly key: string; readonly parent: string }[];
        readonly parents: { readonly run: string; readonly count: number; readonly gone: number };
      };
      const plan = plans.get(head.run) ?? [];
      if (newestAt.get(run)?.has(head.run) !== true) violations.push(`${key} has the plan of ${head.run}`);
      const ids = pages.flatMap(({ key: page, parent: of }) =>
        [...(bench.store.objects.get(page) ?? '').matchAll(/id="([^"]+)"/g)].map(([, id = '']) => ({ id, of })),
      );
      const walked = new Set(pages.map(({ parent: of }) => of));
      const isWhole = walked.size + head.gone === plan.length && head.count === plan.length;
      if (!isWhole || [...walked].some((each) => !plan.includes(each)))
        violations.push(`${key} has not the parents of ${head.run}`);
      if (new Set(ids.map(({ id }) => id)).size < ids.length) violations.push(`${key} has a child twice`);
      if (ids.some(({ id, of }) => !id.startsWith(of))) violations.push(`${key} has a child of another parent`);
      for (const { id } of ids) exported.add(id);
    }
  }

  async function start({
    killedAt,
    restart,
    since: named,
  }: Extract<Action, { readonly kind: 'start' }>): Promise<void> {
    const bench = issuesBench();
    const hasRun = (await bench.log.exportState('issues'))?.active !== undefined;
    // A run keeps what its start has named.
    if (!hasRun || restart) isSinceNamed = named !== undefined;
    const from = named !== undefined && (!hasRun || restart) ? { since: instantOf(initialMs + named * minute) } : {};
    left = killedAt === 0 ? Number.POSITIVE_INFINITY : killedAt;
    await bench.start({ ...from, ...(restart && { restart }) });
    left = Number.POSITIVE_INFINITY;
    const { active, lastCompleted } = (await bench.log.exportState('issues')) ?? {};
    const run = active?.run ?? lastCompleted?.result.run ?? '';
    newestAt.set(run, new Set([...(newestAt.get(run) ?? []), newest]));
    checkPublished(bench);
  }

  return {
    violations,
    async perform(each: Action): Promise<void> {
      repos.advance(minute);
      switch (each.kind) {
        case 'child':
          children.push({ id: `${each.parent}${children.length}`, parent: each.parent, date: now() });
          return;
        case 'list':
          if (!listed.delete(each.parent)) listed.add(each.parent);
          return;
        case 'gone':
          if (!gone.delete(each.parent)) gone.add(each.parent);
          return;
        case 'deploy':
          ({ parallel } = each);
          return;
        case 'publish': {
          const end = await repos.start();
          if (end.status !== 'completed') return;
          plans.set(end.result.run, [...listed]);
          newest = end.result.run;
          return;
        }
        case 'start':
          await start(each);
      }
    },
  };
}

async function violationsOf(actions: readonly Action[], mutant?: Mutant): Promise<readonly string[]> {
  const world = createWorld(mutant);
  const last: Action = { kind: 'start', killedAt: 0, restart: false };
  for (const each of [{ kind: 'publish' } as const, ...actions, last, last, { kind: 'publish' } as const, last]) {
    await world.perform(each);
    if (world.violations.length > 0) break;
  }
  return world.violations;
}

const histories = fc.array(action, { minLength: 6, maxLength: 24 });

/** The list changes after a run was killed at each of its effects. */
const killedBetween = Array.from({ length: 30 }, (_, effect): readonly Action[] => [
  { kind: 'publish' },
  { kind: 'start', killedAt: effect + 1, restart: false },
  { kind: 'list', parent: 'a' },
  { kind: 'publish' },
]);

const onState =
  (change: (state: ExportState) => ExportState): Mutant =>
  () =>
  ({ log }) => ({
    log: Object.assign(Object.create(log) as typeof log, {
      replaceState: async (state: ExportState) => await log.replaceState(change(state)),
    }),
  });

/** Each breaks one rule of the plan or of the coverage. */
const mutants: Readonly<Record<string, Mutant>> = {
  'a parent that is new, or comes back, begins at the watermark':
    () =>
    ({ service, log }) => ({
      service: {
        async fetch(request, options) {
          const { watermark } = (await log.exportState('issues')) ?? {};
          const from = watermark !== undefined && watermark.instant > request.since ? watermark.instant : request.since;
          return await service.fetch({ ...request, since: from }, options);
        },
      },
    }),
  'gone counts as walked':
    () =>
    ({ log }) => ({
      log: Object.assign(Object.create(log) as typeof log, {
        append: async (entry: LogEntry) =>
          await log.append(entry.kind === 'end' && entry.reason === 'gone' ? { ...entry, reason: 'empty' } : entry),
      }),
    }),
  'a since that a start names moves the coverage': onState((state) => {
    const { active } = state;
    if (active?.parents?.coverage === undefined || active.completion !== undefined) return state;
    const { initial: _, ...coverage } = active.parents.coverage;
    const changed = coverage.isSinceNamed ? { ...coverage, overlapMs: -1e9 } : active.parents.coverage;
    return { ...state, active: { ...active, parents: { ...active.parents, coverage: changed } } };
  }),
  'each start makes another plan': onState((state) => {
    const { active } = state;
    if (active?.parents === undefined || active.executionNumber < 2 || active.parents.absent?.length === 0)
      return state;
    const { parts: _, ...parentsOfRun } = active.parents;
    return active.completion === undefined && active.slices !== undefined
      ? { ...state, active: { ...active, parents: parentsOfRun } }
      : state;
  }),
  'the plan is that of an earlier run than the newest': () => {
    let first: Buffer | undefined;
    return ({ store }) => ({
      store: {
        ...store,
        async read(key: string) {
          const chunks = await store.read(key);
          if (key !== 'repos/latest.json' || chunks === undefined) return chunks;
          first ??= Buffer.concat(await collect(chunks));
          return Readable.from([first]);
        },
      },
    });
  },
};

describe('the children of the reports of another export', () => {
  it.prop([histories], { numRuns: cases(300) })('are published whole, and none is missed', async (actions) => {
    expect(await violationsOf(actions)).toEqual([]);
  });

  it.each(Object.entries(mutants))('are not if %s', async (_name, mutant) => {
    const sample = fc.sample(histories, { numRuns: 400, seed: 7 });
    for (const actions of [...killedBetween, ...sample]) if ((await violationsOf(actions, mutant)).length > 0) return;
    expect.fail('no history shows it');
  });
});
