import { describe, expect, it } from 'vitest';
import { asDocumentRoot } from '../../lib/core/document-root.ts';
import { fixedApiKey } from '../../lib/service/client/api-key.ts';
import { always, errorDocument, type FaultScript, htmlAsXml } from '../support/service/faults.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import { probeService } from '../../lib/target/probe-service.ts';
import { anExportDefinition, anExportState, at } from '../support/builders.ts';
import { createMemoryLog } from '../support/export/memory-adapters.ts';
import { clientFor } from '../support/service/service-client.ts';
import { simulatorApiKey, someReports, startTestSimulator } from '../support/service/simulator-client.ts';

const definition = anExportDefinition();

/** `recorded`: the root element of completed runs. */
async function probe(faults: FaultScript, { named, recorded }: { named?: string; recorded?: string } = {}) {
  await using simulator = await startTestSimulator({ reports: inMemoryReports(someReports(3)), faults });
  await using service = clientFor({ url: simulator.baseUrl }, { apiKey: fixedApiKey(simulatorApiKey) });
  const log = createMemoryLog();
  if (recorded !== undefined) {
    await log.replaceState(anExportState({ export: definition.name, documentRoot: asDocumentRoot(recorded) }));
  }
  const probed = { ...definition, ...(named !== undefined && { documentRoot: asDocumentRoot(named) }) };
  const deps = { definition: probed, service, log, runtime: { now: Date.now } };
  return await probeService(deps, at('2026-11-01T00:00:00Z'));
}

describe('the check of a service', () => {
  it('accepts a page, and any document while no root element is known', async () => {
    expect(await probe(() => undefined, { recorded: 'reports' })).toMatchObject({ reports: 1 });
    expect(await probe(always(errorDocument))).toMatchObject({ reports: 2 });
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
