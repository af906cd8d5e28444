/** Runs whose parents are the reports of another export: the plan, and what it does to the run. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import type { ExportDefinition, ExportedParents, LoopState, Run } from '../../../lib/core/model.ts';
import { findParents } from '../../../lib/core/parents/plan.ts';
import { parentsPerPart } from '../../../lib/core/parents/plan-parts.ts';
import { parentsOfRun } from '../../../lib/core/parents/run-parents.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { openPublishedRun } from '../../../lib/core/storage/published-runs.ts';
import { runExecution } from '../../../lib/local/execution.ts';
import { planRun } from '../../../lib/operator/plan-run.ts';
import { statusLines } from '../../../lib/operator/output/status-table.ts';
import { readExport } from '../../../lib/operator/run-view.ts';
import { verifyRun } from '../../../lib/operator/verify-run.ts';
import { reportReaderOf } from '../../../lib/service/formats/values/report-reader.ts';
import { aFetchedPage, anExportRequest, collect } from '../../support/builders.ts';
import {
  anExportBench,
  asExportTarget,
  begin,
  type Bench,
  type BenchOptions,
  completed,
  failed,
  manifestsIn,
} from '../../support/export/export-bench.ts';
import { cursorAt, type Script } from '../../support/export/scripted-service.ts';

/** The elements of a page of the export `repos`. */
type Repos = readonly string[];
const repo = (id: string, more = 'owner="o"'): string => `<report id="${id}" ${more}/>`;
const repos = (...ids: readonly string[]): Repos => ids.map((id) => repo(id));

const defaults: ExportedParents = {
  export: 'repos',
  id: '/@id',
  also: {},
  where: [],
  inHeaders: [],
  hasCoverage: false,
  listsChanges: false,
};
const reportReader = reportReaderOf({ listed: { page: { format: 'xml' } } });

/** One page for each parent with a report of its ID. */
const issues: Script = ({ parent = '' }) =>
  aFetchedPage({ body: `<reports><report id="${parent}"/></reports>`, reports: 1, nextCursor: null });

interface Exports {
  readonly repos: Bench;
  readonly issues: Bench;
  /** Publishes a run of `repos` with these pages. */
  readonly publish: (...pages: readonly Repos[]) => Promise<string>;
  /** The export `issues` with other parents or another script, on the same store. */
  readonly withIssues: (options: BenchOptions & { readonly parents?: Partial<ExportedParents> }) => Bench;
}

function someExports(options: BenchOptions & { readonly parents?: Partial<ExportedParents> } = {}): Exports {
  let pages: readonly Repos[] = [];
  const script: Script = ({ cursor }, _nth) => {
    const index = cursor === null ? 0 : Number(cursor.split('-').at(-1) ?? 0) || pages.length - 1;
    const listed = pages[index] ?? [];
    const body = `<reports>${listed.join('')}</reports>`;
    return aFetchedPage({
      body,
      reports: listed.length,
      nextCursor: index + 1 < pages.length ? cursorAt(index + 1) : null,
    });
  };
  const reposBench = anExportBench({ ...options, script, definition: { name: 'repos', stateName: 'repos' } });
  const withIssues: Exports['withIssues'] = ({ parents, definition, ...others }) => {
    const own: Partial<ExportDefinition> = {
      name: 'issues',
      stateName: 'issues',
      slicing: { parallel: 2 },
      ...definition,
    };
    const bench = reposBench.with({
      script: issues,
      ...others,
      definition: { ...own, parents: { ...defaults, ...parents } },
    });
    Object.assign(bench.deps, { reportReader });
    return bench;
  };
  return {
    repos: reposBench,
    issues: withIssues(options),
    async publish(...listed) {
      pages = listed;
      return completed(await reposBench.start()).run;
    },
    withIssues,
  };
}

const idsIn = (bench: Bench, manifest: string | null): readonly string[] =>
  bench.manifest(manifest).pages.map((page) => (page as { parent?: string }).parent ?? '');
