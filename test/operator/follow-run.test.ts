/** What whoever starts a run is told of it while it goes on and at its end, and with which exit status. */

import { describe, expect, it } from 'vitest';
import { followRun } from '../../lib/operator/follow-run.ts';

/** The exit status of a start of a deployed export that comes to no more than having been made. */
async function begun(follow: boolean) {
  const written: string[] = [];
  const terminal = { write: (text: string) => written.push(text) };
  const world = { env: {}, stdout: terminal, stderr: terminal, signal: new AbortController().signal };
  const next = { help: 'report-exporter start --help', watch: 'report-exporter status' };
  const status = await followRun({ exportName: 'nightly', follow, json: false, next }, world, async () => ({
    status: 'started',
    execution: 'one',
    run: null,
  }));
  return { status, written: written.join('') };
}

describe('a run that is not watched to its end', () => {
  it('was interrupted where it was to be followed, so that nothing goes on as if it had completed', async () => {
    expect(await begun(true)).toEqual({ status: 130, written: expect.stringContaining('Watch it with') });
  });

  it('is well begun where it was not', async () => {
    expect(await begun(false)).toEqual({ status: 0, written: expect.stringContaining('execution  one') });
  });
});
