/** Serves the XML files of a directory as reports, to try an export with real data. */

import { open, readdir, readFile, stat } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { SaxesParser } from 'saxes';
import { codeOf, ExportError } from '../../core/errors.ts';
import { whyUnreadable } from '../../settings/text-file.ts';
import { createTimeline, type ReportSource } from './report-source.ts';

/**
 * Each `*.xml` file in `directory` and its subdirectories is one report. Its ID is the relative path, its date the
 * modification time of the file; reports of the same date are ordered by path. Bodies are read when they are sent: if a
 * file has changed since the start, the response is truncated.
 *
 * A page cannot contain the byte order mark, XML declaration or DOCTYPE of another document, so a report starts after
 * these. What is between declaration and DOCTYPE, for example a comment, is omitted as well. The rest is sent byte for byte.
 *
 * @throws ConfigurationError if there is no such file, or with every file that cannot be part of a page, and the reason
 */
export async function directoryReports(directory: string): Promise<ReportSource> {
  const paths = await findXmlFiles(directory);
  const problems: string[] = [];
  const reports = [];
  for (const path of paths) {
    const id = path.split(sep).join('/');
    try {
      const file = await inspectXmlFile(join(directory, path));
      reports.push({
        id,
        date: file.modifiedMs,
        bytes: () => file.size - file.contentStart,
        body: () => readContent(file),
      });
    } catch (error) {
      problems.push(`  ${id}: ${codeOf(error) === '' ? (error as Error).message : `it ${whyUnreadable(error)}`}`);
    }
  }
  if (problems.length > 0) {
    const summary = `${problems.length} of ${paths.length} files in ${directory} cannot be served as reports`;
    throw new ExportError('ConfigurationError', [`${summary}. Fix or remove them:`, ...problems].join('\n'));
  }
  return createTimeline(reports);
}

/** Sorted paths relative to `directory`. Includes symbolic links; does not follow links to directories. */
async function findXmlFiles(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch((cause: unknown) => {
    const reason = codeOf(cause) === 'ENOTDIR' ? 'is not a directory' : whyUnreadable(cause);
    throw new ExportError('ConfigurationError', `The report directory ${directory} ${reason}`, { cause });
  });
  const paths = entries
    .filter((entry) => !entry.isDirectory() && /\.xml$/i.test(entry.name))
    .map((entry) => relative(directory, join(entry.parentPath, entry.name)))
    .sort();
  if (paths.length === 0) throw new ExportError('ConfigurationError', `No .xml file in ${directory}`);
  return paths;
}

interface XmlFile {
  readonly path: string;
  /** The date of the report, in whole milliseconds since the epoch. */
  readonly modifiedMs: number;
  readonly size: number;
  /** Where the served content starts, in bytes. */
  readonly contentStart: number;
}

/** @throws Error with the reason why the file cannot be part of a page */
async function inspectXmlFile(path: string): Promise<XmlFile> {
  const stats = await stat(path);
  // Opening a pipe would wait for its writer.
  if (!stats.isFile()) throw new Error('it is a directory, a pipe or a device, not a regular file');
  const bytes = await readFile(path);
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new Error('it is not UTF-8, the encoding of a page', { cause });
  }
  // The decoder omits one byte order mark.
  const bomBytes = bytes.subarray(0, 3).toString('latin1') === '\xEF\xBB\xBF' ? 3 : 0;
  const contentStart = bomBytes + Buffer.byteLength(text.slice(0, findContent(text)));
  return { path, modifiedMs: Math.floor(stats.mtimeMs), size: stats.size, contentStart };
}

/** Where declaration and DOCTYPE of a document end. @throws Error if it is not well-formed, or not in a page */
function findContent(text: string): number {
  // Pages are XML 1.0, so its rules apply to each file, even if the file declares another version.
  const parser = new SaxesParser({ forceXMLVersion: true, defaultXMLVersion: '1.0' });
  let contentStart = 0;
  parser.on('xmldecl', ({ encoding = 'utf-8' }) => {
    if (!/^(utf-8|us-ascii)$/i.test(encoding)) {
      throw new Error(`it declares the encoding ${encoding}, but the encoding of a page is UTF-8`);
    }
    contentStart = parser.position;
  });
  parser.on('doctype', () => {
    contentStart = parser.position;
  });
  parser.ENTITIES = new Proxy(parser.ENTITIES, {
    get(known, name: string) {
      if (!(name in known)) {
        parser.fail(`the entity &${name}; needs a DOCTYPE, which a page cannot contain`);
      }
      return known[name];
    },
  });
  parser.write(text).close();
  return contentStart;
}

/** @throws if the file has changed since it was inspected */
async function* readContent(file: XmlFile): AsyncGenerator<Uint8Array> {
  await using handle = await open(file.path);
  const { size, mtimeMs } = await handle.stat();
  if (size !== file.size || Math.floor(mtimeMs) !== file.modifiedMs) {
    throw new Error(`${file.path} has changed since the service started. Restart the service to serve the new content`);
  }
  yield* handle.createReadStream({ start: file.contentStart, autoClose: false });
}
