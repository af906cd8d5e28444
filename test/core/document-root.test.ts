/** A well-formed document that is no page of reports is neither stored as a page nor does it end pagination. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../lib/core/errors.ts';
import { asDocumentRoot, rootOfColumns } from '../../lib/core/document-root.ts';
import { exportPage } from '../../lib/core/steps/export-page.ts';
import { aFetchedPage, at, type FetchedPage, type FetchedPageParts } from '../support/builders.ts';
import {
  anExportBench,
  begin,
  type BenchOptions,
  completed,
  cutOffAt,
  executionId,
  failed,
  manifestsOf,
  pagesIn,
  reportIdsOf,
} from '../support/export/export-bench.ts';
import { cursorAt, type Script, someReports } from '../support/export/scripted-service.ts';

const anErrorDocument = (parts: FetchedPageParts = {}): FetchedPage =>
  aFetchedPage({
    body: '<error><code>500</code></error>',
    documentRoot: 'error',
    reports: 1,
    nextCursor: null,
    ...parts,
  });

/** Responds with an error document to the given requests, counted from 1. */
const errorsAt =
  (...requests: readonly number[]): Script =>
  (_, nth) =>
    requests.includes(nth) ? anErrorDocument() : undefined;

/** Responds with an error document to every request that `matches`. */
const errorsIf =
  (matches: (cursor: string | null) => boolean): Script =>
  ({ cursor }) =>
    matches(cursor) ? anErrorDocument() : undefined;

const allReports = ['r1', 'r2', 'r3', 'r4', 'r5'];
const named = (name: string): BenchOptions => ({ definition: { documentRoot: asDocumentRoot(name) } });

describe('the root of CSV', () => {
  it('is its first row, as far as every store can keep it', () => {
    expect(rootOfColumns('id,Order ID')).toBe('columns id,Order ID');
    const long = rootOfColumns(`id,größe,${'x'.repeat(300)}`);
    expect(long).toMatch(/^columns id,gr__e,x{50,}\.\.\. sha256-[0-9a-f]{64}$/);
    expect(rootOfColumns(`id,größe,${'x'.repeat(301)}`)).not.toBe(long);
    for (const row of [`${'x'.repeat(300)}`, ' id', 'a  b', 'id ', '=?utf-8?b?', '"a\r\nb"', '"']) {
      expect(rootOfColumns(row)).toMatch(/^[\x21-\x7e]+( [\x21-\x7e]+)*$/);
      expect(rootOfColumns(row).length).toBeLessThanOrEqual(200);
      expect(rootOfColumns(row)).not.toContain('=?');
    }
  });

  it('is what the pages of a run have, and the messages say so', async () => {
    const pageOf = (columns: string, parts: FetchedPageParts = {}): FetchedPage => ({
      ...aFetchedPage(parts),
      documentRoot: rootOfColumns(columns),
      documentRootText: () => columns,
    });
    const script: Script = (_, nth) =>
      nth === 1 ? pageOf('id,text', { nextCursor: cursorAt(2) }) : pageOf('code,message', { nextCursor: null });
    const { error, message } = failed(await anExportBench({ script }).start());
    expect(error).toBe('ContractError');
    expect(message).toMatch(
      /^Report service sent a document with the columns code,message for page 2 of run \S+, but id,text is expected: page 1 has it\. .*set api\.page\.columns to/,
    );
  });
});

