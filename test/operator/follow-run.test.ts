/** What the caller of a start learns while the run is in progress and at its end. */

import { describe, expect, it } from 'vitest';
import { followRun } from '../../lib/operator/follow-run.ts';

/** The start of a deployed export that is not watched to the end of its run. */
async function startUnwatched(follow: boolean) {
  const written: string[] = [];
  const terminal = { write: (text: string) => written.push(text) };
  const context = { env: {}, stdout: terminal, stderr: terminal, signal: new AbortController().signal };
  const next = { help: 'report-exporter start --help', watch: 'report-exporter status' };
  const status = await followRun({ exportName: 'nightly', follow, json: false, next }, context, async () => ({
    status: 'started',
    execution: 'one',
    run: null,
  }));
  return { status, written: written.join('') };
}

describe('a run that is not watched to its end', () => {
  it('exits as interrupted if it was to be followed, so that a script does not continue as if it had completed', async () => {
    expect(await startUnwatched(true)).toEqual({ status: 130, written: expect.stringContaining('Watch it with') });
  });

  it('exits with 0 if it was only to be started', async () => {
    expect(await startUnwatched(false)).toEqual({ status: 0, written: expect.stringContaining('execution  one') });
  });
});
