/** Whole runs over described APIs: nights without reports, descriptions that are corrected, and waits. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { describeApi } from '../../../lib/service/api/description.ts';
import { formatOf } from '../../../lib/service/api/page.ts';
import { apiOfRequest } from '../../../lib/settings/settings.ts';
import { anExportRequest } from '../../support/builders.ts';
import { anExportBench, type Bench, completed, failed } from '../../support/export/export-bench.ts';
import { aDirectory, jsonOf, readManifest, runInProcess } from '../../support/process/command-line.ts';
import { describedWith } from '../../support/service/exchanges.ts';
import { rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import { clientFor } from '../../support/service/service-client.ts';

interface Answer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Answers the request for the page with this number, which is asked for so often. */
type Respond = (page: number, times: number) => Answer;

/** An API of pages whose cursor is their number. */
async function startApi(respond: Respond, contentType = 'application/json') {
  const requested: { readonly page: number; readonly at: number }[] = [];
  let now = () => 0;
  const server = await startRawServer((socket, { target }) => {
    const page = Number(new URL(target, 'http://localhost').searchParams.get('cursor') ?? 1);
    requested.push({ page, at: now() });
    const {
      status = 200,
      headers = {},
      body = '',
    } = respond(page, requested.filter((each) => each.page === page).length);
    socket.write(rawResponse({ status, headers: { 'content-type': contentType, ...headers }, body }));
  });
  return {
    requested,
    /** Starts the export with this description, in the same storage as `before`. */
    async start(parts: object, before?: Bench) {
      const { api, problems } = describedWith(parts);
      if (api === undefined || problems.length > 0) throw new Error(problems.join());
      const request = anExportRequest({
        source: server.url,
        format: formatOf(api),
        api: apiOfRequest(describeApi(api)),
      });
      const options = { definition: { request } };
      const bench = before === undefined ? anExportBench(options) : before.with(options);
      now = bench.deps.runtime.now;
      await using service = clientFor(server, { api, now, monotonicNow: now });
      Object.assign(bench.deps, { service });
      return { bench, end: await bench.start() };
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

const json = (fields: object): Answer => ({ body: JSON.stringify(fields) });
const inHeader = { next: { from: 'header', at: 'X-Next', to: { query: 'cursor' } } };

interface Quiet {
  readonly name: string;
  readonly parts?: object;
  readonly contentType?: string;
  /** A page with a report. */
  readonly page?: (page: number) => string;
  /** A page without reports. */
  readonly quiet: Answer;
  readonly empty: object;
  /** What else is described, so that null at the list proves something. */
  readonly error?: object;
}

const xml = { page: { format: 'xml', reports: '/feed/data/entry' } };
const quietPages: readonly Quiet[] = [
  { name: 'no list', quiet: json({ total: 0 }), empty: { at: '/total', is: 0 } },
  { name: 'null', quiet: json({ data: null }), empty: { at: '/data', is: null }, error: { at: '/error' } },
  { name: '{}', quiet: { body: '{}' }, empty: { at: '', is: null } },
  { name: '[] for {}', quiet: { body: '[]' }, empty: { at: '', is: null } },
  { name: 'no bytes', quiet: {}, empty: { at: '', is: null } },
  { name: '204', quiet: { status: 204 }, empty: { status: 204 } },
  {
    name: 'an empty document of XML',
    parts: xml,
    contentType: 'application/xml',
    page: (page) => `<feed><data><entry>${page}</entry></data></feed>`,
    quiet: { body: '<feed/>' },
    empty: { at: '', is: null },
  },
  {
    name: 'no bytes of CSV',
    parts: { page: { format: 'csv' } },
    contentType: 'text/csv',
    page: (page) => `id\r\n${page}\r\n`,
    quiet: {},
    empty: { at: '', is: null },
  },
];

const pageOfJson = (page: number): string => JSON.stringify({ data: [{ id: page }] });

describe.each(quietPages)('a page without reports: $name', (form) => {
  const { parts = {}, contentType, page: pageOf = pageOfJson, quiet, empty, error } = form;

  it.each([
    ['the only page', 1, 1],
    ['the first page', 1, 3],
    ['a middle page', 2, 3],
    ['the last page', 3, 3],
  ])('is refused with the line to add as %s, and the corrected description continues the run', async (_, at, pages) => {
    const next = (page: number) => ({ headers: { ...(page < pages && { 'x-next': String(page + 1) }) } });
    await using api = await startApi(
      (page) => ({ ...(page === at ? quiet : { body: pageOf(page) }), ...next(page) }),
      contentType,
    );
    const first = await api.start({ ...inHeader, ...parts });
    const { run, message } = failed(first.end);
    const line = JSON.stringify(empty);
    expect(message.replaceAll(/": /g, '":').replaceAll(', "', ',"')).toContain(`set when.empty to ${line}`);
    const { end } = await api.start({ ...inHeader, ...parts, when: { empty, error } }, first.bench);
    // Without a page, there is nothing to go on with.
    expect(completed(end)).toMatchObject({ pages, reports: pages - 1, ...(at > 1 && { run }) });
    // The pages before it are not requested again.
    const requested = api.requested.map(({ page }) => page);
    expect([...new Set(requested)]).toEqual(Array.from({ length: pages }, (__, index) => index + 1));
    expect(requested.filter((page) => page < at)).toHaveLength(at - 1);
  });
});

it.each([1, 2, 3])('a page of NDJSON without lines needs no description as page %i of 3', async (at) => {
  await using api = await startApi(
    (page) => ({
      body: page === at ? '' : `{"id":${page}}\n`,
      headers: { ...(page < 3 && { 'x-next': String(page + 1) }) },
    }),
    'application/x-ndjson',
  );
  const { end } = await api.start({ ...inHeader, page: { format: 'ndjson' } });
  expect(completed(end)).toMatchObject({ pages: 3, reports: 2 });
});

it('a page after the last one with status 204 is refused with the line to add, and the corrected description continues the run', async () => {
  await using api = await startApi((page) => (page === 1 ? json({ data: [1], next: 2 }) : { status: 204 }));
  const first = await api.start({});
  const { run, message } = failed(first.end);
  expect(message).toContain('set last to {"status": 204}');
  const last = [{ at: '/next', is: null }, { status: 204 }];
  const { bench, end } = await api.start({ last }, first.bench);
  expect(completed(end)).toMatchObject({ run, pages: 1, reports: 1 });
  expect([...bench.store.objects.keys()].filter((key) => key.includes('/page-'))).toHaveLength(1);
  expect(api.requested.filter(({ page }) => page === 1)).toHaveLength(1);
});

it('an end that was described wrongly is corrected without a new run', async () => {
  await using api = await startApi((page) => json({ data: [page], ...(page < 3 && { paging: { next: page + 1 } }) }));
  const next = { from: 'body', at: '/paging/next', to: { query: 'cursor' } };
  const first = await api.start({ next });
  const { run, message } = failed(first.end);
  expect(message).toContain('set api.last to {"at": "/paging", "is": null}');
  const { end } = await api.start({ next, last: { at: '/paging', is: null } }, first.bench);
  expect(completed(end)).toMatchObject({ run, pages: 3, reports: 3 });
  expect(api.requested.filter(({ page }) => page < 3)).toHaveLength(2);
});

it('a page with a status of its own is described without a new run', async () => {
  await using api = await startApi((page) =>
    page === 1 ? json({ data: [1], next: 2 }) : { status: 206, ...json({ data: [2], next: null }) },
  );
  const first = await api.start({});
  const { run, message } = failed(first.end);
  expect(message).toContain('set page.status to [200, 206]');
  const page = { format: 'json', reports: '/data/*', status: [200, 206] };
  expect(completed((await api.start({ page }, first.bench)).end)).toMatchObject({ run, pages: 2, reports: 2 });
});

it('a single object in the place of the list is refused with the remedy', async () => {
  await using api = await startApi((page) =>
    page === 1 ? json({ data: [1, 2], next: 2 }) : json({ data: { id: 3 } }),
  );
  const first = await api.start({});
  expect(failed(first.end).message).toContain('set page.single to true');
  const page = { format: 'json', reports: '/data/*', single: true };
  expect(completed((await api.start({ page })).end)).toMatchObject({ pages: 2, reports: 3 });
});

it('an API that ignores the cursor, and writes another one into every response, ends the run at its third page', async () => {
  let issued = 1;
  await using api = await startApi(() => json({ took: issued, next: (issued += 1), data: [{ id: 1 }, { id: 2 }] }));
  const { end } = await api.start({});
  expect(failed(end)).toMatchObject({ error: 'RepeatedCursorError', pages: 3, resumable: true });
  expect(failed(end).message).toContain('has the same reports as the 2 pages before it');
  expect(api.requested).toHaveLength(3);
});

describe('Retry-After', () => {
  const answered = (page: number) => json({ data: [page], next: page < 3 ? page + 1 : null });

  it.each([429, 503, 502, 403, 400, 401, 404, 409, 420, 202])(
    'with status %i is waited for, and the run continues at the same page',
    async (status) => {
      await using api = await startApi((page, times) =>
        page === 2 && times === 1 ? { status, headers: { 'retry-after': '2.9' }, body: '{}' } : answered(page),
      );
      const { end } = await api.start({ auth: { kind: 'bearer' } });
      expect(completed(end)).toMatchObject({ pages: 3, reports: 3 });
      expect(api.requested.map(({ page }) => page)).toEqual([1, 2, 2, 3]);
      const [, refused, again] = api.requested;
      expect(Number(again?.at) - Number(refused?.at)).toBeGreaterThanOrEqual(2_900);
    },
  );

  it('as a date is compared with the clock of the service', async () => {
    const headers = { date: 'Fri, 20 Nov 2020 02:00:00 GMT', 'retry-after': 'Fri, 20 Nov 2020 02:00:07 GMT' };
    await using api = await startApi((page, times) =>
      page === 2 && times === 1 ? { status: 502, headers } : answered(page),
    );
    expect(completed((await api.start({})).end).pages).toBe(3);
    const [, refused, again] = api.requested;
    expect(Number(again?.at) - Number(refused?.at)).toBeGreaterThanOrEqual(7_000);
  });

  it('of a throttled page with status 200 is waited for, too', async () => {
    const throttled = { errors: [{ extensions: { code: 'THROTTLED', wait: 5 } }] };
    await using api = await startApi((page, times) => (page === 2 && times < 3 ? json(throttled) : answered(page)));
    const when = {
      throttled: { at: '/errors/0/extensions/code', is: 'THROTTLED', wait: '/errors/0/extensions/wait' },
      error: { at: '/errors' },
    };
    expect(completed((await api.start({ when })).end)).toMatchObject({ pages: 3, reports: 3 });
    const [, refused, again, third] = api.requested.map(({ at }) => at);
    expect(Number(again) - Number(refused)).toBeGreaterThanOrEqual(5_000);
    expect(Number(third) - Number(again)).toBeGreaterThanOrEqual(5_000);
  });
});

it('sends nothing to another host that the links of an API name, and keeps its own parameters', async () => {
  await using other = await startRawServer(rawResponse());
  const targets: string[] = [];
  await using server = await startRawServer((socket, { target }) => {
    targets.push(target);
    const page = Number(new URL(target, 'http://localhost').searchParams.get('page') ?? 1);
    const next = page < 3 ? `${other.url}/inner/logs?page=${page + 1}&limit=2` : null;
    socket.write(
      rawResponse({ headers: { 'content-type': 'application/json' }, body: JSON.stringify({ data: [page], next }) }),
    );
  });
  const { api } = describedWith({
    request: { path: '/logs', query: { kind: 'a', limit: '{size}' } },
    next: { from: 'body', at: '/next', to: { query: '*' } },
  });
  if (api === undefined) throw new Error('the description is not valid');
  await using service = clientFor(server, { api });
  const request = anExportRequest({ source: server.url, format: 'JSON', size: 1, api: apiOfRequest(describeApi(api)) });
  const bench = anExportBench({ definition: { request } });
  Object.assign(bench.deps, { service });
  expect(completed(await bench.start())).toMatchObject({ pages: 3, reports: 3 });
  expect(targets).toEqual(['/logs?kind=a&limit=1', '/logs?kind=a&page=2&limit=2', '/logs?kind=a&page=3&limit=2']);
  expect(other.requests).toEqual([]);
});

describe('the children of a counted list', () => {
  /** A list of projects, two of them a page, of which the first is deleted meanwhile, and a task of each. */
  async function aCountedList(next: object, query: Record<string, string>, list: object = {}) {
    const out = await aDirectory();
    const projects = ['a', 'b', 'c', 'd', 'e'];
    const requested: string[] = [];
    const server = await startRawServer((socket, { target }) => {
      const { pathname, searchParams } = new URL(target, 'http://localhost');
      const offset = Number(searchParams.get('offset') ?? 0);
      requested.push(pathname === '/projects' ? `${offset}` : pathname);
      const items = pathname === '/projects' ? projects.slice(offset, offset + 2) : ['task'];
      const body = JSON.stringify({ total: projects.length, items: items.map((id) => ({ id })) });
      if (requested.length === 1) projects.splice(0, 1);
      socket.end(rawResponse({ headers: { 'content-type': 'application/json' }, body }));
    });
    onTestFinished(server[Symbol.asyncDispose]);
    const from = { from: 'count', to: { query: 'offset' }, first: 0, step: 'reports', ...next };
    const api = { auth: { kind: 'none' }, page: { format: 'json', reports: '/items/*' } };
    const ofTasks = { request: { path: '/projects/{parent}/tasks' }, next: { from: 'none' } };
    const exports = [
      { name: 'projects', ...list, api: { request: { path: '/projects', query }, next: from } },
      { name: 'tasks', parents: { export: 'projects', id: '/id' }, api: ofTasks },
    ];
    const settings = join(out, 'settings.json');
    writeFileSync(settings, JSON.stringify({ services: { acme: { baseUrl: server.url, api } }, exports }));
    const run = async (...args: string[]) => {
      const ended = await runInProcess(['local', ...args, '--settings', settings, '--out', out, '--json'], {});
      expect(ended).toMatchObject({ status: 0 });
      return jsonOf(ended);
    };
    const parentsOf = async (manifest: string | null) =>
      (await readManifest(manifest ?? '')).pages.map(({ parent }) => parent);
    return { requested, run, parentsOf };
  }

  it.each([
    ['by their ID', '/id'],
    ['as a whole', ''],
  ])('are those of the pass that another one has confirmed %s, without a total', async (_, by) => {
    const { requested, run, parentsOf } = await aCountedList({ proof: 'twice', by }, {});
    await run('projects');
    // Page 1 of the first pass has a project that the second page does not follow any more.
    expect(requested).toEqual(['0', '2', '4', '0', '2', '4', '0', '2', '4']);
    const { manifest } = await run('tasks');
    expect(await parentsOf(manifest)).toEqual(['b', 'c', 'd', 'e']);
  });

  it('are exported for one run at a time with a total, as its runs list a period', async () => {
    const since = { initial: '2026-11-01T00:00:00Z', lag: 'PT1H' };
    const dates = { from: '{since}', to: '{until}' };
    const { requested, run, parentsOf } = await aCountedList({ total: '/total' }, dates, { since });
    const { run: runOfProjects } = await run('projects');
    expect(requested).toEqual(['0', '2', '0', '2', '4']);
    const skipped = await run('tasks');
    expect(skipped).toMatchObject({ status: 'skipped', reason: expect.stringContaining('with --parents RUN') });
    const { manifest } = await run('tasks', '--parents', String(runOfProjects));
    expect(await parentsOf(manifest)).toEqual(['b', 'c', 'd', 'e']);
  });
});
