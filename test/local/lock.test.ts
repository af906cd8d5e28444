import fs from 'node:fs';
import { readdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { acquireExportLock } from '../../lib/local/lock.ts';
import { replaceInFs } from '../support/replaced-fs.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

describe('the export lock', () => {
  it('is denied to a second holder in the same process until it is released', async () => {
    await using directory = await temporaryDirectory();
    const first = acquireExportLock(directory.path, 'reports');
    expect(first).toBeDefined();
    expect(acquireExportLock(directory.path, 'reports')).toBeUndefined();

    // Where file names ignore case, both would share a folder.
    expect(acquireExportLock(directory.path, 'Reports')).toBeUndefined();

    first?.release();
    const second = acquireExportLock(directory.path, 'reports');
    expect(second).toBeDefined();

    // A repeated release must not release the lock of the current holder.
    first?.release();
    expect(acquireExportLock(directory.path, 'reports')).toBeUndefined();
    second?.release();
  });

  it('locks each export in each directory separately, whatever its name', async () => {
    await using directory = await temporaryDirectory();
    await using another = await temporaryDirectory();
    const locks = [
      acquireExportLock(directory.path, 'reports'),
      acquireExportLock(directory.path, 'reports-daily'),
      acquireExportLock(directory.path, '../reports'),
      acquireExportLock(another.path, 'reports'),
    ];
    expect(locks.every((lock) => lock !== undefined)).toBe(true);
    for (const lock of locks) lock?.release();
    expect(await readdir(directory.path)).toEqual(['.locks']);
  });

  it('makes the directory and all its parents durable, also those that a killed process has created', async () => {
    await using directory = await temporaryDirectory();
    const synced = observeSyncs();
    const out = join(directory.path, 'a/b/out');
    for (const name of ['first', 'second']) {
      synced.clear();
      acquireExportLock(out, name)?.release();
      for (let path = out; path !== dirname(path); path = dirname(path)) expect(synced).toContain(path);
    }
  });

  it('names the path that could not be created', async () => {
    await using directory = await temporaryDirectory();
    const acquire = () => acquireExportLock(`${directory.path}/\0`, 'reports');
    expect(acquire).toThrow(expect.objectContaining({ name: 'ConfigurationError', cause: expect.anything() }));
    expect(acquire).toThrow(`Could not create ${directory.path}`);
  });

  it('is not taken for that of another process if its file is damaged', async () => {
    await using directory = await temporaryDirectory();
    acquireExportLock(directory.path, 'reports')?.release();
    await writeFile(join(directory.path, '.locks', 'reports.sqlite'), 'a letter to the editor\n'.repeat(500));
    const damaged = { name: 'ConfigurationError', message: expect.stringContaining('.locks/reports.sqlite') };
    expect(() => acquireExportLock(directory.path, 'reports')).toThrow(expect.objectContaining(damaged));
  });
});

/** The directories that are synced from now on. */
function observeSyncs(): Set<unknown> {
  const { openSync, fsyncSync } = fs;
  const paths = new Map<number, unknown>();
  const synced = new Set<unknown>();
  replaceInFs({
    openSync(...args) {
      const descriptor = openSync(...args);
      paths.set(descriptor, args[0]);
      return descriptor;
    },
    fsyncSync(descriptor) {
      fsyncSync(descriptor);
      synced.add(paths.get(descriptor));
    },
  });
  return synced;
}
