/** The contract of the `IncidentLog` port: every implementation passes these tests. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  addIncident,
  countIncidents,
  type Incident,
  type IncidentLog,
  noIncidents,
} from '../../lib/target/incidents.ts';
import { anExportName, aRunId, at } from '../support/builders.ts';

export interface IncidentLogHarness {
  readonly log: IncidentLog;
  cleanup(): Promise<void>;
}

const aRunRef = () => ({ export: anExportName(), run: aRunId() });
const aWait = (page: number): Incident => ({ kind: 'wait', at: at('2026-11-20T02:00:00.250Z'), page, seconds: 7 });
const failed = {
  kind: 'failed-attempt',
  at: at('2026-11-20T02:00:01Z'),
  page: null,
  error: 'ServiceUnavailableError',
  message: 'Report service responded with 503 — „später“ \u{1f4a4}',
  retry: { state: 'FinishRun', attempt: 2, maxAttempts: 20 },
} as const satisfies Incident;

export function incidentLogContract(name: string, makeHarness: () => Promise<IncidentLogHarness> | IncidentLogHarness) {
  describe(`${name} (incident log contract)`, () => {
    let harness: IncidentLogHarness;
    beforeAll(async () => {
      harness = await makeHarness();
    });
    afterAll(async () => await harness.cleanup());
    const add = async (run: ReturnType<typeof aRunRef>, incident: Incident) =>
      await harness.log.update(run, (record) => addIncident(record, incident));

    it('has no incidents of a run without any', async () => {
      expect(await harness.log.read(aRunRef())).toEqual(noIncidents);
    });

    it('returns what was recorded, in order, and of no other run or export', async () => {
      const run = aRunRef();
      await add({ ...run, run: aRunId() }, aWait(1));
      await add({ ...run, export: anExportName() }, aWait(1));
      const attempts = { enteredAt: '2026-11-20T02:00:00.123Z', errors: ['ServiceUnavailableError'] };
      const last: Incident = { kind: 'failed-run', at: at('2026-11-20T02:01:00Z'), page: 3, error: 'E', message: 'm' };
      await add(run, aWait(2));
      await add(run, failed);
      await add(run, last);
      await harness.log.update(run, (record) => ({ ...record, attempts }));
      const { newest, groups, attempts: recorded } = await harness.log.read(run);
      expect(newest).toEqual([aWait(2), failed, last]);
      expect(recorded).toEqual(attempts);
      expect(countIncidents({ groups })).toEqual({ failedAttempts: 1, waits: 1, waitSeconds: 7, failures: 1 });
    });

    it('keeps the newest hundred incidents and counts all of them, in less than 400 KB', async () => {
      const run = aRunRef();
      const many = Array.from({ length: 130 }, (_, page) => ({ ...failed, page, message: '\u4e2d'.repeat(5_000) }));
      await harness.log.update(run, (record) => many.reduce(addIncident, record));
      const record = await harness.log.read(run);
      expect(countIncidents(record).failedAttempts).toBe(130);
      expect(record.newest.map(({ page }) => page)).toEqual(Array.from({ length: 100 }, (_, index) => index + 30));
      expect(Buffer.byteLength(JSON.stringify(record))).toBeLessThan(400_000);
    });

    it('writes nothing if nothing changes', async () => {
      const run = aRunRef();
      await harness.log.update(run, (record) => record);
      expect(await harness.log.read(run)).toEqual(noIncidents);
    });
  });
}
