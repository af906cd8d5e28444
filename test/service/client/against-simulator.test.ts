/** The client against the simulator. What the client does with each response: responses.test.ts and response-body.test.ts. */

import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Cursor, Instant } from '../../../lib/core/model.ts';
import type { PageRequest, ReportService } from '../../../lib/core/ports.ts';
import { generatedReports } from '../../../lib/service/simulator/generated-reports.ts';
import type { SimulatorOptions } from '../../support/service/simulator.ts';
import { startSimulator } from '../../support/service/simulator.ts';
import { clientFor, pageRequest, readPage, trickyApiKey } from '../../support/service/service-client.ts';
import { fetchPage } from '../../support/builders.ts';

const now = () => Date.parse('2026-11-20T02:00:00Z');

const simulate = (options: Partial<SimulatorOptions> = {}) =>
  startSimulator({
    vendor: 'SERVICE',
    apiKey: trickyApiKey,
    reports: generatedReports({ seed: 1, count: 25, now }),
    now,
    ...options,
  });

function requestFor(cursor: Cursor | null = null, size = 10): PageRequest {
  return { ...pageRequest({ cursor, size }), since: '1970-01-01T00:00:00Z' as Instant };
}

/** Fetches every page. */
async function fetchAll(client: ReportService, size?: number) {
  const pages: { reports: number | null; sha256: string }[] = [];
  let cursor: Cursor | null = null;
  do {
    const page = await fetchPage(client, requestFor(cursor, size));
    const body = await readPage(page);
    pages.push({ reports: page.reports, sha256: createHash('sha256').update(body).digest('hex') });
    cursor = page.nextCursor;
  } while (cursor !== null);
  return pages;
}

describe('a run', () => {
  it.each([
    ['query', 10, [10, 10, 5]],
    ['body', 10, [10, 10, 5]],
    ['query', 5, [5, 5, 5, 5, 5]],
    ['query', undefined, [10, 10, 5]],
  ] as const)(
    'with the cursor in the %s and size %s receives every report, byte for byte',
    async (cursorIn, size, counts) => {
      await using simulator = await simulate({ vendor: 'Acme-2' });
      await using client = clientFor({ url: simulator.baseUrl }, { cursorIn, vendor: 'Acme-2' });
      const pages = await fetchAll(client, size);
      expect(pages.map(({ reports }) => reports)).toEqual(counts);
      expect(pages.map(({ sha256 }) => sha256)).toEqual(simulator.exchanges.map(({ sha256 }) => sha256));
    },
  );
});
