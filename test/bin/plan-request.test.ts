/** What `plan --request` finds out about an API. What it prints is in test/transcripts/described-api.txt. */

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { aDirectory, runInProcess } from '../support/process/command-line.ts';
import { aTreeExport } from '../support/export/tree-export.ts';
import { rawResponse, startRawServer } from '../support/service/raw-server.ts';

const key = 'the-key-of-the-service-0123456789';
const env = { REPORT_EXPORT_API_KEY: key };

const api = {
  request: { path: '/v1/events', query: { from: '{since}', to: '{until}', limit: '{size}' } },
  auth: { kind: 'bearer' },
  next: { from: 'body', at: '/paging/next', to: { query: 'cursor' } },
  page: { format: 'json', reports: '/events/*' },
};

/** The settings file of an export `events`. */
async function aFile({ baseUrl, description = api }: { readonly baseUrl: string; readonly description?: object }) {
  const file = join(await aDirectory(), 'settings.json');
  const settings = { services: { acme: { baseUrl, api: description } }, exports: [{ name: 'events', size: 100 }] };
  writeFileSync(file, JSON.stringify(settings));
  return file;
}

/** The API. `bodyOf` a page; in an empty interval, it has no reports. */
const startApi = (bodyOf: (target: string) => object, quietBody: object = { events: [], paging: { next: null } }) =>
  startRawServer((socket, { target }) => {
    const { searchParams } = new URL(target, 'http://localhost');
    const from = searchParams.get('from');
    const isQuiet = from !== null && from === searchParams.get('to');
    const body = JSON.stringify(isQuiet ? quietBody : bodyOf(target));
    socket.end(rawResponse({ headers: { 'content-type': 'application/json' }, body }));
  });

const notesIn = (stdout: string): readonly string[] => (JSON.parse(stdout) as { notes: readonly string[] }).notes;

