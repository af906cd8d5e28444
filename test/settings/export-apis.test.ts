/** The description of the API of an export: what its service has for all, and what the export changes. */

import { describe, expect, it } from 'vitest';
import { describeExport } from '../../lib/settings/export-apis.ts';
import { apiOfRequest } from '../../lib/settings/settings.ts';
import { anExportWith } from '../support/settings.ts';

const shared = {
  auth: { kind: 'bearer' },
  request: { query: { from: '{since}' } },
  next: { from: 'body', at: '/next', to: { query: 'cursor' } },
  last: { at: '/more', is: false },
  page: { format: 'json', reports: '/data/*', types: ['application/vnd.a+json'] },
  when: { error: { at: '/error' }, empty: { at: '/total', is: 0 } },
};
const contacts = { request: { path: '/contacts' } };
const apiOf = (own: object, service: object = shared) => anExportWith({ api: own }, { api: service }).api;

describe('an export', () => {
  it('has what its service has, and its own fields of request, page and when', () => {
    const own = { ...contacts, page: { reports: '/contacts/*' }, when: { empty: { status: 204 } } };
    expect(apiOf(own)).toMatchObject({
      request: { method: 'GET', path: '/contacts', query: { from: '{since}' } },
      dates: 'iso',
      auth: shared.auth,
      next: shared.next,
      last: shared.last,
      page: { ...shared.page, reports: '/contacts/*' },
      when: { error: { at: '/error' }, empty: { status: 204 } },
    });
  });

  it('replaces dates, next and last as a whole', () => {
    const next = { from: 'body', at: '/cursor', request: { query: { c: '{cursor}' } } };
    expect(apiOf({ ...contacts, dates: 'epoch', next, last: { at: '/end', is: true } })).toMatchObject({
      dates: 'epoch',
      next,
      last: { at: '/end', is: true },
    });
  });

  it('does not have the last of its service beside a next of its own', () => {
    expect(apiOf({ ...contacts, next: { from: 'link' } }).last).toBeUndefined();
    expect(apiOf(contacts).last).toEqual(shared.last);
  });

  it('has a condition for parents that no longer exist, if they are the reports of another export', () => {
    const gone = (parents: object, own: object = {}, service: object = shared) => {
      const settings = { services: { a: { baseUrl: 'https://a.example', api: service } } };
      const [named] = Object.entries(settings.services) as unknown as [Parameters<typeof describeExport>[0]];
      const api = { request: { path: '/{parent}/contacts' }, ...own };
      return describeExport(named, [0, { name: 'b', api, parents } as never]).api?.when?.gone;
    };
    const ofExport = { export: 'groups' };
    expect(gone(ofExport)).toEqual({ status: [404, 410] });
    expect(gone({ values: ['a'] })).toBeUndefined();
    expect(gone(ofExport, { when: { gone: null } })).toBeUndefined();
    expect(gone(ofExport, { when: { gone: { status: 404 } } })).toEqual({ status: 404 });
    expect(gone(ofExport, {}, { ...shared, when: { gone: { status: 410 } } })).toEqual({ status: 410 });
  });

  it('removes a field with null', () => {
    const api = apiOf({
      request: { path: '/contacts', query: null },
      page: { types: null },
      when: { error: null },
      last: null,
    });
    expect(api.request).toEqual({ method: 'GET', path: '/contacts' });
    expect(api.page).toEqual({ format: 'json', reports: '/data/*' });
    expect(api.when).toEqual({ empty: { at: '/total', is: 0 } });
    expect(api.last).toBeUndefined();
  });

  it('keeps null in a body, which is a value', () => {
    const body = { after: null };
    const next = { from: 'body', at: '/next', to: { body: '/after' } };
    expect(apiOf({ request: { method: 'POST', path: '/graphql', body }, next }).request.body).toEqual(body);
  });
});

describe('the checksum of a run', () => {
  const checksumOf = (own: object) => apiOfRequest(apiOf({ ...contacts, ...own })).sha256;

  it.each([
    ['the request', { request: { path: '/contacts', query: { v: '1' } } }],
    ['the dates', { dates: 'epoch' }],
    ['the next page', { next: { from: 'link' } }],
    ['where the reports are', { page: { reports: '/contacts/*' } }],
    ['what a single object means', { page: { single: true } }],
  ])('changes with %s', (_, own) => {
    expect(checksumOf(own)).not.toBe(checksumOf({}));
  });

  it.each([
    ['last', { last: { at: '/end', is: true } }],
    ['when', { when: { error: null, throttled: { status: 403 } } }],
    ['the content types of pages', { page: { types: ['application/json'] } }],
    ['the statuses of pages', { page: { status: [200, 206] } }],
  ])('stays if only reading changes: %s', (_, own) => {
    expect(checksumOf(own)).toBe(checksumOf({}));
  });
});
