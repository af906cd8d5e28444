/** Writes pages: one file, or a folder of pages that link to each other, all of which appear at the end or not at all. */

import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { codeOf, ExportError } from '../../core/errors.ts';
import { describeFileSystemError } from '../../local/durable-fs.ts';

/** @throws ConfigurationError if the file cannot be written */
export async function writeReport(file: string, html: string): Promise<void> {
  try {
    const stats = statSync(file, { throwIfNoEntry: false });
    // Opening a pipe waits for its reader, and the process could not be interrupted.
    if (stats !== undefined && !stats.isFile() && !stats.isDirectory()) {
      throw new Error(`${file} is a pipe or a device. Choose a file`);
    }
    await writeFile(file, html);
  } catch (cause) {
    throw cannotWrite('report', file, cause);
  }
}

const stagingPrefix = '.incomplete-';
/** As `mkdtemp` completes it. */
const stagingName = /^\.incomplete-[A-Za-z0-9]{6}$/;
const maxStagingAgeMs = 86_400_000;

export interface ReportFolder {
  /** `path` is relative to the folder, with at most one folder in it. */
  add(path: string, html: string): Promise<void>;
}

/**
 * Replaces pages of the same names; other files stay. The pages are written into a temporary folder inside `directory` first,
 * and then renamed, in the order in which they were added.
 * @throws ConfigurationError if the folder cannot be written
 */
export async function writeReportFolder<Result>(
  directory: string,
  signal: AbortSignal,
  addPages: (folder: ReportFolder) => Promise<Result>,
): Promise<Result> {
  const staging = attempt(directory, () => {
    createFolder(directory);
    return mkdtempSync(join(directory, stagingPrefix));
  });
  // A folder that cannot be removed must hide neither the result nor an error. The next start removes it.
  const removeStaging = () => ignoreErrors(() => rmSync(staging, { recursive: true, force: true, maxRetries: 3 }));
  // The process ends soon after an interruption, so this must not wait for anything.
  signal.addEventListener('abort', removeStaging, { once: true });
  const paths: string[] = [];
  // All in one folder, which each of them marks as used.
  const stagedFile = (index: number) => join(staging, `${index}.html`);
  try {
    removeLeftovers(directory, staging);
    const result = await addPages({
      async add(path, html) {
        signal.throwIfAborted();
        await writeFile(stagedFile(paths.length), html).catch((cause: unknown) => {
          throw cannotWrite('reports', directory, cause);
        });
        paths.push(path);
      },
    });
    signal.throwIfAborted();
    attempt(directory, () => {
      for (const [index, path] of paths.entries()) {
        createFolder(dirname(join(directory, path)));
        renameSync(stagedFile(index), join(directory, path));
      }
    });
    return result;
  } finally {
    signal.removeEventListener('abort', removeStaging);
    removeStaging();
  }
}

/**
 * Removes the temporary folders of processes that were killed. One of a running process changed less than a day ago. Errors are
 * ignored: they do not affect the pages, and the next start tries again.
 */
function removeLeftovers(directory: string, staging: string): void {
  ignoreErrors(() => {
    // By the clock of the file system, which may differ from that of the process.
    const createdMs = statSync(staging).mtimeMs;
    for (const entry of readdirSync(directory, { withFileTypes: true })) {
      if (!entry.isDirectory() || !stagingName.test(entry.name)) continue;
      const path = join(directory, entry.name);
      ignoreErrors(() => {
        if (createdMs - statSync(path).mtimeMs > maxStagingAgeMs) rmSync(path, { recursive: true, force: true });
      });
    }
  });
}

function ignoreErrors(operation: () => void): void {
  try {
    operation();
  } catch {
    // Whether it succeeds does not matter.
  }
}

/** Creates the folder, but not its parents: a mistyped path is reported. */
function createFolder(path: string): void {
  try {
    mkdirSync(path);
  } catch (cause) {
    if (codeOf(cause) !== 'EEXIST') throw cause;
  }
}

function attempt<Result>(directory: string, operation: () => Result): Result {
  try {
    return operation();
  } catch (cause) {
    throw cannotWrite('reports', directory, cause);
  }
}

function cannotWrite(what: 'report' | 'reports', path: string, cause: unknown): ExportError {
  const code = codeOf(cause);
  const parent = dirname(path);
  const kind = what === 'report' ? 'file' : 'directory';
  const reason =
    code === 'ENOENT' && !existsSync(parent)
      ? `the directory ${parent} does not exist. Create it, or choose another ${kind}`
      : code === 'EISDIR'
        ? `${path} is a directory. Add the name of a file`
        : code === 'ENOTDIR' && what === 'reports'
          ? `${path} is not a directory. Choose another one`
          : describeFileSystemError(cause);
  return new ExportError('ConfigurationError', `--to: cannot write the ${what}: ${reason}`, { cause });
}
