/** The simulator of described APIs accepts nothing but what a description says, so that tests hold the client to it. */

import { describe, expect, it } from 'vitest';
import { apiSchema } from '../../../lib/settings/api-settings.ts';
import { inMemoryReports } from '../../support/service/in-memory-reports.ts';
import { type SimulatorOptions, startSimulator } from '../../support/service/simulator.ts';
import { someReports } from '../../support/service/simulator-client.ts';

const key = 'user:the-key';

const simulate = (api: object, options: Partial<SimulatorOptions> = {}) =>
  startSimulator({
    vendor: 'ACME',
    apiKey: key,
    reports: inMemoryReports(someReports(3)),
    api: apiSchema.parse(api),
    ...options,
  });

const auditLog = {
  request: { path: '/logs', query: { since: '{since}', limit: '{size}', kind: 'audit' } },
  auth: { kind: 'bearer' },
  next: { from: 'body', at: '/meta/next', to: { query: 'cursor' }, end: { flag: '/meta/more' } },
  page: { format: 'json', reports: '/data/*' },
};
const since = '2026-11-20T00:00:00Z';
const authorization = `Bearer ${key}`;

const search = {
  request: {
    method: 'POST',
    path: '/search/{filter.type}?pretty=1',
    body: { range: { from: '{since}', to: '{until}' }, size: '{size}', tags: ['a', '{filter.tag}'] },
  },
  dates: 'epoch',
  auth: { kind: 'none' },
  next: { from: 'header', at: 'Next', to: { body: '/paging/cursor', alone: true } },
  page: { format: 'xml' },
};
const searchBody = { range: { from: Date.UTC(2026, 10, 20) / 1_000, to: 2_000_000_000 }, size: 2, tags: ['a'] };

const status = async (url: string, init?: RequestInit): Promise<number> => {
  const response = await fetch(url, init);
  await response.arrayBuffer();
  return response.status;
};
const post = (body: unknown): RequestInit => ({
  method: 'POST',
  body: JSON.stringify(body),
  headers: { 'content-type': 'application/json' },
});

describe('a request', () => {
  it.each([
    ['of the description', `?since=${since}&limit=2&kind=audit`, 200],
    ['without a size', `?since=${since}&kind=audit`, 200],
    ['without its lower bound', '?limit=2&kind=audit', 400],
    ['without a fixed parameter', `?since=${since}&limit=2`, 400],
    ['with another value', `?since=${since}&limit=2&kind=other`, 400],
    ['with a date in another form', '?since=1763596800&limit=2&kind=audit', 400],
    ['with a date that there is not', '?since=2026-13-20T00:00:00Z&kind=audit', 400],
    ['with a size that is no number', `?since=${since}&limit=two&kind=audit`, 400],
    ['with a size of 0', `?since=${since}&limit=0&kind=audit`, 400],
    ['with a parameter twice', `?since=${since}&since=${since}&kind=audit`, 400],
    ['with an unknown parameter', `?since=${since}&kind=audit&sort=asc`, 400],
    ['with an unknown cursor', `?since=${since}&kind=audit&cursor=abc`, 400],
    ['for another path', `/archive?since=${since}&kind=audit`, 404],
  ])('%s: %s', async (_, query, expected) => {
    await using simulator = await simulate(auditLog);
    expect(await status(`${simulator.baseUrl}/logs${query}`, { headers: { authorization } })).toBe(expected);
  });

  it.each([
    ['of the description', '/x?pretty=1', searchBody, 200],
    ['with all values', '/x%2Fy?pretty=1', { ...searchBody, tags: ['a', { any: 'value' }] }, 200],
    ['without the query of its path', '/x', searchBody, 400],
    ['with a number as text', '/x?pretty=1', { ...searchBody, size: '2' }, 400],
    ['without a field', '/x?pretty=1', { size: 2, tags: ['a'] }, 400],
    ['with another item', '/x?pretty=1', { ...searchBody, tags: ['b'] }, 400],
    ['with an unknown field', '/x?pretty=1', { ...searchBody, sort: 'asc' }, 400],
    ['with a list as body', '/x?pretty=1', [searchBody], 400],
    ['with a longer path', '/x/y?pretty=1', searchBody, 404],
    ['with a path that is not encoded', '/%zz?pretty=1', searchBody, 404],
    ['with a number beyond those of JavaScript', '/x?pretty=1', { ...searchBody, size: 1e30 }, 400],
  ])('with a body, %s: %s', async (_, target, body, expected) => {
    await using simulator = await simulate(search);
    expect(await status(`${simulator.baseUrl}/search${target}`, post(body))).toBe(expected);
  });

  it('with a cursor that is sent alone must have nothing else', async () => {
    await using simulator = await simulate({ ...search, request: { ...search.request, path: '/search' } });
    const url = `${simulator.baseUrl}/search`;
    const first = await fetch(url, post(searchBody));
    const cursor = first.headers.get('next');
    expect(await first.text()).toContain('<r id="r1"/><r id="r2"/>');
    expect(await status(url, post({ ...searchBody, paging: { cursor } }))).toBe(400);
    const second = await fetch(url, post({ paging: { cursor } }));
    expect(await second.text()).toContain('<reports><r id="r3"/></reports>');
    expect(second.headers.has('next')).toBe(false);
  });

  it('with a cursor of other values is rejected', async () => {
    await using simulator = await simulate(auditLog);
    const url = `${simulator.baseUrl}/logs?since=${since}&kind=audit`;
    const first = await fetch(`${url}&limit=1`, { headers: { authorization } });
    const { meta } = (await first.json()) as { meta: { next: string } };
    const cursor = encodeURIComponent(meta.next);
    expect(await status(`${url}&limit=2&cursor=${cursor}`, { headers: { authorization } })).toBe(400);
  });
});
