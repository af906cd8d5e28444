/** Locks between processes. */

import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { acquireExportLock, acquireFileLock } from '../../lib/local/lock.ts';
import { startScript } from '../support/process/child-script.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const holder = new URL('children/hold-export-lock.ts', import.meta.url);
const publisher = new URL('children/publish.ts', import.meta.url);

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

describe('the pointer to the newest run', () => {
  it('is replaced only while no other process does', async () => {
    await using directory = await temporaryDirectory();
    await mkdir(join(directory.path, '.incoming'));
    const lock = acquireFileLock(join(directory.path, '.incoming', 'latest.lock'), 1_000);
    await using other = startScript(publisher, directory.path);
    await other.waitForLine(/^mkdir reports$/);
    // Enough time to notice a process that does not wait.
    await sleep(100);
    const replaced = [...other.lines].some((line) => line.startsWith('rename'));
    lock?.release();

    expect(replaced).toBe(false);
    expect(await other.ended).toBe(0);
    expect(await readdir(join(directory.path, 'reports'))).toContain('latest.json');
  });
});