const partsIn = ({ store }: Bench): readonly string[] =>
  [...store.objects.keys()].filter((key) => key.startsWith('issues/_plans/'));

describe('a run whose parents are the reports of another export', () => {
  it('exports the children of each report in the newest published run, in its order', async () => {
    const { issues: bench, publish } = someExports();
    await publish(repos('old'));
    const run = await publish(repos('a', 'b'), repos('c/d'));
    const result = completed(await bench.start());
    expect(idsIn(bench, result.manifest)).toEqual(['a', 'b', 'c/d']);
    expect(bench.manifest(result.manifest).parents).toMatchObject({ export: 'repos', run, count: 3, gone: 0 });
    const { findingCount } = await verifyRun(
      { store: bench.store, log: bench.log, onPage: () => {} },
      await openPublishedRun(bench.store, 'issues', result.run),
    );
    expect(findingCount).toBe(0);
  });

  it('requests a parent once for each ID and further values, of the reports that are selected', async () => {
    const { issues: bench, publish } = someExports({
      parents: { also: { owner: '/@owner' }, where: [{ at: '/@archived', not: ['true'] }] },
    });
    const archived = repo('c', 'owner="o" archived="true"');
    await publish([repo('a'), repo('b'), archived, repo('a'), repo('a', 'owner="p" archived="false"')]);
    completed(await bench.start());
    expect(bench.service.requests.map(({ parent, parentAlso }) => [parent, parentAlso?.owner])).toEqual([
      ['a', 'o'],
      ['b', 'o'],
      ['a', 'p'],
    ]);
  });

  it.each([
    [{}, [repo('')], 'The value at /@id of report 1 of ', 'must not be empty'],
    [{}, [repo('a'), repo('..')], 'report 2 of ', 'must not be . or ..'],
    [{}, [repo('a'.repeat(1_000)), repo('a'.repeat(1_001))], 'report 2 of ', 'must have at most 1,000 characters'],
    [{ inHeaders: ['parent'] }, [repo('ä')], 'report 1', 'must be printable ASCII'],
    [
      { also: { owner: '/@owner' }, inHeaders: ['parent.owner'] },
      [repo('é'), repo('b', 'owner="ä"')],
      'report 2',
      'which is {parent.owner}, must be printable ASCII',
    ],
    [
      { id: '/@key', where: [{ at: '/@id', is: ['c'] }] },
      [repo('a'), repo('b')],
      'None of 2 reports has anything at /@key',
      'Correct parents',
    ],
    [{ id: '/@key' }, [repo('a'), repo('b')], 'The value at /@key of report 1 of ', 'Correct parents'],
    [{ where: [{ at: '/@archived', not: ['x'] }] }, [repo('a')], 'None of 1 reports has anything at /@archived', ''],
    [{ also: { owner: '/@owner' } }, [repo('a'), repo('b', '')], '{parent.owner}', 'must be a text or a number'],
  ] satisfies [Partial<ExportedParents>, Repos, string, string][])(
    'is refused before the first request if a parent is none: %s',
    async (parents, listed, what, why) => {
      const { issues: bench, publish } = someExports({ parents });
      await publish(listed);
      const { error, message } = failed(await bench.start());
      expect(error).toBe('ContractError');
      expect(message).toContain(what);
      expect(message).toContain(why);
      expect(message).not.toContain('ä');
      expect(bench.service.requests).toEqual([]);
    },
  );

  it.each([
    ['100,000 parents', 100_000, (index: number) => `${index}`],
    // Each parent has 2,048 bytes.
    ['32 MiB of parents', 16_384, (index: number) => '€'.repeat(520) + `${index}`.padEnd(469)],
  ])('has a plan of at most %s', async (limit, most, idOf) => {
    async function* reports(count: number) {
      for (let index = 0; index < count; index += 1) {
        yield { values: [{ type: 'string', text: idOf(index) } as const], place: 'a report' };
      }
    }
    expect(await collect(findParents(defaults, reports(most)))).toHaveLength(most);
    await expect(collect(findParents(defaults, reports(most + 1)))).rejects.toThrow(
      `Export repos has more than ${limit}`,
    );
  });

  it('reads its parents from at most 200,000 pages', async () => {
    const { repos: parents, issues: bench, publish } = someExports();
    await publish(repos('a'));
    const [key = ''] = manifestsIn(parents);
    const manifest = parents.store.objects.get(key) ?? '';
    const startWith = async (pages: number) => {
      parents.store.objects.set(key, manifest.replace('"pages": 1', `"pages": ${pages}`));
      return await bench.start();
    };
    completed(await startWith(200_000));
    const { message } = failed(await startWith(200_001));
    expect(message).toMatch(/^Export repos has more than 200,000 pages/);
  });

  it.each([true, false])('is empty if there are no parents: published %s', async (publishEmptyRuns) => {
    const { issues: bench, publish } = someExports({ definition: { publishEmptyRuns } });
    const run = await publish([]);
    const result = completed(await bench.start());
    expect(result).toMatchObject({ pages: 0, reports: 0 });
    expect(result.manifest === null).toBe(!publishEmptyRuns);
    if (!publishEmptyRuns) return;
    expect(bench.manifest(result.manifest).parents).toMatchObject({ run, count: 0 });
    const published = await openPublishedRun(bench.store, 'issues', result.run);
    expect(published.header.totals.pages).toBe(0);
    const verified = await verifyRun({ store: bench.store, log: bench.log, onPage: () => {} }, published);
    expect(verified).toMatchObject({ findings: [], notes: [] });
  });

  it('says with its plan how many parents it has', async () => {
    const { issues: bench, publish } = someExports({ parents: { where: [{ at: '/@owner', is: ['p'] }] } });
    const parentRun = await publish(repos('a', 'b'));
    const { run } = completed(await bench.start());
    const plan = { export: 'issues', run, parentExport: 'repos', parentRun };
    const plans = () => bench.events.filter(({ event }) => event === 'parents-planned');
    expect(plans()).toEqual([{ ...plan, event: 'parents-planned', parents: 0 }]);
    await publish([repo('a', 'owner="p"')]);
    completed(await bench.start());
    expect(plans()[1]).toMatchObject({ parents: 1 });
  });

  it('has no pages of a parent that an operator skips, whose value is in the plan', async () => {
    const dead: Script = (request, nth) => {
      if (request.parent === 'b') throw new ExportError('RequestRejectedError', 'no access to this one');
      return issues(request, nth);
    };
    const { publish, issues: bench } = someExports({ script: dead });
    await publish(repos('a', 'b', 'c'));
    const { run } = failed(await bench.start());
    const result = completed(await bench.start({ skipParent: ['b'] }));
    expect(result).toMatchObject({ run, pages: 2 });
    const { missing } = bench.manifest(result.manifest).parents as { missing: { key: string } };
    expect(bench.store.objects.get(missing.key)).toBe('{"slice":2,"parent":"b","reason":"skipped","status":null}\n');
  });

  it('is skipped until the other export has a published run, and if that has changes only', async () => {
    const { issues: bench, publish, withIssues } = someExports();
    expect(await bench.start()).toMatchObject({
      status: 'skipped',
      reason: expect.stringContaining('repos, whose reports'),
    });
    await publish(repos('a'));
    const ofChanges = withIssues({ parents: { listsChanges: true } });
    expect(await ofChanges.start()).toMatchObject({
      status: 'skipped',
      reason: expect.stringContaining('--parents RUN'),
    });
    completed(await bench.start());
  });

  it('keeps its parents, whatever is published meanwhile', async () => {
    const { issues: bench, publish, withIssues } = someExports();
    const run = await publish(repos('a', 'b', 'c'));
    let isDown = true;
    const script: Script = (request, nth) => {
      if (isDown && request.parent === 'b') throw new ExportError('RequestRejectedError', 'down');
      return issues(request, nth);
    };
    const down = withIssues({ script });
    failed(await down.start());
    await publish(repos('c', 'd'));
    isDown = false;
    const result = completed(await down.start());
    expect(idsIn(bench, result.manifest)).toEqual(['a', 'b', 'c']);
    expect(bench.manifest(result.manifest).parents).toMatchObject({ run });
    expect(idsIn(bench, completed(await bench.start()).manifest)).toEqual(['c', 'd']);
  });

  it('has one plan, that of the invocation which was first to record it', async () => {
    const { issues: bench, publish } = someExports();
    await publish(repos('a'));
    const loop = (await begin(bench.deps, 'one')) as LoopState;
    const { store } = bench;
    let isFirst = true;
    const putDocument: typeof store.putDocument = async (key, chunks) => {
      await store.putDocument(key, chunks);
      if (!isFirst) return;
      isFirst = false;
      await publish(repos('b', 'c'));
      await exportPage(bench.deps, { loop, execution: 'one' });
    };
    await exportPage({ ...bench.deps, store: { ...store, putDocument } }, { loop, execution: 'one' });
    const { active } = await bench.state();
    expect(active?.slices?.count).toBe(2);
    expect(bench.service.requests.map(({ parent }) => parent)).toEqual(['b', 'c']);
    expect(partsIn(bench)).toHaveLength(2);
  });

  it('is published once and whole, wherever a process is killed', async () => {
    let isOver = false;
    for (let at = 1; !isOver; at += 1) {
      let left = Number.POSITIVE_INFINITY;
      const crash = () => {
        left -= 1;
        if (left === 0) throw new ExportError('ConfigurationError', 'cut off');
      };
      const { issues: bench, publish } = someExports({ crash });
      await publish(repos('a', 'b'), repos('c'));
      left = at;
      const published = () => manifestsIn(bench).filter((key) => key.startsWith('issues/'));
      for (let start = 0; start < 4 && published().length === 0; start += 1) await bench.start();
      expect({ at, manifests: published().length }).toEqual({ at, manifests: 1 });
      expect(idsIn(bench, published()[0] ?? null)).toEqual(['a', 'b', 'c']);
      isOver = left > 0;
    }
  });

  it('does not continue with other parents than its plan has', async () => {
    const { publish, withIssues, issues: bench } = someExports();
    await publish(repos('a', 'b'));
    failed(
      await withIssues({
        script: () => {
          throw new ExportError('ConfigurationError', 'down');
        },
      }).start(),
    );
    const [part = ''] = partsIn(bench);
    const text = bench.store.objects.get(part) ?? '';
    bench.store.objects.set(part, text.replace('"b"', '"x"'));
    const { active } = await bench.state();
    const loop = { export: 'issues', run: active?.run ?? '', executionNumber: 1, page: 1, iterations: 0, waits: 0 };
    const { execution = '' } = active ?? {};
    const name = 'PageConflictError';
    const changed = expect.stringMatching(/was changed\. .*, or delete it and start with --restart/);
    await expect(exportPage(bench.deps, { loop, execution })).rejects.toMatchObject({ name, message: changed });
    bench.store.objects.delete(part);
    const missing = expect.stringMatching(/is missing\. .*, or start with --restart/);
    await expect(exportPage(bench.deps, { loop, execution })).rejects.toMatchObject({ name, message: missing });
  });

  it('gets no plan if its request is no longer that of the settings, although a plan without parents needs none', async () => {
    const { publish, withIssues, issues: bench } = someExports();
    await publish([]);
    await begin(bench.deps, 'execution-1');
    const other = withIssues({ definition: { request: anExportRequest({ filter: { other: 1 } }) } });
    const { run = '', execution = '' } = (await bench.state()).active ?? {};
    const loop = { export: 'issues', run, executionNumber: 1, page: 1, iterations: 0, waits: 0 } as LoopState;
    await expect(exportPage(other.deps, { loop, execution })).rejects.toMatchObject({ name: 'ConfigurationError' });
    expect((await bench.state()).active?.parents?.parts).toBeUndefined();
  });

  it('is refused if pages of the other export were changed, or their description was', async () => {
    const { issues: bench, publish } = someExports();
    await publish(repos('a', 'b'));
    const [page = ''] = [...bench.store.objects.keys()].filter((key) => /^repos.*page-000001/.test(key));
    const { objects } = bench.store;
    const text = objects.get(page) ?? '';
    Object.assign(bench.deps, {
      reportReader: reportReaderOf({ listed: { page: { format: 'xml', reports: '/a/b' } } }),
    });
    expect(failed(await bench.start())).toMatchObject({
      error: 'ConfigurationError',
      message: expect.stringContaining('has 2 reports by its manifest, and 0 by the settings'),
    });
    Object.assign(bench.deps, { reportReader });
    objects.set(page, text.replace('"b"', '"c"'));
    expect(failed(await bench.start())).toMatchObject({ error: 'PageConflictError' });
    // Unreadable before its checksum is known.
    objects.set(page, text.replace('<report ', '<report<'));
    expect(failed(await bench.start())).toMatchObject({
      error: 'PageConflictError',
      message: expect.stringContaining('page-000001'),
    });
    objects.set(page, text);
    completed(await bench.start());
  });

  it('reads only the parts of its plan that it needs', async () => {
    const { issues: bench, publish, withIssues } = someExports({ limits: { pagesPerInvocation: 5 } });
    const ids = Array.from({ length: 2 * parentsPerPart + 1 }, (_, index) => `p${index}`);
    await publish(repos(...ids));
    let stopped = false;
    const script: Script = (request, nth) => {
      if (request.parent === 'p12' && !stopped) throw new ExportError('ConfigurationError', 'stop');
      return issues(request, nth);
    };
    const stopping = withIssues({ script, limits: { pagesPerInvocation: 5 } });
    failed(await stopping.start());
    stopped = true;
    const { active } = await bench.state();
    expect(active?.parents?.parts).toHaveLength(3);
    const read: string[] = [];
    const store = { ...bench.store, read: (key: string) => (read.push(key), bench.store.read(key)) };
    const loop = { export: 'issues', run: active?.run ?? '', executionNumber: 1, page: 100, iterations: 0, waits: 0 };
    let hasTime = 10;
    const command = { loop, execution: active?.execution ?? '', hasTime: () => (hasTime -= 1) > 0 };
    await exportPage({ ...stopping.deps, store }, command);
    expect(read).toEqual([`issues/_plans/${active?.parents?.parts?.[0]}.jsonl`]);
    const parentOf = parentsOfRun(bench.deps, active as Run);
    const around = [parentsPerPart, parentsPerPart + 1].map(async (slice) => (await parentOf({ slice }))?.id);
    expect(await Promise.all(around)).toEqual([`p${parentsPerPart - 1}`, `p${parentsPerPart}`]);
  });

  it('reads no further pages of the other export after an interruption, and has no plan', async () => {
    const { issues: bench, publish } = someExports();
    await publish(...Array.from({ length: 30 }, (_, index) => repos(`p${index}`)));
    const interruption = new AbortController();
    const read = async (key: string) => {
      interruption.abort();
      return await bench.store.read(key);
    };
    const deps = { ...bench.deps, store: { ...bench.store, read } };
    const { signal } = interruption;
    expect(await runExecution(deps, { name: 'one', input: {} }, { signal })).toEqual({ status: 'interrupted' });
    expect((await bench.state()).active?.parents?.parts).toBeUndefined();
  });
});

