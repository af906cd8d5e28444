/**
 * Real XML files as reports, whatever they hold: to see an export do its work on data that nobody made up for it.
 */

import { readdir, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { ExportError } from '../../core/errors.ts';
import { type ReportSource, timelineOf } from './report-source.ts';
import { examineXmlFile, servedBytes } from './xml-file.ts';

/**
 * Each `*.xml` file in `directory` and below it is one report: its id the path within the directory, its date the
 * file's modification time, reports of one date in the order of their paths. Bodies are read when they are served; a file
 * that has changed by then breaks the answer off.
 *
 * @throws ConfigurationError naming every file that cannot stand in a page, and why; or that there is none
 */
export async function directoryReports(directory: string): Promise<ReportSource> {
  const paths = await xmlFilesIn(directory);
  const problems: string[] = [];
  const reports = [];
  for (const path of paths) {
    const id = path.split(sep).join('/');
    try {
      const file = await examineXmlFile(join(directory, path));
      reports.push({ id, date: file.modified, bytes: () => file.bytes, body: () => servedBytes(file) });
    } catch (error) {
      problems.push(`  ${id}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  if (problems.length > 0) {
    const summary = `${problems.length} of ${paths.length} files in ${directory} cannot be served as reports`;
    throw new ExportError('ConfigurationError', [`${summary}; mend them or take them away:`, ...problems].join('\n'));
  }
  return timelineOf(reports);
}

/** Paths relative to `directory`, sorted; symbolic links to files count, links to directories are not followed. */
async function xmlFilesIn(directory: string): Promise<string[]> {
  let names: string[];
  try {
    names = await readdir(directory, { recursive: true });
  } catch (cause) {
    throw new ExportError('ConfigurationError', `The reports' directory ${directory} cannot be read`, { cause });
  }
  const candidates = names.filter((name) => /\.xml$/i.test(name)).sort();
  const isFile = await Promise.all(
    candidates.map((name) =>
      stat(join(directory, name)).then(
        (found) => !found.isDirectory(),
        () => true,
      ),
    ),
  );
  const paths = candidates.filter((_, index) => isFile[index]);
  if (paths.length === 0) throw new ExportError('ConfigurationError', `There is no .xml file in ${directory}`);
  return paths;
}
