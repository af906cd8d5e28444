/** What the caller of a start learns while the run is in progress and at its end. */

import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { systemRuntime } from '../../lib/core/clock.ts';
import { ExportError } from '../../lib/core/errors.ts';
import { runLocally } from '../../lib/local/run.ts';
import { followRun } from '../../lib/operator/follow-run.ts';
import type { StartOptions } from '../../lib/target/target.ts';
import { anExportDefinition } from '../support/builders.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** The start of a deployed export that is not watched to the end of its run. */
async function startUnwatched(follow: boolean) {
  const written: string[] = [];
  const terminal = { write: (text: string) => written.push(text) };
  const context = {
    env: {},
    stdin: Readable.from([]),
    stdout: terminal,
    stderr: terminal,
    signal: new AbortController().signal,
    program: 'npx report-exporter',
  };
  const next = { help: 'report-exporter start --help', watch: 'report-exporter status' };
  const start = async () => ({ status: 'started', execution: 'one', run: null }) as const;
  const { exitStatus: status } = await followRun(
    { exportName: 'nightly', start, follow, next },
    { json: false, quiet: false },
    context,
  );
  return { status, written: written.join('') };
}

describe('a run that is not watched to its end', () => {
  it('exits as interrupted if --follow was set, so that a script does not continue as if it had completed', async () => {
    expect(await startUnwatched(true)).toEqual({ status: 130, written: expect.stringContaining('Watch it with') });
  });

  it('exits with 0 if it was only to be started', async () => {
    expect(await startUnwatched(false)).toEqual({ status: 0, written: expect.stringContaining('execution  one') });
  });
});

describe('a run whose service does not recover', () => {
  it('announces every retry, and says at the end that it gave up, also if only that is to be shown', async () => {
    await using directory = await temporaryDirectory();
    const service = {
      fetchPage: async (): Promise<never> => {
        throw new ExportError('ServiceUnavailableError', 'Report service responded with 503');
      },
    };
    let stdout = '';
    let stderr = '';
    const context = {
      env: {},
      stdin: Readable.from([]),
      stdout: { write: (text: string) => (stdout += text) },
      stderr: { write: (text: string) => (stderr += text) },
      signal: new AbortController().signal,
      program: 'npx report-exporter',
    };
    const definition = anExportDefinition({ name: 'nightly' });
    const start = ({ emit, onRetry }: StartOptions) =>
      runLocally({
        definition,
        service,
        out: directory.path,
        startInput: {},
        // The random part of each delay is zero.
        runtime: { ...systemRuntime, randomHex: (length) => '0'.repeat(length) },
        openObserver: () => ({ emit, onRetry, async close() {} }),
      });
    const run = { exportName: 'nightly', start, follow: true, next: { help: '', watch: '' } };
    const { exitStatus: status } = await followRun(run, { json: false, quiet: true }, context);
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
    const written = stderr.replaceAll(/^20\d\d-\S+Z (?=\S)/gm, '');
    const retries = written.split('\n').slice(0, 20);
    expect(retries).toEqual(
      Array.from(
        { length: 20 },
        (_, index) =>
          `Retrying now (attempt ${index + 2} of 21): ServiceUnavailableError: Report service responded with 503`,
      ),
    );
    expect(written).toMatch(
      /\nError: Run .* failed after 0 pages, 0 reports, 0 bytes:\n {2}ServiceUnavailableError: Report service responded with 503\nGave up after 20 retries\. Run again to resume\.\n$/,
    );
  });
});
