/** `report-exporter plan --request`, mostly of a settings file before anything has run. */

import { readdirSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { aDirectory, runInProcess } from '../support/process/command-line.ts';
import { rawResponse, startRawServer } from '../support/service/raw-server.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import { someReports, startTestSimulator } from '../support/service/simulator-client.ts';

const key = 'the-key-of-the-service-0123456789';
const env = { REPORT_EXPORT_API_KEY: key };

const api = {
  request: { path: '/v1/events', query: { from: '{since}', to: '{until}', limit: '{size}' } },
  auth: { kind: 'bearer' },
  next: { from: 'body', at: '/paging/next', to: { query: 'cursor' } },
  page: { format: 'json', reports: '/events/*' },
};

/** The last of several exports has the size. */
async function aFile({
  baseUrl = 'https://api.example.com',
  description = api as object,
  names = ['events'],
  size = 100,
} = {}) {
  const directory = await aDirectory();
  const file = join(directory, 'settings.json');
  const services = { acme: { baseUrl, api: description } };
  writeFileSync(
    file,
    JSON.stringify({ services, exports: names.map((name) => ({ name, size: name === names.at(-1) ? size : 100 })) }),
  );
  return { directory, file };
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
  it('requests two pages, and shows what was sent and found, without the secret', async () => {
    await using server = await startApi((target) => ({
      events: [{}, { at: target }],
      paging: { next: target.includes('cursor=') ? null : 'second' },
    }));
    const { directory, file } = await aFile({ baseUrl: server.url });
    const ended = await runInProcess(['plan', '--request', '--settings', file, '--since', '2026-11-01T00:00:00Z'], env);
    expect(ended).toMatchObject({ status: 0 });
    expect(ended.stdout).toMatch(
      /request {2}GET http:\/\/127\.0\.0\.1:\d+\/v1\/events\?from=2026-11-01T00%3A00%3A00Z&to=.*&limit=100\n(?:.*\n)*? +Authorization: Bearer \(environment variable REPORT_EXPORT_API_KEY\)/,
    );
    expect(ended.stdout).toContain('next     body /paging/next: second\n');
    expect(ended.stdout).toContain('next     body /paging/next: none: this is the last page\n');
    expect(ended.stdout).toMatch(/&cursor=second\n/);
    expect(ended.stdout.match(/ · 2 reports · /g)).toHaveLength(2);
    expect(ended.stdout).not.toContain('!');
    expect(ended.stdout + ended.stderr).not.toContain(key);
    expect(readdirSync(directory)).toEqual(['settings.json']);
  });

  it('requests all pages with --to-end, stores nothing, and shows how it ended; a cursor that comes again is an error', async () => {
    let pages = 5;
    await using server = await startApi((target) => {
      const page = Number(/cursor=(\d+)/.exec(target)?.[1] ?? 1);
      return { events: [{}, { page }], paging: { next: page < pages ? String((page % 4) + 1) : null } };
    });
    const { directory, file } = await aFile({ baseUrl: server.url });
    const words = ['plan', '--to-end', '--settings', file, '--since', '2026-11-01T00:00:00Z'];
    pages = 4;
    const ended = await runInProcess(words, env);
    expect(ended).toMatchObject({ status: 0 });
    expect(ended.stdout.match(/ {2}request /g)).toHaveLength(2);
    expect(ended.stderr).toMatch(/^events: page 3 · .* · 2 reports\nevents: page 4 · .*\n$/);
    expect(ended.stdout).toMatch(
      / end {6}4 pages, 8 reports, .* Page 4 is the last one: it has no body \/paging\/next\n/,
    );
    // Two of them are those of empty intervals.
    expect(server.requests).toHaveLength(6);
    expect(readdirSync(directory)).toEqual(['settings.json']);

    pages = 5;
    const endless = await runInProcess([...words, '--json'], env);
    expect(endless).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('Page 5 has a cursor that an earlier page had: 2'),
    });
  });

  it('shows the request above the error of the service', async () => {
    await using server = await startRawServer(
      rawResponse({ status: 403, headers: { 'content-type': 'text/plain' }, body: 'no scope' }),
    );
    const { file } = await aFile({ baseUrl: server.url });
    const ended = await runInProcess(['plan', 'events', '--request', '--settings', file], env);
    expect(ended.stdout).toContain('request  GET ');
    expect(ended.stderr).toContain('no scope');
    expect(ended.status).toBe(2);
  });

  it('says what a run would miss', async () => {
    const headers = { 'content-type': 'application/json' };
    await using server = await startRawServer(rawResponse({ headers, body: '{"events":[{}],"paging":{"next":null}}' }));
    const { file } = await aFile({
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
        'the first page is the last one. Try an earlier --since or a smaller size, to see that the next page is found',
        expect.stringMatching(
          /^a page without reports may lack \/events, .* set when.empty, for example to {"at":"","is":null}$/,
        ),
      ],
    });
  });

  const twoPages = (target: string) => ({
    events: [{ target }],
    total: 2,
    paging: { next: target.includes('cursor=') ? null : 'second' },
  });
  const planned = async (server: { readonly url: string }, description: object = api) => {
    const { file } = await aFile({ baseUrl: server.url, description });
    return await runInProcess(['plan', '--request', '--settings', file, '--since', '2026-11-01', '--json'], env);
  };

  it('asks for empty intervals at both bounds, and says that reports in them would be in two slices', async () => {
    await using server = await startApi(twoPages, { events: [{}], paging: { next: null } });
    const { status, stdout } = await planned(server);
    expect(status).toBe(0);
    expect(notesIn(stdout)).toEqual([
      expect.stringMatching(/^slices and runs with an upper bound would fail: .* ignores {until}/),
      expect.stringMatching(/lack \/events, .*{"at":"\/total","is":0}$/),
    ]);
    const { file } = await aFile({ baseUrl: server.url });
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
        /^a run without reports would fail: .* has "total"\. .*set when.empty to {"at":"\/total","is":0}$/,
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
    const { file } = await aFile({ baseUrl: server.url });
    const words = ['plan', '--settings', file, '--since', '2026-11-01', '--json', '--request'];
    const { stdout } = await runInProcess(words, env);
    expect(notesIn(stdout)).toEqual([expect.stringContaining(`set last to ${JSON.stringify(last)}`)]);
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
    const { file } = await aFile({ baseUrl: server.url });
    const words = ['plan', '--settings', file, '--since', '2026-11-01'];
    expect(await runInProcess([...words, '--to-end'], env)).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('Pages 1 to 3 have the same reports, although each has another cursor'),
    });
    expect(server.requests).toHaveLength(3);
    const { stdout } = await runInProcess([...words, '--request', '--json'], env);
    expect(notesIn(stdout)).toEqual([expect.stringContaining('page 2 has the same reports as page 1')]);
  });

  it('sends the next request of what has run, and stores nothing', async () => {
    const out = await aDirectory();
    const reports = inMemoryReports(someReports(5));
    await using simulator = await startTestSimulator({ apiKey: key, reports });
    const local = ['local', '--out', out, '--base-url', simulator.baseUrl, '--size', '2'];
    expect(await runInProcess(local, env)).toMatchObject({ status: 0 });
    const words = ['plan', '--out', out, '--request', '--since', '2026-11-20T00:00:01Z'];
    const before = await readFile(join(out, 'state.sqlite'));
    const ended = await runInProcess(words, env);
    expect(ended.status).toBe(0);
    expect(ended.stdout).toMatch(
      /since {4}2026-11-20T00:00:01Z[^]* · 2 reports · root element reports · [^]*\nNothing was stored/,
    );
    expect(ended.stdout).toMatch(/next {5}header x-service-cursor: \d{13},/);
    expect(await readFile(join(out, 'state.sqlite'))).toEqual(before);
  });

  it('shows each of several exports, and one that fails does not hide the others', async () => {
    await using server = await startRawServer((socket, { target }) => {
      const fails = target.includes('limit=7');
      const headers = { 'content-type': fails ? 'text/plain' : 'application/json' };
      socket.end(rawResponse({ status: fails ? 403 : 200, headers, body: '{"events":[{}],"paging":{"next":null}}' }));
    });
    const { file } = await aFile({ baseUrl: server.url, names: ['one', 'two', 'three'], size: 7 });
    const ended = await runInProcess(['plan', 'one', 'three', '--request', '--settings', file], env);
    expect(ended.status).toBe(1);
    expect(ended.stdout).toMatch(
      /^The next start of one [^]* 1 report · [^]*\nThe next start of three [^]*&limit=7\n[^]*\nUnreadable: three\n.* 403/,
    );
    expect(ended.stdout).toContain('\n2 exports: 1 unreadable, 1 start\n');
    const planned = await runInProcess(['plan', '--all', '--settings', file, '--json'], {});
    expect(planned.status).toBe(0);
    expect(JSON.parse(planned.stdout).exports).toMatchObject([
      { export: 'one', plan: { act: 'start' } },
      { export: 'three', plan: { act: 'start' } },
      { export: 'two', plan: { act: 'start' } },
    ]);
  });

  it('sends nothing if a start would fail', async () => {
    const { file } = await aFile({ description: { ...api, request: { path: '/v1/events', query: { n: '{size}' } } } });
    const bounds = ['--since', '2026-01-01', '--until', '2026-02-01'];
    const ended = await runInProcess(['plan', '--request', '--settings', file, ...bounds], env);
    expect(ended).toMatchObject({ status: 1, stdout: expect.stringContaining('cannot have runs with an upper bound') });
  });
});
