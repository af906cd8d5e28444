/** Runs whose pages are counted without a total: they are walked until two passes in a row have the same reports. */

import { describe, expect } from 'vitest';
import { asCursor } from '../../../lib/core/model.ts';
import type { JobService, ReportService } from '../../../lib/core/ports.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import type { Chain } from '../../../lib/core/slots/page-requests.ts';
import { assertProved } from '../../../lib/core/steps/passes.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';
import { pageReaderOf } from '../../../lib/service/formats/values/report-reader.ts';
import { aFetchedPage, aPageEntry, aRun, respondWith } from '../../support/builders.ts';
import {
  anExportBench,
  type BenchOptions,
  completed,
  cutOffAt,
  failed,
  manifestsOf,
  reportIdsOf,
} from '../../support/export/export-bench.ts';
import { cases, fc, it, test } from '../../support/property.ts';

const size = 2;
const pageReader = pageReaderOf({
  page: { format: 'xml', reports: '/reports/report' },
  next: { from: 'count', to: { query: 'page' }, first: 1, step: 1, confirm: true, proof: 'twice', by: '/@id' },
});

/** The report IDs of each parent; of an export without parents, those of `''`. */
type Lists = Record<string, string[]>;

/** Called before the nth request is answered. */
type Change = (lists: Lists, nth: number) => void;

function countedService(lists: Lists, change: Change): ReportService & { requests: number } {
  const service = {
    requests: 0,
    async fetch(...[request, options]: Parameters<ReportService['fetch']>) {
      await request.beforeSend?.();
      service.requests += 1;
      change(lists, service.requests);
      const position = Number(request.cursor ?? 0);
      const ids = (lists[request.parent ?? ''] ?? []).slice(position, position + size);
      const body = `<reports>${ids.map((id) => `<report id="${id}"/>`).join('')}</reports>`;
      const nextCursor = ids.length === 0 ? null : asCursor(String(position + size));
      return await respondWith(aFetchedPage({ body, reports: ids.length, nextCursor }), options);
    },
  };
  return service;
}

const provedBy = ['/@id'];

function aBench(lists: Lists, change: Change = () => {}, { definition, ...options }: BenchOptions = {}) {
  const service = countedService(lists, change);
  const parents = Object.keys(lists).filter((parent) => parent !== '');
  const ofParents = parents.length === 0 ? {} : { parents: { values: parents }, slicing: { parallel: 2 } };
  const all = { service, pageReader, ...options, definition: { provedBy, ...ofParents, ...definition } };
  return { bench: anExportBench(all), service, all };
}

const at = (moment: number, change: (lists: Lists) => void): Change => {
  return (lists, nth) => {
    if (nth === moment) change(lists);
  };
};
const five = () => ({ '': ['a', 'b', 'c', 'd', 'e'] });