describe('the children of one run', () => {
  it('are a bounded run, beside the newest run and without a watermark', async () => {
    const { issues: bench, publish } = someExports();
    const first = await publish(repos('a'));
    await publish(repos('b'));
    const regular = completed(await bench.start());
    // What is expected of regular runs does not apply.
    Object.assign(bench.deps.definition, {
      expect: { minReports: 9 },
      limits: { ...bench.deps.definition.limits, maxPages: 1 },
    });
    const children = completed(await bench.start({ parents: first }));
    expect(idsIn(bench, children.manifest)).toEqual(['a']);
    expect(children).toMatchObject({ bounded: true, watermark: null });
    expect(await bench.log.exportState(`issues/parents/${first}`)).toMatchObject({
      lastCompleted: { result: { run: children.run } },
    });
    expect(JSON.parse(bench.store.objects.get('issues/latest.json') ?? '')).toMatchObject({ run: regular.run });
    expect(await bench.start({ parents: first })).toMatchObject({ status: 'skipped', done: true });
    expect(completed(await bench.start({ parents: first, again: true })).pages).toBe(1);
  });

  it('are those of a run with changes, too, and of no run that is not published', async () => {
    const { publish, withIssues } = someExports();
    const run = await publish(repos('a'));
    const bench = withIssues({ parents: { listsChanges: true } });
    expect(completed(await bench.start({ parents: run })).pages).toBe(1);
    const unknown = failed(await bench.start({ parents: '20200101T000000Z-000000000000' }));
    expect(unknown).toMatchObject({
      error: 'ConfigurationError',
      message: expect.stringContaining('is not published'),
    });
    expect(failed(await bench.start({ parents: 'run' })).message).toContain('must be the ID of a run');
  });
});

