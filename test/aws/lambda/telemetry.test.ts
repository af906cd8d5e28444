/** Which lines and metrics a function publishes for each event. */

import { describe, expect, it } from 'vitest';
import { createTelemetry, type TelemetryOutput } from '../../../lib/aws/lambda/telemetry.ts';
import { ExportError } from '../../../lib/core/errors.ts';
import type { ExportEvent } from '../../../lib/core/ports.ts';

/** The telemetry of an invocation for the export nightly, with what it logs and publishes. */
function anInvocation() {
  const lines: object[] = [];
  const published: object[] = [];
  const output: TelemetryOutput = {
    createLogger() {
      let keys: object = {};
      const log = (level: string) => (message: string, fields: object) =>
        void lines.push({ level, message, ...keys, ...fields });
      return {
        appendKeys: (fields) => void (keys = { ...keys, ...fields }),
        resetKeys: () => void (keys = {}),
        info: log('INFO'),
        error: log('ERROR'),
      };
    },
    createMetrics(dimensions) {
      let stored: Record<string, number | string> = {};
      return {
        addMetric: (name, _unit, value) => void (stored[name] = value),
        addMetadata: (name, value) => void (stored[name] = value),
        hasStoredMetrics: () => Object.keys(stored).length > 0,
        publishStoredMetrics() {
          published.push({ ...dimensions, ...stored });
          stored = {};
        },
      };
    },
  };
  const telemetry = createTelemetry(output);
  telemetry.setService('Reports', 'acme');
  telemetry.begin({ execution: 'E', request: 'Q' });
  telemetry.setExport('nightly');
  return { telemetry, lines, published };
}

const ofExport = { deployment: 'Reports', export: 'nightly' };
const ofService = { deployment: 'Reports', service: 'acme' };

describe('an event', () => {
  const page = { page: 3, bytes: 100, reports: 7 };
  it.each<[object, readonly object[]]>([
    [{ event: 'run-started' }, [{ ...ofExport, RunsStarted: 1 }]],
    [{ event: 'run-resumed' }, [{ ...ofExport, RunsResumed: 1 }]],
    [{ event: 'run-skipped' }, [{ ...ofExport, RunsSkipped: 1 }]],
    [{ event: 'run-completed' }, [{ ...ofExport, RunsCompleted: 1 }]],
    [{ event: 'run-completed', until: '2026-11-01T00:00:00Z' }, [{ ...ofExport, RunsCompleted: 1 }]],
    [{ event: 'run-completed', until: '2026-11-01T00:00:00Z', bounded: true }, []],
    [{ event: 'slice-restarted', slice: 3, attempt: 2 }, [{ ...ofExport, CursorRestarts: 1 }]],
    [
      { event: 'run-completed', secondsWithoutReports: 0 },
      [{ ...ofExport, RunsCompleted: 1, SecondsWithoutReports: 0 }],
    ],
    [
      { event: 'page-exported', ...page, latencyMs: 40 },
      [{ ...ofExport, PagesExported: 1, ServiceLatency: 40, BytesExported: 100, ReportsExported: 7 }],
    ],
    [{ event: 'page-adopted', ...page }, [{ ...ofExport, PagesAdopted: 1, BytesExported: 100, ReportsExported: 7 }]],
    [{ event: 'page-exported', ...page, reports: null }, [{ ...ofExport, PagesExported: 1, BytesExported: 100 }]],
    [
      { event: 'service-asked-to-wait', seconds: 90 },
      [
        { ...ofExport, Waits: 1, WaitSeconds: 90 },
        { ...ofService, WaitSeconds: 90 },
      ],
    ],
    [{ event: 'waiting-for-turn', seconds: 5 }, [{ ...ofExport, TurnWaits: 1, TurnWaitSeconds: 5 }]],
    [{ event: 'pages-without-reports', emptyPages: 100 }, []],
    [{ event: 'slice-ended', slice: 3, reason: 'gone' }, []],
  ])('%j is logged with its invocation, and counted', (event, metrics) => {
    const { telemetry, lines, published } = anInvocation();
    telemetry.emit(event as ExportEvent);
    telemetry.end();
    const { event: message, ...fields } = event as Record<string, unknown>;
    expect(lines).toEqual([{ level: 'INFO', message, execution: 'E', request: 'Q', export: 'nightly', ...fields }]);
    expect(published).toEqual(metrics);
  });

  it.each<[object, readonly object[]]>([
    [{ event: 'run-failed', export: 'nightly' }, [{ ...ofExport, RunsFailed: 1 }]],
    [{ event: 'slice-set-aside', slice: 3, error: 'ContractError' }, []],
  ])('%j is an error, whose message is a field of the line', (event, metrics) => {
    const { telemetry, lines, published } = anInvocation();
    telemetry.emit({ ...event, message: 'no page' } as ExportEvent);
    telemetry.end();
    const { event: message } = event as Record<string, unknown>;
    expect(lines).toMatchObject([{ level: 'ERROR', message, errorMessage: 'no page' }]);
    expect(published).toEqual(metrics);
  });

  it('about a refused start is not counted as a failed run', () => {
    const { telemetry, published } = anInvocation();
    const refused = { event: 'run-failed', export: 'nightly', run: null, message: 'Invalid start input' };
    telemetry.emit({ ...refused, error: 'ConfigurationError' } as ExportEvent);
    telemetry.emit({ ...refused, error: 'ServiceUnavailableError' } as ExportEvent);
    telemetry.end();
    expect(published).toEqual([{ ...ofExport, RunsFailed: 1 }]);
  });
});

describe('an invocation', () => {
  it('that fails logs its error, and counts it with its name', () => {
    const { telemetry, lines, published } = anInvocation();
    const error = new ExportError('ContractError', 'no page');
    telemetry.failed(error, { run: 'R', page: 3 });
    telemetry.end();
    expect(lines).toMatchObject([{ level: 'ERROR', message: 'attempt-failed', run: 'R', page: 3, error }]);
    expect(published).toEqual([{ ...ofExport, FailedAttempts: 1, error: 'ContractError' }]);
  });

  it('has nothing of the one before in its lines and metrics', () => {
    const { telemetry, lines, published } = anInvocation();
    telemetry.end();
    telemetry.begin({ execution: 'F', request: 'S' });
    telemetry.failed(new Error('no export'), {});
    telemetry.end();
    expect(lines).toEqual([expect.not.objectContaining({ export: 'nightly' })]);
    expect(lines).toMatchObject([{ execution: 'F', request: 'S' }]);
    expect(published).toEqual([]);
  });
});
