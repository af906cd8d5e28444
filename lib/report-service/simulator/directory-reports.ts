/**
 * Real XML files as reports, whatever they hold: to see an export do its work on data that nobody made up for it.
 */

import { type FileHandle, open, readdir, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { SaxesParser } from 'saxes';
import { ExportError } from '../../core/errors.ts';
import { type ReportSource, timelineOf } from './report-source.ts';

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

// MERGED xml-file.ts: A real XML file as it can stand inside a page. A document cannot hold another's byte order mark, XML declaration or DOCTYPE, so what is served begins behind these; from there on a UTF-8 file goes out byte for byte, and one in another encoding goes out transcoded. What stands between declaration and DOCTYPE (a comment, say) is left out with them.

interface XmlFile {
  readonly path: string;
  /** The date of the report: milliseconds since the epoch, whole. */
  readonly modified: number;
  /** The length of what is served, in UTF-8. */
  readonly bytes: number;
  readonly size: number;
  readonly encoding: Encoding;
  /** Where what is served begins: in a UTF-8 file a count of bytes, otherwise of UTF-16 code units behind the mark. */
  readonly start: number;
}

interface Encoding {
  /** As TextDecoder names it; ISO-8859-1 is read as windows-1252, as browsers do. */
  readonly name: string;
  /** The length of the byte order mark. */
  readonly mark: number;
}

/**
 * Reads the file once, in constant memory, to find what can be served of it.
 * @throws an Error that says why nothing can: not well-formed, not in its encoding, or in need of its DOCTYPE
 */
async function examineXmlFile(path: string): Promise<XmlFile> {
  await using handle = await open(path);
  const { size, mtimeMs } = await handle.stat();
  const encoding = await encodingOf(handle);
  const check = wellFormedness();
  let length = 0;
  for await (const text of decoded(handle, encoding)) {
    length += Buffer.byteLength(text);
    check.write(text);
  }
  const prolog = check.end();
  const start = encoding.name === 'utf-8' ? encoding.mark + Buffer.byteLength(prolog) : prolog.length;
  return { path, modified: Math.floor(mtimeMs), bytes: length - Buffer.byteLength(prolog), size, encoding, start };
}

/** What of the file stands in a page. @throws where the file has changed since it was examined */
async function* servedBytes(file: XmlFile): AsyncGenerator<Uint8Array> {
  await using handle = await open(file.path);
  const { size, mtimeMs } = await handle.stat();
  if (size !== file.size || Math.floor(mtimeMs) !== file.modified) {
    throw new Error(`${file.path} was changed after the service started; start it again`);
  }
  if (file.encoding.name === 'utf-8') {
    yield* chunksOf(handle, file.start);
    return;
  }
  let skip = file.start;
  for await (const text of decoded(handle, file.encoding)) {
    if (text.length > skip) yield Buffer.from(text.slice(skip));
    skip = Math.max(0, skip - text.length);
  }
}

const chunksOf = (handle: FileHandle, start: number) => handle.createReadStream({ start, autoClose: false });

async function* decoded(handle: FileHandle, { name, mark }: Encoding): AsyncGenerator<string> {
  // The mark is skipped by hand, so that any other U+FEFF is kept.
  const decoder = new TextDecoder(name, { fatal: true, ignoreBOM: true });
  try {
    for await (const chunk of chunksOf(handle, mark)) yield decoder.decode(chunk as Buffer, { stream: true });
    yield decoder.decode();
  } catch (cause) {
    if (cause instanceof TypeError) throw new Error(`it is not valid ${name}`, { cause });
    throw cause;
  }
}

/** By the byte order mark, or else the declaration, or else UTF-8 (XML 1.0, appendix F). */
async function encodingOf(handle: FileHandle): Promise<Encoding> {
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(1_024), 0, 1_024, 0);
  const head = buffer.toString('latin1', 0, bytesRead);
  if (head.startsWith('\xEF\xBB\xBF')) return { name: 'utf-8', mark: 3 };
  if (head.startsWith('\xFF\xFE\0\0') || head.startsWith('\0\0\xFE\xFF')) throw new Error('UTF-32 cannot be decoded');
  if (head.startsWith('\xFF\xFE')) return { name: 'utf-16le', mark: 2 };
  if (head.startsWith('\xFE\xFF')) return { name: 'utf-16be', mark: 2 };
  if (head.startsWith('<\0')) return { name: 'utf-16le', mark: 0 };
  if (head.startsWith('\0<')) return { name: 'utf-16be', mark: 0 };

  const declared = /^<\?xml\s[^?]*?\bencoding\s*=\s*["']([^"']+)["']/.exec(head)?.[1] ?? 'utf-8';
  let name: string;
  try {
    name = new TextDecoder(declared).encoding;
  } catch (cause) {
    throw new Error(`it declares the encoding ${declared}, which cannot be decoded`, { cause });
  }
  if (name.startsWith('utf-16')) throw new Error(`it declares the encoding ${declared}, but is not written in it`);
  return { name, mark: 0 };
}

/** Takes a document piece by piece and throws where it breaks; `end` yields its text up to behind declaration and DOCTYPE. */
function wellFormedness() {
  // Pages are XML 1.0, so a file must be well-formed by its rules, whatever version it declares.
  const parser = new SaxesParser({ forceXMLVersion: true, defaultXMLVersion: '1.0' });
  let prolog = '';
  let inProlog = true;
  let end = 0;
  const endHere = () => {
    end = parser.position;
  };
  parser.on('xmldecl', endHere);
  parser.on('doctype', endHere);
  parser.on('opentagstart', () => {
    inProlog = false;
  });
  parser.ENTITIES = new Proxy(parser.ENTITIES, {
    get(known, name: string) {
      if (!(name in known)) {
        parser.fail(`it uses the entity &${name}; and a page cannot hold the DOCTYPE that may declare it`);
      }
      return known[name];
    },
  });
  return {
    write(text: string) {
      if (inProlog) prolog += text;
      parser.write(text);
    },
    end(): string {
      parser.close();
      return prolog.slice(0, end);
    },
  };
}