describe('a parent that fails', () => {
  const dead: Script = (request, nth) => {
    if (request.parent === 'b') throw new ExportError('RequestRejectedError', 'no access to this one');
    return issues(request, nth);
  };

  it('is a number in the status if the plan was changed, which hides nothing else', async () => {
    const { publish, issues: bench } = someExports({ script: dead });
    await publish(repos('a', 'b', 'c'));
    failed(await bench.start());
    for (const part of partsIn(bench)) bench.store.objects.delete(part);
    const damaged = await readExport(asExportTarget(bench), 10, bench.deps.runtime.now());
    expect(damaged.slices?.setAside).toMatchObject([{ slice: 2, parent: undefined }]);
  });
});

it('an unfinished run of the children of one run is named by that in its status', async () => {
  const { publish, issues: bench } = someExports({
    script: () => {
      throw new ExportError('RequestRejectedError', 'no');
    },
  });
  const run = await publish(repos('a'));
  failed(await bench.start({ parents: run }));
  const now = bench.deps.runtime.now();
  const view = await readExport(asExportTarget(bench), 1, now);
  const options = { now, style: (_: unknown, text: string) => text, program: 'x', option: '--out .', columns: 160 };
  expect(statusLines([view], '', options).join('\n')).toContain(`the children of run ${run}: failed, `);
});