describe('a run whose pages are counted without a total', () => {
  it.each<[string, Change, number]>([
    ['nothing changes', () => {}, 8],
    // The third request skips e. The first pass has b, and not e; the second one has e, and not b.
    ['a report disappears in the first pass', at(3, ({ '': list }) => list?.splice(1, 1)), 9],
    ['a report is added in front in the second pass', at(6, ({ '': list }) => list?.unshift('f')), 16],
    ['a report moves to the end in the first pass', at(2, ({ '': list }) => list?.push(...list.splice(0, 1))), 12],
  ])('has all reports once if %s', async (_, change, requests) => {
    const lists = five();
    const { bench, service } = aBench(lists, change, { limits: { maxCursorRestarts: 3 } });
    const { manifest, reports } = completed(await bench.start());
    expect(reportIdsOf(bench, manifest).toSorted()).toEqual(lists[''].toSorted());
    expect(reports).toBe(lists[''].length);
    expect(service.requests).toBe(requests);
    expect(manifestsOf(bench)).toHaveLength(1);
  });

  it('begins at the same moment in each pass, and its watermark is before what only the last one can have', async () => {
    const { bench } = aBench(five(), () => bench.advance(60_000));
    const { manifest, watermark } = completed(await bench.start());
    expect(bench.manifest(manifest).startedAt).toBe('2026-11-20T02:00:00Z');
    expect(watermark).toBe('2026-11-20T02:00:00Z');
  });

  it('has a watermark that is no later than its first request by the clock of the service', async () => {
    const { bench } = aBench(five(), () => bench.advance(60_000));
    const { fetch } = bench.deps.service;
    const behind: typeof fetch = async (...request) => ({
      ...(await fetch(...request)),
      serviceTime: instantOf(bench.deps.runtime.now() - 600_000),
    });
    Object.assign(bench.deps, { service: { fetch: behind } });
    expect(completed(await bench.start()).watermark).toBe('2026-11-20T01:51:00Z');
  });

  it('is proved although a concurrent invocation has logged its last page', async () => {
    const ids = ['a', 'b', 'c'];
    let requests = 0;
    const service: ReportService = {
      async fetch({ cursor, beforeSend }, options) {
        await beforeSend?.();
        requests += 1;
        // The last page of the second pass.
        if (requests === 4) await concurrently();
        const position = Number(cursor ?? 0);
        const page = ids.slice(position, position + size);
        const body = `<reports>${page.map((id) => `<report id="${id}"/>`).join('')}</reports>`;
        const nextCursor = position + size < ids.length ? asCursor(String(position + size)) : null;
        return await respondWith(aFetchedPage({ body, reports: page.length, nextCursor }), options);
      },
    };
    const bench = anExportBench({ service, pageReader, definition: { provedBy } });
    async function concurrently(): Promise<void> {
      const { active } = await bench.state();
      const { run = '', execution = '' } = active ?? {};
      const loop = { export: bench.deps.definition.name, run, executionNumber: 1, page: 2, iterations: 0, waits: 0 };
      await exportPage(bench.deps, { loop, execution });
    }
    expect(reportIdsOf(bench, completed(await bench.start()).manifest)).toEqual(ids);
    expect(requests).toBe(5);
    expect(bench.events.filter(({ event }) => event === 'slice-restarted')).toHaveLength(1);
  });

  it('fails once passes differ too often, and says what to do', async () => {
    const grows: Change = ({ '': list }, nth) => list?.push(`new ${nth}`);
    const { bench } = aBench(five(), grows, { limits: { maxCursorRestarts: 2 } });
    const { error, message, resumable } = failed(await bench.start());
    expect({ error, resumable }).toEqual({ error: 'CursorRejectedError', resumable: true });
    expect(message).toMatch(/reports are not the same as .* of the pass before.*raise maxCursorRestarts/);
    expect(bench.events.filter(({ event }) => event === 'slice-restarted')).toHaveLength(2);
  });

  it('fails, too, while another parent gets on: a pass does not confirm itself', async () => {
    const two = Array.from({ length: 20 }, (_, index) => `2-${index}`);
    const grows: Change = ({ one }, nth) => nth % 5 === 0 && one?.push(`new ${nth}`);
    const limits = { maxCursorRestarts: 1, pagesPerInvocation: 1 };
    const { bench } = aBench({ one: ['1-0'], two }, grows, { limits });
    expect(failed(await bench.start()).error).toBe('CursorRejectedError');
    expect(manifestsOf(bench)).toHaveLength(0);
  });

  it('fails if an ID repeats in every pass, although all passes are the same', async () => {
    const { bench } = aBench({ '': ['a', 'b', 'b', 'c'] }, undefined, { limits: { maxCursorRestarts: 3 } });
    expect(failed(await bench.start()).message).toMatch(/a report came twice.*next\.by identifies/);
  });

  it('fails if the API begins again after its last page', async () => {
    const { fetch } = countedService(five(), () => {});
    const service: ReportService = {
      fetch: (request, options) =>
        fetch({ ...request, cursor: asCursor(String(Number(request.cursor ?? 0) % 6)) }, options).then((page) =>
          page.kind === 'page' ? { ...page, nextCursor: asCursor(String(Number(request.cursor ?? 0) + size)) } : page,
        ),
    };
    const bench = anExportBench({ service, pageReader, definition: { provedBy }, limits: { maxCursorRestarts: 1 } });
    expect(failed(await bench.start()).message).toMatch(
      /a report came twice.*a page after the last one has no reports/,
    );
  });

  it('keeps the pass before if the next one is cut off before its first page', async () => {
    const service = countedService(five(), () => {});
    let isDown = true;
    const crash = (moment: string) => {
      if (isDown && service.requests > 4 && moment === 'before the page is stored') throw new Error('cut off');
    };
    const bench = anExportBench({ service, pageReader, crash, definition: { provedBy } });
    await bench.start();
    isDown = false;
    const before = service.requests;
    completed(await bench.start());
    expect(service.requests - before).toBe(4);
  });

  it.each([
    ['', /no text or number at \/@id \(next\.by\) in report 1 of page 1/],
    [undefined, /no text or number/],
  ])('refuses a report with the ID %j', async (id, says) => {
    const body = `<reports><report${id === undefined ? '' : ` id="${id}"`}/></reports>`;
    const script = () => aFetchedPage({ body, reports: 1 });
    const bench = anExportBench({ script, pageReader, definition: { provedBy } });
    expect(failed(await bench.start())).toMatchObject({ error: 'ContractError', message: expect.stringMatching(says) });
  });

  it('refuses a report that is no text, number, object or array, if whole reports are compared', async () => {
    const read = async () => [[{ type: 'null' as const, text: '' }]];
    const script = () => aFetchedPage({ reports: 1 });
    const bench = anExportBench({ script, pageReader: { read }, definition: { provedBy: [''] } });
    expect(failed(await bench.start()).message).toMatch(
      /^There is no text or number \(next\.by\) in report 1 of page 1/,
    );
  });

  it('may have 20,000 reports in a page', async () => {
    let reports = 20_000;
    const read = async () => Array.from({ length: reports }, (_, id) => [{ type: 'number' as const, text: `${id}` }]);
    const script = () => aFetchedPage({ reports, nextCursor: null });
    const bench = anExportBench({ script, pageReader: { read }, definition: { provedBy } });
    expect(completed(await bench.start())).toMatchObject({ reports });
    reports += 1;
    expect(failed(await bench.start()).message).toMatch(/^Pages with more than 20,000 reports cannot be proved/);
  });

  it('may have 10 million reports in a pass', async () => {
    const page = aPageEntry({ ids: Buffer.alloc(8 * 20_000).toString('base64') });
    const { deps } = anExportBench({ definition: { provedBy } });
    const log = Object.assign(Object.create(deps.log), { entries: () => Array.from({ length: 500 }, () => page) });
    const chain = { run: aRun(), slice: { slice: 1 } } as Chain;
    const endsWith = (ids: string) => assertProved({ ...deps, log }, chain, { ...page, page: 501, ids });
    await expect(endsWith(Buffer.alloc(8).toString('base64'))).rejects.toThrow(/^More than 10,000,000 reports cannot/);
  });

  it('walks the result of one report job in each pass', async () => {
    let created = 0;
    const jobs: JobService = {
      async create({ beforeSend }) {
        await beforeSend?.();
        created += 1;
        return { kind: 'created', id: `job-${created}`, serviceTime: null };
      },
      poll: async () => ({ kind: 'done', status: 'DONE' }),
    };
    // A job that is created later has more reports.
    const lists = { '': ['a', 'b', 'c'] };
    const { fetch } = countedService(lists, () => void (lists[''].length < 3 + created - 1 && lists[''].push('new')));
    const bench = anExportBench({ pageReader, definition: { provedBy, job: {} } });
    Object.assign(bench.deps, { service: { fetch, jobs } });
    expect(reportIdsOf(bench, completed(await bench.start()).manifest)).toEqual(['a', 'b', 'c']);
    expect(created).toBe(1);
  });

  it('walks each parent twice, and only the one that changes once more', async () => {
    const lists = { one: ['1a', '1b', '1c'], two: ['2a'], none: [] as string[] };
    const change: Change = ({ two }, nth) => nth === 5 && two?.push('2b');
    const { bench, service } = aBench(lists, change, { limits: { maxCursorRestarts: 3 } });
    const { manifest } = completed(await bench.start());
    expect(reportIdsOf(bench, manifest)).toEqual(['1a', '1b', '1c', '2a', '2b']);
    const attempts = bench.events.flatMap((event) => (event.event === 'slice-restarted' ? [event.slice] : []));
    const reasons = bench.events.flatMap((event) => (event.event === 'slice-restarted' ? [event.reason] : []));
    expect(reasons.join()).toMatch(/^Parent \d of run/);
    expect(attempts.toSorted((one = 0, other = 0) => one - other)).toEqual(
      service.requests === 12 ? [1, 2, 3] : [1, 2, 2, 3],
    );
    // What a state keeps of passes is only about slices that are not complete.
    expect(JSON.stringify(await bench.state())).not.toContain('"passes"');
  });

  it.each(['before the page is stored', 'after the page is stored', 'after the page is logged'])(
    'continues a pass that was cut off %s',
    async (moment) => {
      const lists = five();
      const service = countedService(lists, () => {});
      const { bench, resume } = cutOffAt(moment, { service, pageReader, definition: { provedBy } });
      await bench.start();
      resume();
      expect(reportIdsOf(bench, completed(await bench.start()).manifest)).toEqual(lists['']);
    },
  );
});

