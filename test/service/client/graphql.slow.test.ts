/** Connections of GraphQL, made by graphql-relay, served by graphql-http: the last page has a cursor, too. */

import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { readFileSync, writeFileSync } from 'node:fs';
import type * as Graphql from 'graphql';
import type * as GraphqlHttp from 'graphql-http/lib/use/http';
import type * as Relay from 'graphql-relay';
import { expect, it } from 'vitest';
import { aDirectory, readManifest, runInProcess } from '../../support/process/command-line.ts';

// graphql-relay has CommonJS only, and all three must share one instance of graphql.
const require = createRequire(import.meta.url);
const { GraphQLNonNull, GraphQLObjectType, GraphQLSchema, GraphQLString } = require('graphql') as typeof Graphql;
const { createHandler } = require('graphql-http/lib/use/http') as typeof GraphqlHttp;
const { connectionArgs, connectionDefinitions, connectionFromArray } = require('graphql-relay') as typeof Relay;

const all = Array.from({ length: 25 }, (_, index) => ({
  id: `E-${String(index).padStart(2, '0')}`,
  date: new Date(Date.UTC(2026, 10, 1, index)).toISOString(),
}));

const text = { type: new GraphQLNonNull(GraphQLString) };
const { connectionType } = connectionDefinitions({
  nodeType: new GraphQLObjectType({ name: 'Event', fields: { id: text, date: text } }),
});
const schema = new GraphQLSchema({
  query: new GraphQLObjectType({
    name: 'Query',
    fields: {
      events: {
        type: connectionType,
        args: { ...connectionArgs, since: text },
        resolve: (_, { since, ...args }: { since: string }) =>
          connectionFromArray(
            all.filter(({ date }) => date >= since),
            args,
          ),
      },
    },
  }),
});

/** Settings for the server; `query` replaces the right one. */
const settingsFor = (
  baseUrl: string,
  limits: object,
  query = 'edges { node {id date} } pageInfo {hasNextPage endCursor}',
) => ({
  services: {
    events: {
      baseUrl,
      api: {
        request: {
          method: 'POST',
          path: '/graphql',
          body: {
            query: `query ($since: String!, $first: Int, $after: String) { events(since: $since, first: $first, after: $after) { ${query} } }`,
            variables: { since: '{since}', first: '{size}', after: null },
          },
        },
        dates: 'iso-ms',
        auth: { kind: 'none' },
        next: {
          from: 'body',
          at: '/data/events/pageInfo/endCursor',
          to: { body: '/variables/after' },
          alsoOnLast: true,
        },
        last: { at: '/data/events/pageInfo/hasNextPage', is: false },
        page: {
          format: 'json',
          types: ['application/json', 'application/graphql-response+json'],
          reports: '/data/events/edges/*',
        },
        when: { error: { at: '/errors/0/message' } },
      },
    },
  },
  exports: [{ name: 'events', size: 10, since: { initial: '2026-11-01T05:00:00Z' }, ...limits }],
});

it('are exported to the last page, from an interrupted run on; an error with status 200 is none of them', async () => {
  const handle = createHandler({ schema });
  const server = createServer((request, response) => void handle(request, response));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  try {
    const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const out = await aDirectory();
    const file = join(out, 'settings.json');
    const run = async (limits: object, query?: string, ...options: readonly string[]) => {
      writeFileSync(file, JSON.stringify(settingsFor(baseUrl, limits, query)));
      return await runInProcess(
        ['local', '--settings', file, '--out', join(out, 'exports'), '--max-attempts', '1', ...options],
        {},
      );
    };
    const wrong = await run({}, 'edges { node {name} }');
    expect(wrong).toMatchObject({ status: 1, stderr: expect.stringContaining('Cannot query field') });
    expect(await run({ maxPages: 1 }, undefined, '--restart')).toMatchObject({
      stderr: expect.stringContaining('limit of 1 page'),
    });
    expect(await run({})).toMatchObject({ status: 0 });
    const target = join(out, 'exports');
    const { manifest } = JSON.parse(readFileSync(join(target, 'events/latest.json'), 'utf8')) as { manifest: string };
    const { pages } = await readManifest(join(target, manifest));
    const items = pages.flatMap(({ key }: { key: string }) =>
      (
        JSON.parse(readFileSync(join(target, key), 'utf8')) as {
          data: { events: { edges: { node: { id: string } }[] } };
        }
      ).data.events.edges.map(({ node }) => node.id),
    );
    expect(pages).toHaveLength(2);
    expect(items).toEqual(all.slice(5).map(({ id }) => id));
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