describe('report-exporter plan --request', () => {
  it('ends a walk at a cursor that comes again', async () => {
    await using server = await startApi((target) => {
      const page = Number(/cursor=(\d+)/.exec(target)?.[1] ?? 1);
      return { events: [{}, { page }], paging: { next: String((page % 4) + 1) } };
    });
    const file = await aFile({ baseUrl: server.url });
    expect(await runInProcess(['plan', '--to-end', '--settings', file, '--since', '2026-11-01'], env)).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('Page 5 has a cursor that an earlier page had: 2'),
    });
  });

  it('requests the pages of the next parent, if the first one is gone, of which doctor warns', async () => {
    const { out, publish, remove } = await aTreeExport();
    const issues = [1, 2, 3].map((id) => ({ id, title: 'x' }));
    await publish({ 'a/b': issues, 'a/c': issues });
    remove('a/b');
    const plan = async () =>
      await runInProcess(['plan', 'issues', '--request', '--settings', join(out, 'settings.json'), '--out', out]);
    const { stdout, ...planned } = await plan();
    expect(planned).toMatchObject({
      status: 0,
      stderr: expect.stringContaining(
        'Page 1 of parent 1: the parent no longer exists (status 404, when.gone). Requesting the next one',
      ),
    });
    expect(stdout.match(/GET .*/g)).toEqual([
      expect.stringContaining('/repos/a/c/issues'),
      expect.stringContaining('/repos/a/c/issues?start=2'),
    ]);
    const doctor = await runInProcess(['doctor', 'issues', '--settings', join(out, 'settings.json'), '--out', out]);
    expect(doctor.status).toBe(0);
    expect(doctor.stdout).toMatch(/! service +.* returned status 404: the first parent no longer exists \(when.gone\)/);
    await publish({ 'a/b': issues.slice(0, 1), 'a/c': issues });
    remove('a/c');
    expect(await plan()).toMatchObject({
      status: 0,
      stdout: expect.stringContaining('/repos/a/b/issues'),
      stderr: expect.stringContaining('Page 1 of parent 2: the parent no longer exists (status 404, when.gone)\n'),
    });
    remove('a/b', 'a/c');
    expect(await plan()).toMatchObject({
      status: 1,
      stderr: expect.stringContaining(
        'each parent that was requested (2) that it no longer exists (status 404, when.gone)',
      ),
    });
  });

  it('requests no page of a parent that the start skips', async () => {
    await using server = await startApi(() => ({ events: [{}], paging: { next: null } }));
    const request = { path: '/v1/events', query: { of: '{parent}', limit: '{size}' } };
    const file = await aFile({ baseUrl: server.url, description: { ...api, request } });
    const settings = JSON.parse(readFileSync(file, 'utf8')) as { exports: readonly object[] };
    const exports = [{ ...settings.exports[0], parents: { values: ['a', 'b', 'c'] } }];
    writeFileSync(file, JSON.stringify({ ...settings, exports }));
    const words = ['plan', '--settings', file, '--request', '--skip-parent'];
    expect(await runInProcess([...words, 'b'], env)).toMatchObject({ status: 0 });
    expect(await runInProcess([...words, 'a'], env)).toMatchObject({ status: 0 });
    const parents = server.requests.map(({ target }) => /of=(.)/.exec(target)?.[1]);
    expect(parents).toEqual(['a', 'c', 'b', 'c']);
  });

  it('says that each page is requested twice, as by a run, if pages are counted without a total', async () => {
    const requested: string[] = [];
    await using server = await startApi((target) => {
      requested.push(target);
      return { events: target.endsWith('page=1') ? [{ id: 1 }, { id: 2 }] : [] };
    });
    const next = { from: 'count', to: { query: 'page' }, proof: 'twice', by: '/id' };
    const request = { path: '/v1/events', query: { limit: '{size}' } };
    const file = await aFile({ baseUrl: server.url, description: { ...api, request, next } });
    const planned = await runInProcess(['plan', '--settings', file], env);
    expect(planned.stdout).toContain('proof    each page is requested at least twice');
    const out = await aDirectory();
    const ended = await runInProcess(['local', '--settings', file, '--out', out], env);
    expect(ended).toMatchObject({
      status: 0,
      stderr: expect.stringContaining('Its second pass has to find the same ones'),
    });
    const pages = ['/v1/events?limit=100&page=1', '/v1/events?limit=100&page=2'];
    expect(requested).toEqual([...pages, ...pages]);
  });

  it.each([
    ['/no', 'next.by: report 1 of page 1 has no text or number at /no, so every run would fail'],
    ['/group', 'next.by: report 3 of page 1 has the ID of an earlier one, so every run would fail'],
    [['/group', '/id'], undefined],
    ['', undefined],
    ['', 'next.by: report 1 of page 1 has no text or number, so every run would fail', [true]],
    ['', 'next.by: report 2 of page 1 equals an earlier one, so every run would fail', [{ a: 1 }, { a: 1 }]],
  ])('says that next.by identifies no report: %j', async (by, problem, reports?: readonly unknown[]) => {
    const events = reports ?? [1, 2, 3].map((id) => ({ id, group: id % 2 }));
    await using server = await startApi((target) => ({ events: target.endsWith('page=1') ? events : [] }));
    const next = { from: 'count', to: { query: 'page' }, proof: 'twice', by };
    const { stdout } = await planned(server, { ...api, next });
    const found = notesIn(stdout).filter((note) => note.startsWith('next.by'));
    expect(found).toEqual(problem === undefined ? [] : [`${problem}. Name what identifies each report`]);
  });

  it('shows that a response without a page has ended the pages', async () => {
    await using server = await startRawServer((socket, { target }) => {
      const headers = { 'content-type': 'application/json' };
      const isFirst = !target.includes('cursor=');
      const page = { headers, body: '{"events": [{}], "paging": {"next": "b"}}' };
      socket.end(rawResponse(isFirst ? page : { status: 204, headers: {}, body: '' }));
    });
    const last = [{ at: '/paging/next', is: null }, { status: 204 }];
    const file = await aFile({ baseUrl: server.url, description: { ...api, last } });
    const ended = await runInProcess(['plan', '--to-end', '--settings', file, '--since', '2026-11-01T00:00:00Z'], env);
    expect(ended.stdout).toMatch(/cursor=b\n(?: {11}.*\n)*  response 204: the page before was the last one\n/);
    expect(ended.stdout).toContain('1 page, 1 report, ');
    expect(ended.stdout).toContain('Page 1 is the last one: the response to its cursor has status 204\n');
    expect(ended.stdout).not.toContain('the first page is the last one');
  });

  it('says what a run would miss', async () => {
    const headers = { 'content-type': 'application/json' };
    await using server = await startRawServer(rawResponse({ headers, body: '{"events":[{}],"paging":{"next":null}}' }));
    const file = await aFile({
      baseUrl: server.url,
      description: { ...api, request: { path: '/v1/events', query: { limit: '{size}' } } },
    });
    const ended = await runInProcess(['plan', '--request', '--settings', file, '--json'], env);
    expect(JSON.parse(ended.stdout)).toMatchObject({
      export: 'events',
      settings: file,
      plan: { act: 'start', since: '1970-01-01T00:00:00Z' },
      request: { method: 'GET' },
      pages: [{ reports: 1, next: { at: 'body /paging/next', cursor: null } }],
      notes: [
        'no request has {since}: every run exports everything',
        'slices and runs with an upper bound are not possible: requests have none',
        expect.stringMatching(/^nothing is at next.at \(\/paging\/next\), .*\. Try a smaller size, .*, check next.at /),
        expect.stringMatching(
          /^a page without reports may lack \/events, .*\. The documentation of the API may show such a page: /,
        ),
      ],
    });
    await using empty = await startRawServer(rawResponse({ headers, body: '{"events":[],"paging":{"next":null}}' }));
    expect(
      notesIn((await planned(empty, { ...api, request: { path: '/v1/events', query: { limit: '{size}' } } })).stdout),
    ).toContain('the first page has no reports, so its list and the next page were not seen');
  });

  it('says of {since-1} what it says of {since}', async () => {
    await using server = await startApi(() => ({ events: [{}], paging: { next: null } }));
    const request = { path: '/v1/events', query: { after: '{since-1}', limit: '{size}' } };
    const file = await aFile({ baseUrl: server.url, description: { ...api, dates: 'date', request } });
    const { stdout } = await runInProcess(['plan', '--request', '--json', '--settings', file], env);
    expect(notesIn(stdout)).toContainEqual(expect.stringMatching(/^dates\.zone is not set/));
    expect(stdout).not.toContain('every run exports everything');
  });

  const twoPages = (target: string) => ({
    events: [{ target }],
    total: 2,
    paging: { next: target.includes('cursor=') ? null : 'second' },
  });
  const planned = async (server: { readonly url: string }, description: object = api) => {
    const file = await aFile({ baseUrl: server.url, description });
    return await runInProcess(['plan', '--request', '--settings', file, '--since', '2026-11-01', '--json'], env);
  };

  it('asks for empty intervals at both bounds, and says that reports in them would be in two slices', async () => {
    await using server = await startApi(twoPages, { events: [{}], paging: { next: null } });
    const { status, stdout } = await planned(server);
    expect(status).toBe(0);
    expect(notesIn(stdout)).toEqual([
      expect.stringMatching(/^slices and runs with an upper bound would fail: .* ignores {until}/),
      expect.stringContaining('a page without reports may lack /events'),
    ]);
    const file = await aFile({ baseUrl: server.url });
    const bounds = ['--since', '2026-11-01', '--until', '2026-11-02'];
    expect(await runInProcess(['plan', '--request', '--settings', file, ...bounds], env)).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('the empty interval from 2026-11-02T00:00:00Z to 2026-11-02T00:00:00Z'),
    });
  });

  it('sees in an empty interval that a run without reports would fail, and the condition to set', async () => {
    await using server = await startApi(twoPages, { total: 0 });
    const { stdout } = await planned(server);
    expect(notesIn(stdout)).toEqual([
      expect.stringMatching(
        /^a run without reports would fail: .* It has \/total \(0\)\. .*set when.empty to {"at":"\/total","is":0}$/,
      ),
    ]);
    const corrected = await planned(server, { ...api, when: { empty: { at: '/total', is: 0 } } });
    expect(notesIn(corrected.stdout)).toEqual([]);
  });

  it.each([
    ['a page that is not the last one', { has_more: true }, { at: '/has_more', is: false }],
    ['a flag of another sense', { meta: { isLast: 'false' } }, { at: '/meta/isLast', is: true }],
  ])('names a flag that the description does not use: %s', async (_, fields, last) => {
    await using server = await startApi((target) => ({
      ...twoPages(target),
      ...(target.includes('cursor=') ? {} : fields),
    }));
    const file = await aFile({ baseUrl: server.url });
    const words = ['plan', '--settings', file, '--since', '2026-11-01', '--json', '--request'];
    const { stdout } = await runInProcess(words, env);
    expect(notesIn(stdout)).toEqual([expect.stringContaining(`set last to ${JSON.stringify(last)}`)]);
  });

  const full = Array.from({ length: 100 }, () => ({}));
  it.each([
    ['a flag that says that there is more', { events: [{}], has_more: true }, {}, 'true at /has_more'],
    ['a flag that says that it is not the last page', { events: [{}], isLast: false }, {}, 'false at /isLast'],
    ['a cursor beside it', { events: [{}], paging: { next_token: 'b' } }, {}, 'a value at /paging/next_token'],
    ['a larger total', { events: [{}], total_count: 7 }, {}, 'a total of 7 at /total_count'],
    ['a link', { events: [{}] }, { link: '</v1/events?page=2>; rel="next"' }, 'a Link with rel="next"'],
    ['a header', { events: [{}] }, { 'x-next-cursor': 'b' }, 'the header x-next-cursor'],
    ['a full page', { events: full }, {}, 'exactly as many reports as size (100)'],
  ])('warns of a next.at at which nothing is, if the page has %s', async (_, page, more, sign) => {
    const headers = { 'content-type': 'application/json', ...more };
    await using server = await startRawServer(
      rawResponse({ headers, body: JSON.stringify({ paging: { next: null }, prev_token: '', next: null, ...page }) }),
    );
    const next = { ...api.next, at: '/paging/wrong' };
    const { stdout } = await planned(server, { ...api, next });
    const warning = 'nothing is at next.at (/paging/wrong), so the run would end here. But the page has ';
    expect(notesIn(stdout)[0]).toBe(`${warning}${sign}. Check next.at (/paging/wrong)`);
    expect(stdout).not.toContain('looks like a flag');
    const file = await aFile({ baseUrl: server.url, description: { ...api, next } });
    const doctor = await runInProcess(['doctor', '--settings', file], env);
    expect(doctor.stdout).toContain(warning);
  });

  it('warns of no next.at on a page without reports, which may say what others say', async () => {
    await using server = await startApi(() => ({
      events: [],
      next_token: 'b',
      total_count: 7,
      paging: { next: null },
    }));
    expect(notesIn((await planned(server)).stdout)).toEqual(['the first page has no reports: try an earlier --since']);
  });

  it('names dates.zone, without which an empty interval is none', async () => {
    await using server = await startApi(twoPages);
    const dates = { form: 'yyyy-MM-dd HH:mm' };
    expect(notesIn((await planned(server, { ...api, dates })).stdout)).toEqual([
      expect.stringMatching(/^dates.zone is not set: /),
      expect.stringContaining('a page without reports may lack /events'),
    ]);
  });

  it('shows how an empty interval is rejected, which may be how a night without reports looks', async () => {
    await using server = await startRawServer((socket, { target }) => {
      const { searchParams } = new URL(target, 'http://localhost');
      const isQuiet = searchParams.get('from') === searchParams.get('to');
      const body = JSON.stringify(isQuiet ? { errors: ['No events found'] } : twoPages(target));
      const headers = { 'content-type': 'application/json' };
      socket.end(rawResponse({ headers, body, ...(isQuiet && { status: 404 }) }));
    });
    expect(notesIn((await planned(server)).stdout)).toEqual([
      expect.stringMatching(
        /an empty interval was rejected: .* 404 .*set when\.empty to {"status": 404, "at": "PATH", "is": "VALUE"}.*No events found/,
      ),
    ]);
  });

  it('keeps its other notes if the service is too busy for an empty interval', async () => {
    const busy = { error: { code: 'BUSY' } };
    await using server = await startApi((target) => ({ ...twoPages(target), paging: { next_page: 'b' } }), busy);
    const when = { throttled: { at: '/error/code', is: 'BUSY' } };
    const { status, stdout } = await planned(server, { ...api, next: { ...api.next, at: '/next' }, when });
    expect(status).toBe(0);
    expect(notesIn(stdout)).toEqual([
      expect.stringContaining('nothing is at next.at (/next), so the run would end here'),
      expect.stringMatching(/^an empty interval was not tried, .* too many requests\. .* Run plan --request again/),
      expect.stringContaining('a page without reports may lack /events'),
    ]);
  });

  it('names the parameters that the URL of the next page drops', async () => {
    await using server = await startApi((target) => ({
      ...twoPages(target),
      paging: { next: target.includes('cursor=') ? null : '/v1/events?limit=100&cursor=second' },
    }));
    const next = { from: 'body', at: '/paging/next', to: 'url' };
    const { stdout } = await planned(server, { ...api, next });
    expect(notesIn(stdout)).toEqual([
      expect.stringMatching(/^the URL of page 2 lacks from, to, .*next.to to {"query": "\*"}$/),
    ]);
    const merged = await planned(server, { ...api, next: { ...next, to: { query: '*' } } });
    expect(notesIn(merged.stdout)).toEqual([]);
  });

  it('ends at the third page in a row with the same reports, whose cursors are all different', async () => {
    let pages = 0;
    await using server = await startApi(() => ({ events: [{ id: 1 }], paging: { next: `token-${(pages += 1)}` } }));
    const file = await aFile({ baseUrl: server.url });
    const words = ['plan', '--settings', file, '--since', '2026-11-01'];
    expect(await runInProcess([...words, '--to-end'], env)).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('Pages 1 to 3 have the same reports, although each has another cursor'),
    });
    expect(server.requests).toHaveLength(3);
    const { stdout } = await runInProcess([...words, '--request', '--json'], env);
    expect(notesIn(stdout)).toEqual([expect.stringContaining('page 2 has the same reports as page 1')]);
  });
});
