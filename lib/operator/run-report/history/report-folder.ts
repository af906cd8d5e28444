/** Writes a folder of pages that link to each other: all of them appear at the end, or none if it is interrupted. */

import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync, utimesSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ExportError } from '../../../core/errors.ts';
import { describeFileSystemError } from '../../../local/durable-fs.ts';

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
  try {
    removeLeftovers(directory, staging);
    const result = await addPages({
      async add(path, html) {
        signal.throwIfAborted();
        const file = join(staging, path);
        try {
          // Not asynchronously: it would create the temporary folder again after an interruption.
          mkdirSync(dirname(file), { recursive: true });
          await writeFile(file, html);
          markAsUsed(staging, signal);
        } catch (cause) {
          throw cannotWrite(directory, cause);
        }
        paths.push(path);
      },
    });
    signal.throwIfAborted();
    attempt(directory, () => {
      for (const path of paths) {
        createFolder(dirname(join(directory, path)));
        renameSync(join(staging, path), join(directory, path));
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
  // By the clock of the file system, which may differ from that of the process.
  const createdMs = statSync(staging).mtimeMs;
  const removeIfOld = (path: string) => {
    if (createdMs - statSync(path).mtimeMs > maxStagingAgeMs) rmSync(path, { recursive: true, force: true });
  };
  ignoreErrors(() => {
    for (const entry of readdirSync(directory, { withFileTypes: true })) {
      const isStaging = entry.isDirectory() && stagingName.test(entry.name);
      if (isStaging) ignoreErrors(() => removeIfOld(join(directory, entry.name)));
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

/** Adding a page to a folder in it does not change its own time. */
function markAsUsed(staging: string, signal: AbortSignal): void {
  if (signal.aborted) return;
  const now = new Date();
  utimesSync(staging, now, now);
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
    throw cannotWrite(directory, cause);
  }
}

const codeOf = (cause: unknown): unknown => (cause instanceof Error && 'code' in cause ? cause.code : undefined);

function cannotWrite(directory: string, cause: unknown): ExportError {
  const reason =
    codeOf(cause) === 'ENOENT' && !existsSync(dirname(directory))
      ? `the directory ${dirname(directory)} does not exist. Create it, or choose another directory`
      : codeOf(cause) === 'ENOTDIR'
        ? `${directory} is not a directory. Choose another one`
        : describeFileSystemError(cause);
  return new ExportError('ConfigurationError', `--to: cannot write the reports: ${reason}`, { cause });
}
