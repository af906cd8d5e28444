/** Serves the XML files of a directory as reports, to try an export with real data. */

import { type FileHandle, open, readdir, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { SaxesParser } from 'saxes';
import { ExportError } from '../../core/errors.ts';
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
      const { message } = error as Error;
      problems.push(`  ${id}: ${'code' in (error as Error) ? `it ${whyUnreadable(error)}` : message}`);
    }
  }
  if (problems.length > 0) {
    const summary = `${problems.length} of ${paths.length} files in ${directory} cannot be served as reports`;
    throw new ExportError('ConfigurationError', [`${summary}. Fix or remove them:`, ...problems].join('\n'));
  }
  return createTimeline(reports);
}

/** Sorted paths relative to `directory`. Includes symbolic links to files; does not follow links to directories. */
async function findXmlFiles(directory: string): Promise<string[]> {
  let names: string[];
  try {
    names = await readdir(directory, { recursive: true });
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    const reason = code === 'ENOTDIR' ? 'is not a directory' : whyUnreadable(cause);
    throw new ExportError('ConfigurationError', `The report directory ${directory} ${reason}`, { cause });
  }
  const candidates = names.filter((name) => /\.xml$/i.test(name)).sort();
  const areFiles = await Promise.all(
    candidates.map((name) =>
      stat(join(directory, name)).then(
        (stats) => !stats.isDirectory(),
        // Reported with the reason when the file is inspected.
        () => true,
      ),
    ),
  );
  const paths = candidates.filter((_, index) => areFiles[index]);
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

/** Reads the file once, in constant memory. @throws Error with the reason why it cannot be part of a page */
async function inspectXmlFile(path: string): Promise<XmlFile> {
  const stats = await stat(path);
  // Opening a pipe would wait for its writer.
  if (!stats.isFile()) throw new Error('it is a pipe or a device, not a regular file');
  const { size, mtimeMs } = stats;
  await using handle = await open(path);
  const { buffer } = await handle.read(Buffer.alloc(3), 0, 3, 0);
  const bomBytes = buffer.toString('latin1') === '\xEF\xBB\xBF' ? 3 : 0;
  const parser = createParser();
  for await (const text of decode(chunksFrom(handle, bomBytes))) parser.write(text);
  return {
    path,
    modifiedMs: Math.floor(mtimeMs),
    size,
    contentStart: bomBytes + Buffer.byteLength(parser.end()),
  };
}

async function* decode(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  // ignoreBOM keeps every U+FEFF.
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  try {
    for await (const chunk of chunks) yield decoder.decode(chunk, { stream: true });
    yield decoder.decode();
  } catch (cause) {
    if (cause instanceof TypeError) throw new Error('it is not UTF-8, the encoding of a page', { cause });
    throw cause;
  }
}

const chunksFrom = (handle: FileHandle, start: number) => handle.createReadStream({ start, autoClose: false });

/** Checks a document; `write` and `end` throw if it is not well-formed. `end` returns declaration and DOCTYPE. */
function createParser() {
  // Pages are XML 1.0, so its rules apply to each file, even if the file declares another version.
  const parser = new SaxesParser({ forceXMLVersion: true, defaultXMLVersion: '1.0' });
  let prolog = '';
  let isInProlog = true;
  let prologEnd = 0;
  const endPrologHere = () => {
    prologEnd = parser.position;
  };
  parser.on('xmldecl', ({ encoding = 'utf-8' }) => {
    if (!/^(utf-8|us-ascii)$/i.test(encoding)) {
      throw new Error(`it declares the encoding ${encoding}, but the encoding of a page is UTF-8`);
    }
    endPrologHere();
  });
  parser.on('doctype', endPrologHere);
  parser.on('opentagstart', () => {
    isInProlog = false;
  });
  parser.ENTITIES = new Proxy(parser.ENTITIES, {
    get(known, name: string) {
      if (!(name in known)) {
        parser.fail(`the entity &${name}; needs a DOCTYPE, which a page cannot contain`);
      }
      return known[name];
    },
  });
  return {
    write(text: string) {
      if (isInProlog) prolog += text;
      parser.write(text);
    },
    end(): string {
      parser.close();
      return prolog.slice(0, prologEnd);
    },
  };
}

/** @throws if the file has changed since it was inspected */
async function* readContent(file: XmlFile): AsyncGenerator<Uint8Array> {
  await using handle = await open(file.path);
  const { size, mtimeMs } = await handle.stat();
  if (size !== file.size || Math.floor(mtimeMs) !== file.modifiedMs) {
    throw new Error(`${file.path} has changed since the service started. Restart the service to serve the new content`);
  }
  yield* chunksFrom(handle, file.contentStart);
}