describe('a document with another root', () => {
  it.each([
    ['one page per invocation', 1, 3],
    // The attempt that has exported page 1 is not counted.
    ['pages fetched ahead', 25, 4],
  ])(
    'fails the run after a few attempts, and the next start exports what is left: %s',
    async (_, pagesPerInvocation, requests) => {
      const bench = anExportBench({
        limits: { pagesPerInvocation },
        script: errorsIf((cursor) => cursor === cursorAt(2)),
      });
      const { error, message, pages } = failed(await bench.start());

      expect({ error, pages }).toEqual({ error: 'ContractError', pages: 1 });
      expect(message).toMatch(
        /^Report service sent a document with the root element error for page 2 of run \S+, but reports is expected: page 1 has it\. It was not stored\. .*service\.rootElement.*--restart\. Response: the beginning of the body$/,
      );
      expect(bench.service.requests.filter(({ cursor }) => cursor === cursorAt(2))).toHaveLength(requests);
      expect(pagesIn(bench)).toHaveLength(1);
      expect(await bench.state()).not.toHaveProperty('watermark');

      const result = completed(await bench.with({ script: () => undefined }).start());
      expect(reportIdsOf(bench, result.manifest ?? '')).toEqual(allReports);
    },
  );

  it('is requested again, and the run completes if the next response is a page', async () => {
    const bench = anExportBench({ script: errorsAt(2) });
    expect(reportIdsOf(bench, completed(await bench.start()).manifest)).toEqual(allReports);
  });

  it('is refused with a cursor, too, and so is what is requested with that cursor', async () => {
    const bench = anExportBench({
      limits: { pagesPerInvocation: 25 },
      script: (_, nth) =>
        nth === 1 ? undefined : anErrorDocument({ documentRoot: '{urn:v2}reports', nextCursor: cursorAt(100 + nth) }),
    });
    expect(failed(await bench.start()).message).toContain('the root element {urn:v2}reports for page 2');
    expect(pagesIn(bench)).toHaveLength(1);
  });

  it('is no page 1 of the next run, which then has the reports of both', async () => {
    const bench = anExportBench({ reports: someReports(3) });
    completed(await bench.start());
    const { watermark } = await bench.state();
    const end = failed(await bench.with({ script: errorsIf(() => true) }).start());

    expect(end.message).toContain('but reports is expected: the export has had it so far');
    expect(end.pages).toBe(0);
    expect((await bench.state()).watermark).toEqual(watermark);
    expect(pagesIn(bench)).toHaveLength(2);
    completed(await bench.with({ script: () => undefined }).start());
  });

  it('is no page 1 of the next run if runs without reports are not published', async () => {
    const silent = { definition: { publishEmptyRuns: false }, reports: [] };
    const bench = anExportBench(silent);
    completed(await bench.start());
    const end = await bench.with({ ...silent, script: errorsIf(() => true) }).start();
    expect(failed(end).error).toBe('ContractError');
  });

  it('is no page 1 of a run that starts over, although no run has completed', async () => {
    const bench = anExportBench({
      script({ cursor }, nth) {
        if (cursor !== null) throw new ExportError('CursorRejectedError', 'Report service responded with 410');
        return nth === 1 ? undefined : anErrorDocument();
      },
    });
    const end = failed(await bench.start());
    expect(end).toMatchObject({ error: 'ContractError', pages: 0 });
    expect(end.message).toContain('but reports is expected: the run had it before it started over');
    expect(manifestsOf(bench)).toEqual([]);
  });

  it('is the truth on page 1 of the first run, as nothing else is known', async () => {
    const bench = anExportBench({ script: errorsIf(() => true) });
    expect(completed(await bench.start()).pages).toBe(1);
    expect((await bench.state()).documentRoot).toBe('error');
  });

  it('is refused even after an attempt that stored page 1 and was cut off', async () => {
    const { bench, resume } = cutOffAt('before the page is logged');
    await bench.start();
    expect(pagesIn(bench)).toHaveLength(1);
    resume();
    const end = failed(await bench.with({ script: errorsIf((cursor) => cursor !== null) }).start());
    expect(end).toMatchObject({ error: 'ContractError', pages: 1 });
  });

  it('is not looked for in other formats', async () => {
    const bench = anExportBench({ reports: someReports(1) });
    completed(await bench.start());
    const script: Script = (_, nth) =>
      aFetchedPage({ body: '{}', reports: null, nextCursor: nth < 3 ? cursorAt(nth) : null });
    const end = await bench.with({ script }).start();
    expect(completed(end)).toMatchObject({ pages: 3, reports: null });
    expect((await bench.state()).documentRoot).toBe('reports');
  });
});

describe('service.rootElement', () => {
  it('holds from page 1 of the first run on', async () => {
    const bench = anExportBench({ ...named('reports'), script: errorsAt(1, 2, 3) });
    const { message } = failed(await bench.start());
    expect(message).toContain('but reports is expected: service.rootElement names it');
    expect(pagesIn(bench)).toEqual([]);
    completed(await bench.start());
  });

  it('replaces a root that was recorded by mistake, and is then no longer needed', async () => {
    const bench = anExportBench({ script: errorsIf(() => true) });
    completed(await bench.start());
    const service = { script: () => undefined };
    expect(failed(await bench.with(service).start()).message).toContain('error is expected');

    completed(await bench.with({ ...service, ...named('reports') }).start());
    completed(await bench.with(service).start());
    expect((await bench.state()).documentRoot).toBe('reports');
  });

  it('refuses a page that was stored before it was set', async () => {
    const { bench, resume } = cutOffAt('before the page is logged', { script: errorsIf(() => true) });
    const execution = executionId('one');
    const loop = await begin(bench.deps, execution);
    await expect(exportPage(bench.deps, { loop, execution })).rejects.toThrow('cut off');
    resume();
    const right = bench.with({ ...named('reports'), script: () => undefined });
    await expect(exportPage(right.deps, { loop, execution })).rejects.toThrow(
      /^Page 1 of run \S+ was stored with the root element error, but reports is expected: .*--restart/,
    );
    // A start replaces a run whose log has no page.
    completed(await right.start());
  });

  it('refuses to continue or to publish a run that began with another root', async () => {
    const bench = anExportBench({ script: errorsIf((cursor) => cursor !== null) });
    failed(await bench.start());
    const other = failed(await bench.with(named('{urn:v2}reports')).start());
    expect(other.error).toBe('ConfigurationError');
    expect(other.message).toContain('have the root element reports, but service.rootElement is {urn:v2}reports');

    const { bench: unpublished, resume } = cutOffAt('before the manifest is written', { script: errorsIf(() => true) });
    await unpublished.start();
    resume();
    // A run that is being published is published as it began.
    completed(await unpublished.with(named('reports')).start());
  });
});

describe('a bounded run', () => {
  const bounds = { since: at('2026-11-01T00:00:00Z'), until: at('2026-11-01T00:06:00Z') };

  it.each([1, 2])('has first pages with the root of the export, in %i slices', async (parallel) => {
    const bench = anExportBench({ reports: someReports(6) });
    completed(await bench.start());
    const slice = parallel === 1 ? {} : { slice: 'PT1M' };
    const input = { ...bounds, parallel, ...slice };
    const faulty = bench.with({ script: ({ since, until }) => (since === until ? undefined : anErrorDocument()) });
    expect(failed(await faulty.start(input))).toMatchObject({ error: 'ContractError', pages: 0 });
    completed(await bench.start(input));
  });

  it('has first pages with the root of the response to the proof of its upper bound', async () => {
    const bench = anExportBench({ reports: someReports(6) });
    const faulty = bench.with({ script: ({ since, until }) => (since === until ? undefined : anErrorDocument()) });
    expect(failed(await faulty.start(bounds))).toMatchObject({ error: 'ContractError', pages: 0 });
  });
});
