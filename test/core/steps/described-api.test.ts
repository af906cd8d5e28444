/** Differences of a described API: cursors in bodies, upper bounds, and descriptions that change. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import type { ExportRequest } from '../../../lib/core/model.ts';
import type { PageRequest, ReportService } from '../../../lib/core/ports.ts';
import { watermarkAfter } from '../../../lib/core/start/watermark.ts';
import {
  anExportDefinition,
  anExportRequest,
  anExportState,
  aPageEntry,
  aRun,
  at,
  sha256Of,
  withSpools,
} from '../../support/builders.ts';
import { anExportBench, type Bench, completed } from '../../support/export/export-bench.ts';
import { someReports } from '../../support/export/scripted-service.ts';

const refusal = {
  status: 'failed',
  failed: {
    error: 'ConfigurationError',
    message: expect.stringMatching(/other settings of the service.*start with --since/),
  },
};

const described = (description: string, request = 'the request'): Pick<ExportRequest, 'api'> => ({
  api: { pagination: 'body cursor', sha256: sha256Of(description), requestSha256: sha256Of(request) },
});

/** The same service, whose pages have the next cursor in their bodies. */
function withCursorsInBodies(service: ReportService): ReportService & { readonly requests: PageRequest[] } {
  const requests: PageRequest[] = [];
  return {
    requests,
    async fetch(request, options) {
      requests.push(request);
      const received = await service.fetch(request, { ...options, onNextCursor: undefined });
      if (received.kind === 'page') options.onNextCursor?.(received.nextCursor);
      return received;
    },
  };
}

describe('a cursor in the body', () => {
  it.each([
    ['once, so the run starts over', 1, { status: 'completed', result: { reports: 9 } }],
    ['always, so the run fails', 9, { status: 'failed', failed: { error: 'CursorRejectedError', resumable: false } }],
  ])('is rejected by a body with status 200 %s', async (_, times, expected) => {
    const bench = anExportBench({ reports: someReports(9), size: 2, limits: { pagesPerInvocation: 25 } });
    const service = withCursorsInBodies(bench.service);
    let left = times;
    const fetch: ReportService['fetch'] = async (request, options) => {
      const received = await service.fetch(request, { ...options, onNextCursor: undefined });
      if (request.cursor !== null && (left -= 1) >= 0) throw new ExportError('CursorRejectedError', 'expired');
      if (received.kind === 'page') options.onNextCursor?.(received.nextCursor);
      return received;
    };
    Object.assign(bench.deps, { service: { ...service, fetch } });
    expect(await bench.start()).toMatchObject(expected);
    expect(service.requests.filter(({ cursor }) => cursor === null).length).toBe(2);
  });

  it('lets the next page be requested once it is received, before its page is visible', async () => {
    const bench = anExportBench({ reports: someReports(9), size: 2, limits: { pagesPerInvocation: 25 } });
    const service = withCursorsInBodies(bench.service);
    const events: string[] = [];
    const store = withSpools(bench.store, ({ fill, put }, { page }) => ({
      async fill(body) {
        events.push(`page ${page} is requested`);
        await fill(body);
      },
      async put(received) {
        await new Promise((resolve) => setTimeout(resolve, 5));
        events.push(`page ${page} becomes visible`);
        return await put(received);
      },
    }));
    Object.assign(bench.deps, { service, store });
    await bench.start();
    expect(events.slice(0, 2)).toEqual(['page 1 is requested', 'page 2 is requested']);
    expect(events).toContain('page 1 becomes visible');
  });
});

describe('the requests of a described API', () => {
  it('all have the upper bound of the run, which is when it began', async () => {
    const bench = anExportBench({ reports: someReports(5), size: 2 });
    const result = completed(await bench.start());
    const bounds = new Set(bench.service.requests.map(({ until, begunAt }) => until ?? begunAt));
    expect([...bounds]).toEqual([bench.manifest(result.manifest).startedAt]);
  });

  it('have none of the reports since the run began, so the watermark is not later', () => {
    const run = aRun({ startedAt: at('2026-11-20T02:00:00Z'), request: { ...aRun().request, ...described('a') } });
    const first = aPageEntry({
      serviceTime: at('2026-11-20T02:00:09Z'),
      timing: { requestedAt: at('2026-11-20T02:00:04Z'), latencyMs: 1 },
    });
    expect(watermarkAfter(anExportState(), anExportDefinition(), run, [first])).toBe('2026-11-20T02:00:00Z');
  });
});

describe('a description that has changed', () => {
  const withApi = (bench: Bench, change: Pick<ExportRequest, 'api'>) => {
    const { request } = bench.deps.definition;
    return bench.with({ definition: { request: { ...request, ...change } } });
  };

  it.each([
    ['applies if the request is the same', described('b'), { status: 'completed' }],
    ['does not apply to another request', described('b', 'another request'), refusal],
    ['does not apply to the Report Export Service', { api: anExportRequest().api }, refusal],
  ])('has a watermark that %s', async (_, change, expected) => {
    const bench = anExportBench({ reports: someReports(1) });
    await withApi(bench, described('a')).start();
    expect(await withApi(bench, change).start()).toMatchObject(expected);
  });
});
