/** Two exports of a service, for consumers: of repositories, and of the issues of each. */

import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { RunSummary } from '../../../lib/core/storage/published-schemas.ts';
import { aDirectory, jsonOf, readManifest, runInProcess } from '../process/command-line.ts';
import { listen } from '../service/loopback.ts';
import type { Manifest } from './export-bench.ts';

interface Issue {
  readonly id: number;
  readonly title: string;
}

/** Issues by the name of their repository, whose number in the list is its ID. Issues of the service are two a page. */
export type Tree = Readonly<Record<string, readonly Issue[]>>;

interface PublishedTree {
  readonly repos: Manifest;
  readonly issues: Manifest;
  readonly summary: RunSummary;
}

/** An export of the repositories and then of their issues, as often as the test wants, into a new directory. */
export async function aTreeExport(format: 'json' | 'ndjson' = 'json') {
  const out = await aDirectory();
  let tree: Tree = {};
  let gone: readonly string[] = [];
  const service = await listen(
    createServer(({ url = '' }, response) => {
      const { pathname, searchParams } = new URL(url, 'http://service');
      const [, , name = ''] = /^\/repos(\/(.+)\/issues)?$/.exec(decodeURIComponent(pathname)) ?? [];
      const issues = tree[name];
      if (name !== '' && (issues === undefined || gone.includes(name))) {
        response.writeHead(404).end('{}');
        return;
      }
      const start = Number(searchParams.get('start'));
      const items = name === '' ? Object.keys(tree).map((repo, index) => ({ id: index + 1, name: repo })) : issues;
      if (name !== '' && items !== undefined && start + 2 < items.length) {
        response.setHeader('Link', `<${service.url}${pathname}?start=${start + 2}>; rel="next"`);
      }
      const page = name === '' ? items : items?.slice(start, start + 2);
      const type = format === 'json' ? 'application/json' : 'application/x-ndjson';
      response.setHeader('Content-Type', type);
      const lines = (page ?? []).map((item) => `${JSON.stringify(item)}\n`);
      response.end(format === 'json' ? JSON.stringify({ items: page }) : lines.join(''));
    }),
  );
  onTestFinished(service[Symbol.asyncDispose]);
  const settings = join(out, 'settings.json');
  const page = format === 'json' ? { format, reports: '/items/*' } : { format };
  const exports = [
    { name: 'repos', api: { request: { path: '/repos' } } },
    {
      name: 'issues',
      parents: { export: 'repos', id: '/name', gone: { atMost: 50 } },
      api: { request: { path: '/repos/{+parent}/issues' } },
    },
  ];
  const api = { auth: { kind: 'none' }, next: { from: 'link' }, page };
  await writeFile(settings, JSON.stringify({ services: { acme: { baseUrl: service.url, api } }, exports }));
  const run = async (name: string, ...flags: readonly string[]): Promise<string> => {
    const ended = await runInProcess(['local', name, '--out', out, '--settings', settings, ...flags, '--json']);
    if (ended.status !== 0) throw new Error(ended.stderr);
    return jsonOf(ended).manifest ?? '';
  };
  /** Exports the repositories, then the issues of all but those `deleted` meanwhile. The flag RUN is the first run. */
  const publish = async (
    published: Tree,
    deleted: readonly string[] = [],
    ...flags: readonly string[]
  ): Promise<PublishedTree> => {
    [tree, gone] = [published, []];
    const repos = await readManifest(await run('repos'));
    gone = deleted;
    const manifest = await run('issues', ...flags.map((flag) => (flag === 'RUN' ? repos.run : flag)));
    const issues = await readManifest(manifest);
    const file = manifest.replace(/manifest\.json$/, issues.bounded ? 'bounded.json' : 'run.json');
    return { repos, issues, summary: JSON.parse(await readFile(file, 'utf8')) as RunSummary };
  };
  /** Later requests say that these are gone. */
  const remove = (...names: readonly string[]): void => void (gone = names);
  return { out, publish, remove };
}
