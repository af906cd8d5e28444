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
  failed,
  pagesIn,
} from '../support/export/export-bench.ts';
import { cursorAt, type Script, someReports } from '../support/export/scripted-service.ts';
import { completes, expectStory, fails, type Start } from '../support/export/stories.ts';

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
  type Story = [what: string, first: BenchOptions, ...starts: Start[]];
  const answers = { script: () => undefined };
  const refused = (says: string | RegExp, pages: number) => fails('ContractError', says, { pages });
  const atCursor2 = errorsIf((cursor) => cursor === cursorAt(2));
  const otherNamespace: Script = (_, nth) =>
    nth === 1 ? undefined : anErrorDocument({ documentRoot: '{urn:v2}reports', nextCursor: cursorAt(100 + nth) });
  const rejectedThenError: Script = ({ cursor }, nth) => {
    if (cursor !== null) throw new ExportError('CursorRejectedError', 'Report service responded with 410');
    return nth === 1 ? undefined : anErrorDocument();
  };
  const json: Script = (_, nth) =>
    aFetchedPage({ body: '{}', reports: null, nextCursor: nth < 3 ? cursorAt(nth) : null });
  const onPage2 =
    /^Report service sent a document with the root element error for page 2 of run \S+, but reports is expected: page 1 has it\. It was not stored\. .*service\.rootElement.*--restart\. Response: the beginning of the body$/;
  const silent = { definition: { publishEmptyRuns: false } };
  const bounds = { since: at('2026-11-01T00:00:00Z'), until: at('2026-11-01T00:06:00Z') };
  const unlessProof: Script = ({ since, until }) => (since === until ? undefined : anErrorDocument());

  it.each<Story>([
    // The attempt that has exported page 1 is not counted.
    ...[[1, 4] as const, [25, 5] as const].map(([pagesPerInvocation, requests]): Story => [
      `fails the run after a few attempts, and the next start exports the rest: ${pagesPerInvocation} pages per invocation`,
      { limits: { pagesPerInvocation }, script: atCursor2 },
      { ends: refused(onPage2, 1), requests },
      { ...answers, ends: completes({ reports: 5 }), requests: 2 },
    ]),
    [
      'is requested again, and the run completes if the next response is a page',
      { script: errorsAt(2) },
      { ends: completes() },
    ],
    [
      'is refused with a cursor, too, and so is what is requested with that cursor',
      { limits: { pagesPerInvocation: 25 }, script: otherNamespace },
      { ends: refused('the root element {urn:v2}reports for page 2', 1) },
    ],
    [
      'is no page 1 of the next run, which then has the reports of both',
      { reports: someReports(3) },
      { ends: completes({ reports: 3 }) },
      { script: errorsIf(() => true), ends: refused('but reports is expected: the export has had it so far', 0) },
      { ...answers, ends: completes({ since: at('2026-11-20T01:59:59Z') }) },
    ],
    [
      'is no page 1 of the next run if runs without reports are not published',
      { ...silent, reports: [] },
      { ends: completes({ manifest: null }) },
      { script: errorsIf(() => true), ends: refused('', 0) },
    ],
    [
      'is no page 1 of a run that starts over, although no run has completed',
      { script: rejectedThenError },
      { ends: refused('but reports is expected: the run had it before it started over', 0) },
    ],
    [
      'is the truth on page 1 of the first run, as nothing else is known, until the settings name the root',
      { script: errorsIf(() => true) },
      { ends: completes({ pages: 1 }) },
      { ...answers, ends: refused('error is expected', 0) },
      { ...named('reports'), ends: completes() },
      { definition: {}, ends: completes() },
    ],
    [
      'is not looked for in other formats',
      { reports: someReports(1) },
      { ends: completes() },
      { script: json, ends: completes({ pages: 3, reports: null }) },
      { script: errorsIf(() => true), ends: refused('but reports is expected', 0) },
    ],
    [
      'is refused on page 1 of the first run if service.rootElement names the root',
      { ...named('reports'), script: errorsAt(1, 2, 3) },
      { ends: refused('but reports is expected: service.rootElement names it', 0) },
      { ...answers, ends: completes() },
    ],
    [
      'makes a run that began with another root than service.rootElement wait for a person',
      { script: errorsIf((cursor) => cursor !== null) },
      { ends: refused('', 1) },
      {
        ...named('{urn:v2}reports'),
        ends: fails('ConfigurationError', 'have the root element reports, but service.rootElement is {urn:v2}reports'),
      },
    ],
    ...[{}, { parallel: 2, slice: 'PT1M' }].flatMap((slices): Story[] => [
      [
        `is no first page of a bounded run of an export with a root: ${JSON.stringify(slices)}`,
        { reports: someReports(6) },
        { ends: completes() },
        { script: unlessProof, input: { ...bounds, ...slices }, ends: refused('', 0) },
        { ...answers, input: { ...bounds, ...slices }, ends: completes({ reports: 6 }) },
      ],
      [
        `is no first page of a bounded run whose bounds were proved: ${JSON.stringify(slices)}`,
        { script: unlessProof },
        { input: { ...bounds, ...slices }, ends: refused('', 0) },
      ],
    ]),
  ])('%s', async (_, first, ...starts) => {
    await expectStory(first, ...starts);
  });

  it('is refused even after an attempt that stored page 1 and was cut off', async () => {
    const { bench, resume } = cutOffAt('before the page is logged');
    await bench.start();
    expect(pagesIn(bench)).toHaveLength(1);
    resume();
    const end = failed(await bench.with({ script: errorsIf((cursor) => cursor !== null) }).start());
    expect(end).toMatchObject({ error: 'ContractError', pages: 1 });
  });

  it('is refused if it was stored before service.rootElement was set, but published as its run began', async () => {
    const script = errorsIf(() => true);
    const { bench, resume } = cutOffAt('before the page is logged', { script });
    const loop = await begin(bench.deps, 'one');
    await expect(exportPage(bench.deps, { loop, execution: 'one' })).rejects.toThrow('cut off');
    resume();
    const right = bench.with({ ...named('reports'), ...answers });
    await expect(exportPage(right.deps, { loop, execution: 'one' })).rejects.toThrow(
      /^Page 1 of run \S+ was stored with the root element error, but reports is expected: .*--restart/,
    );
    // A start replaces a run whose log has no page.
    completed(await right.start());

    const unpublished = cutOffAt('before the manifest is written', { script });
    await unpublished.bench.start();
    unpublished.resume();
    completed(await unpublished.bench.with(named('reports')).start());
  });
});
