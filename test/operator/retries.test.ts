/** What a start says of retries, and at the end of them. */

import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { systemRuntime } from '../../lib/core/clock.ts';
import { type ErrorName, ExportError } from '../../lib/core/errors.ts';
import type { Cursor } from '../../lib/core/model.ts';
import type { PageRequest, ReportService } from '../../lib/core/ports.ts';
import { runLocally } from '../../lib/local/run.ts';
import { startExports } from '../../lib/operator/start-exports.ts';
import type { StartOptions, StartRequest, Target } from '../../lib/target/target.ts';
import { anExportDefinition, anExportRequest, someLimits } from '../support/builders.ts';
import { cursorAt, scriptedService, someReports } from '../support/export/scripted-service.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

describe('a run whose service does not recover', () => {
  /** Runs an export of two reports per page without delays. Returns what it says with `--quiet`. */
  async function follow(service: ReportService, maxAttempts?: number) {
    await using directory = await temporaryDirectory();
    let stdout = '';
    let stderr = '';
    const context = {
      env: {},
      stdin: Readable.from([]),
      stdout: { write: (text: string) => (stdout += text) },
      stderr: { write: (text: string) => (stderr += text) },
      signal: new AbortController().signal,
      program: 'npx report-exporter',
      options: { quiet: true },
    };
    const limits = { ...someLimits(), pagesPerInvocation: 1_000 };
    const definition = anExportDefinition({ name: 'nightly', request: anExportRequest({ size: 2 }), limits });
    const start = (options: StartOptions) =>
      runLocally({
        definition,
        service,
        out: directory.path,
        startInput: {},
        // The random part of each delay is zero.
        runtime: { ...systemRuntime, randomHex: (length) => '0'.repeat(length) },
        ...options,
      });
    const open = async () => ({
      definition,
      log: { async *boundedStates() {} },
      start: (_: StartRequest, options: StartOptions) => start(options),
    });
    const settings = { request: {}, follow: true, command: 'start', maxAttempts };
    const status = await startExports({ option: '', open } as unknown as Target, ['nightly'], settings, context);
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
    return stderr.replaceAll(/^20\d\d-\S+Z (?=\S)/gm, '');
  }

  it.each<[string, Cursor | null, readonly ErrorName[], readonly string[]]>([
    [
      'after pages that the same invocation has exported',
      cursorAt(4),
      ['ContractError', 'ContractError', 'ContractError', 'ContractError'],
      ['attempt 2 of 4', 'attempt 3 of 4', 'attempt 4 of 4'],
    ],
    [
      'over different errors',
      null,
      ['ServiceUnavailableError', 'ContractError', 'ContractError', 'ContractError'],
      ['attempt 2 of 21', 'attempt 3 of 4', 'attempt 4 of 4'],
    ],
    [
      'if the last error is not that of the last retry',
      null,
      ['ContractError', 'ContractError', 'ServiceUnavailableError', 'ContractError'],
      ['attempt 2 of 3', 'attempt 3 of 3', 'attempt 4 of 23'],
    ],
  ])('counts the requests for a page %s', async (_, failing, errors, attempts) => {
    const isFailing = ({ cursor }: PageRequest) => cursor === failing;
    const service = scriptedService(someReports(9), (request) => {
      const count = service.requests.filter(isFailing).length;
      if (isFailing(request)) throw new ExportError(errors[count - 1] ?? 'RequestRejectedError', 'failed');
      return undefined;
    });
    const written = await follow(service);
    expect(service.requests.filter(isFailing)).toHaveLength(4);
    expect(written.match(/attempt .* of \d+/g)).toEqual(attempts);
    expect(written).toContain('\n  Gave up after 3 retries. Run again to resume');
  });

  it('counts at most as many requests as it is told', async () => {
    const service = scriptedService(someReports(9), () => {
      throw new ExportError('ServiceUnavailableError', 'failed');
    });
    const written = await follow(service, 2);
    expect(service.requests).toHaveLength(2);
    expect(written).toContain('(attempt 2 of 2): ServiceUnavailableError');
    expect(written).toContain('\n  Gave up after 1 retry. Run again to resume.\n');
  });

  it('are not said to be used up by an error that is not retried', async () => {
    const service = scriptedService(someReports(9), () => {
      const isFirst = service.requests.length === 1;
      throw new ExportError(isFirst ? 'ServiceUnavailableError' : 'ConfigurationError', 'failed');
    });
    const written = await follow(service);
    expect(written).toContain('Retrying');
    expect(written).toContain('ConfigurationError: failed');
    expect(written).not.toContain('Gave up');
  });
});
