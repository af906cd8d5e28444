/**
 * The file operations that the directory page store's promises rest on: a name is given only once, and a name given
 * outlives a power cut. Errors of the disk come out as ConfigurationError: trying again finds the same disk, so a
 * person must act.
 */

import { createHash } from 'node:crypto';
import { closeSync, createReadStream, existsSync, fsync, fsyncSync, linkSync, mkdirSync, openSync } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { ExportError } from '../../core/errors.ts';

export interface Digest {
  readonly bytes: number;
  /** Lower-case hexadecimal. */
  readonly sha256: string;
}

/** Length and hash of the file as it stands, read as a stream. Errors are the disk's own, or that it is no file. */
export async function digestOf(path: string): Promise<Digest> {
  // A pipe or a device may never come to an end.
  if (!(await stat(path)).isFile()) throw new Error(`${path} is not a file`);
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    hash.update(chunk);
    bytes += chunk.byteLength;
  }
  return { bytes, sha256: hash.digest('hex') };
}

/** The bytes of the file at `path` as a stream; undefined where there is none. Errors are the disk's own. */
export async function readFileAt(path: string): Promise<AsyncIterable<Uint8Array> | undefined> {
  try {
    // A pipe would not even open until somebody writes to it.
    return (await stat(path)).isFile() ? (await open(path)).createReadStream() : undefined;
  } catch (cause) {
    if (codeOf(cause) === 'ENOENT' || codeOf(cause) === 'ENOTDIR') return undefined;
    throw cause;
  }
}

const withoutHardLinks = ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'];

/**
 * Gives `file` the name `name`, unless something has it already; returns whether it did. A hard link is the one
 * way to do both in one step: rename overwrites, and an exclusive copy shows itself half-written. So a file system
 * without links (exFAT, FAT, some network shares) is refused, not worked around.
 */
export function linkOnce(file: string, name: string): boolean {
  try {
    linkSync(file, name);
    return true;
  } catch (cause) {
    if (codeOf(cause) === 'EEXIST') return false;
    if (!withoutHardLinks.includes(codeOf(cause))) throw diskError('create', name, cause);
    throw new ExportError(
      'ConfigurationError',
      `The file system of ${dirname(name)} refuses hard links (${codeOf(cause)}), without which a page could be ` +
        'overwritten or seen half-written; choose a directory on a local disk, such as ext4, XFS, Btrfs or APFS',
      { cause },
    );
  }
}

/**
 * Makes `directory`, which lies in `root` or is it, with its parents, and syncs all that hold it, so that it outlives
 * a power cut. Syncs also those that were there: a writer killed in this very function may have made them and no more.
 */
export function makeDirectory(root: string, directory: string): void {
  const made = makePath(directory);
  const top = dirname(made !== undefined && made.length < root.length ? made : root);
  for (let path = directory; path !== top && path !== dirname(path); ) {
    path = dirname(path);
    syncDirectory(path);
  }
}

/**
 * Makes `directory` and its parents; returns the topmost that was made. Step by step, because Node's own recursive
 * mkdir never comes back where a file system, such as /proc, lets nothing be made in a directory that is there.
 */
export function makePath(directory: string): string | undefined {
  const missing: string[] = [];
  for (let path = directory; !existsSync(path) && path !== dirname(path); path = dirname(path)) missing.unshift(path);
  for (const path of missing) {
    try {
      mkdirSync(path);
    } catch (cause) {
      // Another process may have come first.
      if (codeOf(cause) !== 'EEXIST') throw diskError('create', path, cause);
    }
  }
  return missing[0];
}

// The first four: this file system, or Windows, does not sync directories. The last: a directory above the root that we
// may pass through but not read. None of them tells of a name that was lost.
const notSyncable = ['EINVAL', 'ENOTSUP', 'EISDIR', 'EPERM', 'EACCES'];

/** When it returns, the names that `directory` holds outlive a power cut. */
export function syncDirectory(directory: string): void {
  const descriptor = openDirectory(directory);
  if (descriptor === undefined) return;
  try {
    fsyncSync(descriptor);
  } catch (cause) {
    refuseUnlessNotSyncable(directory, cause);
  } finally {
    closeSync(descriptor);
  }
}

/** Resolves when what was written to the file, or the names in the directory, would outlive a power cut. */
export function syncDescriptor(descriptor: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fsync(descriptor, (error) => (error === null ? resolve() : reject(error)));
  });
}

/** The same, while this thread goes on. */
export async function syncDirectoryMeanwhile(directory: string): Promise<void> {
  const descriptor = openDirectory(directory);
  if (descriptor === undefined) return;
  try {
    await syncDescriptor(descriptor);
  } catch (cause) {
    refuseUnlessNotSyncable(directory, cause);
  } finally {
    closeSync(descriptor);
  }
}

function openDirectory(directory: string): number | undefined {
  try {
    return openSync(directory, 'r');
  } catch (cause) {
    refuseUnlessNotSyncable(directory, cause);
    return undefined;
  }
}

function refuseUnlessNotSyncable(directory: string, cause: unknown): void {
  if (!notSyncable.includes(codeOf(cause))) throw diskError('sync', directory, cause);
}

const advice: { readonly [code: string]: string } = {
  ENOSPC: 'the disk is full: make room',
  EDQUOT: 'the disk quota is used up: make room',
  EACCES: 'permission denied: make it readable and writable',
  EPERM: 'operation not permitted: make it writable',
  EROFS: 'the file system is read-only: make it writable',
  ENOTDIR: 'something on the way there is not a directory: choose another',
};

export function diskError(act: string, path: string, cause: unknown): ExportError {
  const why = advice[codeOf(cause)] ?? (cause instanceof Error ? cause.message : String(cause));
  return new ExportError(
    'ConfigurationError',
    `Could not ${act} ${path}: ${why}. Pages stored so far are kept; start the export again and it goes on from there`,
    { cause },
  );
}

/** The operating system's name of an error, such as `ENOENT`, or ''. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}
