/** Descriptions of APIs: their problems in a settings file, and what a run keeps. Exchanges show which are valid. */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type Api, apiSchema, describeApi } from '../../../lib/service/api/description.ts';
import { loadPageCheck } from '../../../lib/service/formats/formats.ts';
import { parseDeployment } from '../../../lib/settings/deployment-settings.ts';
import { fileDocument } from '../../../lib/settings/settings-document.ts';
import { apiOfRequest } from '../../../lib/settings/settings.ts';
import { mutationsOf } from '../../support/mutations.ts';
import { cases, fc } from '../../support/property.ts';
import { describedWith } from '../../support/service/exchanges.ts';
import { problemsOfFile } from '../../support/settings-file.ts';

const base = {
  request: { path: '/v1/logs?v=1', query: { since: '{since}', limit: '{size}', kind: '{filter.kind}' } },
  auth: { kind: 'bearer' },
  next: { from: 'body', at: '/meta/next', to: { query: 'cursor' } },
  page: { format: 'json', reports: '/data/*' },
};
const feed = {
  request: { path: '/feed', query: { $filter: 'updated ge {since}' } },
  auth: { kind: 'basic' },
  next: { from: 'body', at: '/feed/link[@rel=next]/@href', to: 'url' },
  page: { format: 'xml', reports: '/feed/entry' },
};

/** The descriptions in the docs. */
const folder = join(import.meta.dirname, '../../../docs/apis');
const described: readonly Api[] = readdirSync(folder).flatMap((file) =>
  parseDeployment(fileDocument(join(folder, file))).services.flatMap(({ exports }) =>
    exports.map(({ api: { headers: _headers, pagination: _pagination, settings: _settings, ...api } }) => api),
  ),
);

it.each([
  [{ from: 'body', at: '/next', to: { query: 'c' } }, 'body cursor'],
  [{ from: 'body', at: '/next', to: 'url' }, 'body url'],
  [{ from: 'link' }, 'link url'],
  [{ from: 'header', at: 'X-Next', to: { query: 'c' } }, 'header cursor'],
  [{ from: 'report', at: '/id', to: { query: 'c' } }, 'report cursor'],
  [{ from: 'count', to: { query: 'page' }, total: '/total' }, 'counted'],
  [{ from: 'none' }, 'none'],
])('the manifest names the pagination of %j', (next, pagination) => {
  expect(describeApi(apiSchema.parse({ ...base, next })).pagination).toBe(pagination);
});

describe('a settings file', () => {
  it('has path and line of all that is wrong with a description', () => {
    const text = `{
  "services": { "a": { "baseUrl": "https://a.example",
    "api": {
      "request": { "path": "logs",
        "query": { "offset": "0", "k": "{apiKey}" } },
      "auth": { "kind": "oauth" },
      "next": { "from": "body", "at": "/next",
        "to": { "query": "cursor", "header": "a" } },
      "page": { "format": "json", "report": "/data/*" } } } },
  "exports": [{ "name": "a" }]
}`;
    expect(problemsOfFile(text)).toEqual([
      expect.stringMatching(/^some\.json:4 services\.a\.api\.request\.path: must begin/),
      expect.stringMatching(/^some\.json:5 services\.a\.api\.request\.query\.k: \{apiKey\}: a key/),
      expect.stringMatching(/^some\.json:5 services\.a\.api\.request\.query\.offset: offsets/),
      expect.stringMatching(/^some\.json:6 services\.a\.api\.auth\.kind: must be one of/),
      expect.stringMatching(/^some\.json:8 services\.a\.api\.next\.to: must have exactly one of/),
      expect.stringMatching(
        /^some\.json:9 services\.a\.api\.page: unknown field: "report"\. There are format, reports/,
      ),
    ]);
  });
});

describe('any description', () => {
  const descriptions = fc.constantFrom(...described);
  /** A parsed description, and one that differs from it in up to two places or in none. */
  const pairs = descriptions.chain((one) => fc.tuple(fc.constant(one), fc.oneof(mutationsOf(one), descriptions)));

  it('has a checksum that survives JSON and changes if and only if what selects pages changes', () => {
    fc.assert(
      fc.property(pairs, ([one, other]) => {
        const { data } = apiSchema.safeParse(other);
        if (data === undefined) return;
        const parsed = apiSchema.parse(one);
        const again = apiSchema.parse(JSON.parse(JSON.stringify(parsed)));
        expect(again).toEqual(parsed);
        expect(checksums(again)).toEqual(checksums(parsed));
        const isSame = (...fields: readonly (keyof typeof data)[]) =>
          fields.every((name) => sorted(data[name]) === sorted(parsed[name]));
        const [a, b] = [checksums(parsed), checksums(data)];
        const created = ({ job }: typeof data) => sorted(job?.create);
        const isSameRequest = isSame('request', 'dates', 'auth') && created(data) === created(parsed);
        expect(a.requestSha256 === b.requestSha256).toBe(isSameRequest);
        const read = ({ page, job }: typeof data) =>
          sorted({
            ...page,
            types: 0,
            status: 0,
            columns: 0,
            files: job?.result && [job.result.request, job.result.at],
          });
        expect(a.sha256 === b.sha256).toBe(isSameRequest && isSame('next') && read(data) === read(parsed));
      }),
      { numRuns: cases(1_000) },
    );
  });

  const step = fc.tuple(
    fc.constantFrom('a', 'ü', '*', '@b', '~1', '0', 'b:c', ''),
    fc.constantFrom(
      '',
      '',
      '[@a=x y]',
      '[@a="x"]',
      "[@a='x']",
      '[@a="]',
      `[@a='x"]`,
      '[@a:b=x]',
      '[@a=]',
      '[a=x]',
      "[a='x']",
      '[~1=]',
      '[1]',
    ),
  );
  const paths = fc.array(step, { maxLength: 4 }).map((steps) => steps.map((parts) => `/${parts.join('')}`).join(''));

  it('has paths that the check of its pages understands', async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(base, feed), paths, async (description, path) => {
        const next = { from: 'report', at: path, to: { query: 'cursor' } };
        const changes = [
          { when: { error: { at: path } } },
          { page: { ...description.page, reports: path } },
          { next, last: { reports: 0 } },
        ];
        for (const parts of changes) {
          const { api, problems } = describedWith({ ...description, ...parts });
          const createCheck = problems.length === 0 && api ? await loadPageCheck(api) : undefined;
          expect(() => createCheck?.(String)).not.toThrow();
        }
      }),
      { numRuns: cases(5_000) },
    );
  });
});

const checksums = (api: Parameters<typeof describeApi>[0]) => apiOfRequest(describeApi(api));

/** JSON in which fields are in order. */
const sorted = (value: unknown): string | undefined =>
  JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
