/** Locks between processes. */

import { describe, expect, it } from 'vitest';
import { acquireExportLock } from '../../lib/local/lock.ts';
import { startScript } from '../support/process/child-script.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const holder = new URL('children/hold-export-lock.ts', import.meta.url);

describe('the export lock', () => {
  it('is denied while another process holds it, and free as soon as that process is killed', async () => {
    await using directory = await temporaryDirectory();
    await using other = startScript(holder, directory.path, 'reports');
    await other.waitForLine(/^acquired$/);

    expect(acquireExportLock(directory.path, 'reports')).toBeUndefined();

    await other.kill();
    const lock = acquireExportLock(directory.path, 'reports');
    expect(lock).toBeDefined();

    await using late = startScript(holder, directory.path, 'reports');
    expect(await late.ended).toBe(0);
    expect(late.lines).toEqual(['denied']);
    lock?.release();
  });
});
