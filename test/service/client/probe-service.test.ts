import { describe, expect, it } from 'vitest';
import { asDocumentRoot } from '../../../lib/core/document-root.ts';
import { fixedApiKey } from '../../../lib/service/client/api-key.ts';
import {
  always,
  errorDocument,
  type FaultScript,
  htmlAsXml,
  onRequest,
  throttled,
} from '../../support/service/faults.ts';
import { inMemoryReports } from '../../support/service/in-memory-reports.ts';
import { type ProbedPeriod, probeService } from '../../../lib/service/client/probe-service.ts';
import { anExportDefinition, anExportState, at } from '../../support/builders.ts';
import { createMemoryLog } from '../../support/export/memory-adapters.ts';
import { clientFor } from '../../support/service/service-client.ts';
import { simulatorApiKey, someReports, startTestSimulator } from '../../support/service/simulator-client.ts';

const base = anExportDefinition();
const definition = { ...base, request: { ...base.request, size: 2 } };

interface ProbeOptions {
  readonly named?: string;
  readonly recorded?: string;
  readonly period?: ProbedPeriod;
  readonly waits?: (number | string)[];
}

/** `recorded`: the root element of completed runs. Adds waits, and what is said before them, to `waits`. */
async function probe(
  faults: FaultScript,
  { named, recorded, period = { since: at('2026-11-01T00:00:00Z') }, waits = [] }: ProbeOptions = {},
) {
  await using simulator = await startTestSimulator({ reports: inMemoryReports(someReports(3)), faults });
  const waitedMs = () => waits.reduce<number>((sum, each) => sum + (typeof each === 'number' ? each : 0), 0);
  await using service = clientFor(
    { url: simulator.baseUrl },
    { apiKey: fixedApiKey(simulatorApiKey), filterUntil: 'date.lt', now: () => Date.now() + waitedMs() },
  );
  const log = createMemoryLog();
  if (recorded !== undefined) {
    await log.replaceState(anExportState({ export: definition.name, documentRoot: asDocumentRoot(recorded) }));
  }
  const probed = { ...definition, ...(named !== undefined && { documentRoot: asDocumentRoot(named) }) };
  const sleep = async (ms: number) => void waits.push(ms);
  const deps = { definition: probed, service, log, runtime: { now: Date.now, sleep } };
  return await probeService({ ...deps, notify: (text) => waits.push(text) }, period);
}

describe('the check of a service', () => {
  it('accepts a page, and any document while no root element is known', async () => {
    expect(await probe(() => undefined, { recorded: 'reports' })).toMatchObject({ reports: 2 });
    expect(await probe(always(errorDocument))).toMatchObject({ reports: 2 });
  });

  it('says that a parent is gone, of which nothing else can be said', async () => {
    const service = { fetch: async () => ({ kind: 'end', reason: 'gone', status: 404 }) as const };
    const deps = { definition, parent: { id: 'a' }, service, log: createMemoryLog() };
    const runtime = { now: Date.now, sleep: async () => {} };
    const period = { since: at('2026-11-01T00:00:00Z') };
    expect(await probeService({ ...deps, runtime }, period)).toEqual({ goneStatus: 404 });
  });

  it('requests what a run would: pages of its size, and up to its end', async () => {
    const period = { since: at('2026-11-01T00:00:00Z'), until: at('2026-11-01T00:00:00Z') };
    expect(await probe(() => undefined)).toMatchObject({ reports: 2 });
    expect(await probe(() => undefined, { period })).toMatchObject({ reports: 0 });
  });

  it('waits as the service says, says so, and gives up after a minute', async () => {
    const waits: (number | string)[] = [];
    expect(await probe(onRequest(1, throttled('2')), { waits })).toMatchObject({ reports: 2 });
    expect(waits).toEqual(['Waiting 2 s before page 1 of the next run (Retry-After)', 2_000]);
    for (const [retryAfter, count] of [
      ['61', 0],
      ['25', 4],
    ] as const) {
      const all: (number | string)[] = [];
      const probing = probe(always(throttled(retryAfter)), { waits: all });
      await expect(probing).rejects.toMatchObject({ name: 'ServiceThrottledError' });
      expect(all).toHaveLength(count);
    }
  });

  it.each([
    ['the settings name another root element', { named: 'reports' }],
    ['completed runs have another root element', { recorded: 'reports' }],
  ])('refuses a document that is no page if %s', async (_, known) => {
    for (const document of [errorDocument, htmlAsXml]) {
      await expect(probe(always(document), known)).rejects.toMatchObject({
        name: 'ContractError',
        message: expect.stringMatching(/but reports is expected/),
      });
    }
  });
});