const change = fc.record({
  at: fc.integer({ min: 1, max: 24 }),
  kind: fc.constantFrom('add' as const, 'remove' as const, 'move' as const),
  parent: fc.nat(2),
  from: fc.nat(8),
  to: fc.nat(8),
});

test.prop([fc.array(fc.nat(7), { minLength: 1, maxLength: 3 }), fc.array(change, { maxLength: 4 }), fc.nat(40)], {
  numRuns: cases(600),
})(
  'each report that exists during a whole run is in it once, wherever it is cut off',
  async (lengths, changes, crashAt) => {
    const names = lengths.length === 1 ? [''] : ['one', 'two', 'three'];
    const lists: Lists = Object.fromEntries(
      lengths.map((length, index) => [names[index] ?? '', Array.from({ length }, (_, each) => `${index}-${each}`)]),
    );
    const always = new Set(Object.values(lists).flat());
    const apply: Change = (_, nth) => {
      for (const [index, { kind, parent, from, to }] of changes.filter((each) => each.at === nth).entries()) {
        const list = lists[names[parent % lengths.length] ?? ''] ?? [];
        if (kind === 'add') list.splice(to, 0, `new ${nth}-${index}`);
        const moved = kind === 'add' ? [] : list.splice(from, 1);
        if (kind === 'move') list.splice(to, 0, ...moved);
        else for (const id of moved) always.delete(id);
      }
    };
    let effects = 0;
    const crash = () => {
      effects += 1;
      if (effects === crashAt) throw new Error('cut off');
    };
    const { bench } = aBench(lists, apply, { crash, limits: { maxCursorRestarts: 6, pagesPerInvocation: 3 } });
    const ends = [await bench.start(), await bench.start()];
    const manifest = ends.flatMap((end) => (end.status === 'completed' ? [end.result.manifest] : []));
    expect(manifest).not.toHaveLength(0);
    const ids = reportIdsOf(bench, manifest[0] ?? null);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids).toEqual(expect.arrayContaining([...always]));
  },
);
