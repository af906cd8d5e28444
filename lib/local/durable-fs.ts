/**
 * File operations that Node.js lacks: fill a file before it gets a name that readers can see, link it unless the name
 * is taken, and make a name survive a power loss. File-system errors become ConfigurationErrors: a retry would meet the
 * same disk, so a person must act.
 */

import { randomUUID } from 'node:crypto';
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { readdir, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { settled } from '../core/concurrency.ts';
import { codeOf, ExportError } from '../core/errors.ts';
import { createSpool, openSpoolFile, type Spool } from '../core/storage/spool.ts';

/** A file without a visible name. Disposing of it removes it. */
export interface TemporaryFile extends Pick<Spool, 'fill'>, AsyncDisposable {
  readonly path: string;
  /** Resolves once the file survives a power loss. Do not make the file visible before. */
  synced(): Promise<void>;
}

const spoolSuffix = '.spool';

/**
 * A new file in `folder`, which is synced as soon as it is filled. The folder is on the file system of the directory,
 * so that the file can be linked or renamed into its place.
 */
export function createSpoolFile(folder: string): TemporaryFile {
  const path = join(folder, `${randomUUID()}${spoolSuffix}`);
  const spool = createSpool(
    () => openSpoolFile(path),
    (cause) => fileSystemError('write', path, cause),
  );
  let synced = Promise.resolve();
  return {
    path,
    async fill(chunks) {
      const digest = await spool.fill(chunks);
      synced = spool.sync();
      // Nothing may wait for it: then the rejection must not count as unhandled.
      synced.catch(() => {});
      return digest;
    },
    synced: () => synced,
    async [Symbol.asyncDispose]() {
      await synced.catch(() => {});
      await spool[Symbol.asyncDispose]();
      try {
        rmSync(path, { force: true });
      } catch {}
    },
  };
}

const staleAfterMs = 86_400_000;

/**
 * Removes files that killed processes left. A page takes minutes: a file unchanged for a day has no writer. If a paused
 * writer does continue after that, it can no longer link its file: the attempt fails and leaves nothing visible.
 */
export async function removeStaleSpoolFiles(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names.filter((each) => each.endsWith(spoolSuffix))) {
    const path = join(folder, name);
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Number.POSITIVE_INFINITY }));
    if (Date.now() - mtimeMs > staleAfterMs) await rm(path, { force: true }).catch(() => undefined);
  }
}

const hardLinkUnsupported = ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'];

/**
 * Links `file` to `name` unless `name` exists; returns whether it did. Only a hard link checks and creates in one step:
 * a rename overwrites, and an exclusive copy is visible half-written. A file system without hard links (exFAT, FAT,
 * some network shares) is therefore an error.
 *
 * @throws ConfigurationError if the file system fails or does not support hard links
 */
export function linkIfAbsent(file: string, name: string): boolean {
  try {
    linkSync(file, name);
    return true;
  } catch (cause) {
    if (codeOf(cause) === 'EEXIST') return false;
    if (!hardLinkUnsupported.includes(codeOf(cause))) throw fileSystemError('create', name, cause);
    throw new ExportError(
      'ConfigurationError',
      `The file system of ${dirname(name)} does not support hard links (${codeOf(cause)}). Without them a page could be ` +
        'overwritten or read half-written. Choose a directory on a local disk, such as ext4, XFS, Btrfs or APFS',
      { cause },
    );
  }
}

/** Renames `file` to `name`, whatever is there. @throws ConfigurationError if the file system fails */
export function replaceFile(file: string, name: string): void {
  explained('replace', name, () => renameSync(file, name));
}

/** The text of a file; undefined if there is none. @throws ConfigurationError if this process may not read it */
export function readFileIfPresent(path: string): string | undefined {
  return isFilePresent(path) ? explained('read', path, () => readFileSync(path, 'utf8')) : undefined;
}

/**
 * Writes a file that only this user may read. Whatever happens, it has its former content or `text`; when this returns,
 * `text`, also after a power loss.
 *
 * @throws ConfigurationError if the file system fails
 */
export function writePrivateFile(name: string, text: string): void {
  using written = writeTemporaryFile(`${name}.new`, text, 0o600);
  replaceFile(written.file, name);
  fsyncDirectorySync(dirname(name));
}

/**
 * Writes a file unless there is one; returns whether it did. The file never has a part of `text`, whatever happens,
 * and whatever other processes write it.
 *
 * @throws ConfigurationError if the file system fails or does not support hard links
 */
export function writeFileIfAbsent(name: string, text: string): boolean {
  using written = writeTemporaryFile(`${name}.${process.pid}.new`, text);
  return linkIfAbsent(written.file, name);
}

/** Reserves the space that {@link writePrivateFile} needs for `bytes`. @throws ConfigurationError if it cannot */
export const reservePrivateFile = (name: string, bytes: number): Disposable =>
  writeTemporaryFile(`${name}.new`, ' '.repeat(bytes), 0o600);

/** Disposing of the file removes it, unless it has been renamed. */
function writeTemporaryFile(file: string, text: string, mode?: number) {
  const remove = () => {
    try {
      rmSync(file, { force: true });
    } catch {
      // The error of the write says why.
    }
  };
  remove();
  try {
    writeFileSync(file, text, { mode, flag: 'wx', flush: true });
  } catch (cause) {
    remove();
    throw fileSystemError('write', file, cause);
  }
  return { file, [Symbol.dispose]: remove };
}