describe('the plan of a start', () => {
  it('has the run of the parents, how many there are, and the first request', async () => {
    const { issues: bench, publish } = someExports();
    const run = await publish(repos('a', 'b', 'c', 'd'));
    const target = {
      ...asExportTarget(bench),
      runtime: bench.deps.runtime,
      loadReportReader: async () => reportReader,
    };
    expect(await planRun(target)).toMatchObject({
      act: 'start',
      parentRun: { export: 'repos', run },
      parents: ['a', 'b', 'c'],
      slices: { count: 4 },
      walk: { first: { parent: 'a', page: 1 } },
    });
    expect(partsIn(bench)).toEqual([]);
  });

  it('requests nothing of a parent that the run skips', async () => {
    const { issues: bench, publish } = someExports({
      script: (request, nth) => {
        if (request.parent === 'b') throw new ExportError('RequestRejectedError', 'no access to this one');
        return issues(request, nth);
      },
    });
    await publish(repos('a', 'b', 'c'));
    const { runtime } = bench.deps;
    const target = { ...asExportTarget(bench), runtime, loadReportReader: async () => reportReader };
    expect(await planRun(target, { skipParent: ['a'] })).toMatchObject({
      act: 'start',
      walk: { first: { parent: 'b' } },
    });
    failed(await bench.start());
    expect(await planRun(target)).toMatchObject({ act: 'resume', walk: { first: { parent: 'b' } } });
    expect(await planRun(target, { skipParent: ['b'] })).toMatchObject({ act: 'resume', page: null });
  });
});