/**
 * Creates `directory`, which is `root` or inside it, and its parents. When it returns, all of them survive a power
 * loss. Syncs existing directories too: a process killed in this function may have created them without syncing.
 *
 * @throws ConfigurationError if the file system fails
 */
export function createDirectoryDurably(root: string, directory: string): void {
  let created: string | undefined;
  try {
    created = createDirectory(directory);
  } catch (cause) {
    throw fileSystemError('create', (cause as NodeJS.ErrnoException).path ?? directory, cause);
  }
  const top = dirname(created !== undefined && created.length < root.length ? created : root);
  for (let path = directory; path !== top && path !== dirname(path);) {
    path = dirname(path);
    fsyncDirectorySync(path);
  }
}

/**
 * Creates `directory` and its parents; returns the topmost one created. Creates them one by one, because Node's
 * recursive mkdir hangs if a parent, such as /proc, accepts no new entries.
 *
 * @throws the file system's own error
 */
export function createDirectory(directory: string): string | undefined {
  const missing: string[] = [];
  for (let path = directory; !existsSync(path) && path !== dirname(path); path = dirname(path)) missing.unshift(path);
  for (const path of missing) {
    try {
      mkdirSync(path);
    } catch (cause) {
      // Another process may have created it in the meantime.
      if (codeOf(cause) !== 'EEXIST') throw cause;
    }
  }
  return missing[0];
}

/** Makes the names in `directory` survive a power loss. @throws ConfigurationError if the file system fails */
export function fsyncDirectorySync(directory: string): void {
  try {
    using file = openDirectory(directory);
    fsyncSync(file.descriptor);
  } catch (cause) {
    throwUnlessSyncUnsupported(directory, cause);
  }
}

/** Like {@link fsyncDirectorySync}, but the thread does not wait for the disk. */
export async function fsyncDirectory(directory: string): Promise<void> {
  try {
    using file = openDirectory(directory);
    await settled((done) => fsync(file.descriptor, done));
  } catch (cause) {
    throwUnlessSyncUnsupported(directory, cause);
  }
}

function openDirectory(path: string) {
  const descriptor = openSync(path, 'r');
  return { descriptor, [Symbol.dispose]: () => closeSync(descriptor) };
}

/**
 * The first four: the file system, or Windows, cannot sync directories. EACCES: a parent of the root that this process
 * may traverse but not read. None of them means that a name was lost.
 */
const syncUnsupported = ['EINVAL', 'ENOTSUP', 'EISDIR', 'EPERM', 'EACCES'];

function throwUnlessSyncUnsupported(directory: string, cause: unknown): void {
  if (!syncUnsupported.includes(codeOf(cause))) throw fileSystemError('sync', directory, cause);
}

const advice: { readonly [code: string]: string } = {
  ENOSPC: 'the disk is full. Free some space',
  EDQUOT: 'the disk quota is used up. Free some space',
  EACCES: 'permission denied. Give this user access to it and to its directory',
  EPERM: 'operation not permitted. Make it and its directory writable',
  EROFS: 'the file system is read-only. Make it writable, or choose another directory',
  ENOENT: 'its directory does not exist, or accepts no new files. Choose another directory',
  ENOTDIR: 'part of its path is a file, not a directory. Move that file away, or choose another directory',
  EEXIST: 'a file with that name is in the way. Move it away',
  EISDIR: 'it is a directory. Move it away',
  EXDEV: 'it is not on the file system of the folder .incoming. Keep the whole output directory on one file system',
  ENAMETOOLONG: 'its path is too long. Choose another directory',
  ELOOP: 'a symbolic link in its path leads to itself. Remove the link',
  EIO: 'the disk failed. Check the disk',
  EMFILE: 'too many files are open. Raise the limit of open files (ulimit -n)',
  ENFILE: 'too many files are open on this machine. Close some programs',
};

/** What happened and what to do: `the disk is full. Free some space`. */
export function describeFileSystemError(cause: unknown): string {
  return advice[codeOf(cause)] ?? (cause instanceof Error ? cause.message : String(cause));
}

/** A ConfigurationError such as `Could not write ./exports/…: the disk is full. Free some space` */
export function fileSystemError(operation: string, path: string, cause: unknown): ExportError {
  return new ExportError('ConfigurationError', `Could not ${operation} ${path}: ${describeFileSystemError(cause)}`, {
    cause,
  });
}

/** The result of `action`. @throws ConfigurationError in place of errors of the file system */
export function explained<Result>(operation: string, path: string, action: () => Result): Result {
  try {
    return action();
  } catch (cause) {
    throw fileSystemError(operation, path, cause);
  }
}

/** @throws ConfigurationError if this process may not write to the file at `path` */
export function assertWritable(path: string): void {
  explained('write to', path, () => accessSync(path, constants.W_OK));
}

/**
 * Whether there is a file at `path`. Called before SQLite opens it, whose errors do not say what is there instead.
 * @throws ConfigurationError if it is a directory, a pipe or a device, or if this process may not look
 */
export function isFilePresent(path: string): boolean {
  const stats = explained('open', path, () => statSync(path, { throwIfNoEntry: false }));
  if (stats === undefined) return false;
  if (stats.isFile()) return true;
  const found = stats.isDirectory() ? 'a directory' : 'a pipe or a device';
  throw new ExportError(
    'ConfigurationError',
    `${path} is ${found}, not a file. Move it away, or choose another directory`,
  );
}

export const isMissingPath = (error: unknown): boolean => ['ENOENT', 'ENOTDIR'].includes(codeOf(error));
