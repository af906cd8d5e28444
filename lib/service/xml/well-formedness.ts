/**
 * Checks, while a document streams through, that it is a single well-formed XML document, and counts its reports: the child
 * elements of the root (docs/service-contract.md, section 2.3).
 *
 * A response without a length may be truncated unnoticed; only the end tag of the root shows that it is complete.
 * Namespaces are not checked, except for that of the root, entities are not expanded, and DTDs are not read.
 */

import { SaxesParser } from 'saxes';
import { createFastPath, type FastPath } from './fast-path.ts';

export interface XmlCheck {
  /** Reads on. Returns the first problem and its position, otherwise undefined. */
  push(chunk: Uint8Array): string | undefined;
  /** The document is over. Returns the first problem of the document as a whole, otherwise undefined. */
  end(): string | undefined;
  /** How many child elements of the root have started. An entity that stands for elements does not count. */
  readonly reports: number;
  /**
   * The name of the root, whatever its prefix: `reports`, or `{http://example.com/ns}reports` in a namespace. With a prefix
   * that the root does not declare, the name as it is. Valid once the root's start tag has been read.
   */
  readonly rootName: string;
}

/** Follows the elements of a document while it is checked. What a function returns is a problem of the document. */
export interface XmlListener {
  /** A start tag begins; its attributes follow. */
  startTag(name: string): void;
  attribute(name: string, value: string): string | undefined;
  /** The start tag is over. */
  endTag(): string | undefined;
  text(text: string): string | undefined;
  closeElement(): void;
  /** The DOCTYPE has declarations, or names an external DTD that may have them. They are not read. */
  declarations(): string | undefined;
  /** Whether the values or the text that follow are needed. They are dropped, wholly or in part, if not. */
  isReading(): boolean;
}

/**
 * The parser reads everything outside the root element. The content of the root is read by `fast-path.ts` as far as it
 * is plain, and from there to the end of the document by the parser. Only the parser reports problems.
 * Problems quote names from the document as `quote` returns them. For a listener, the parser reads everything.
 */
export function createXmlCheck(quote = (name: string) => name, listener?: XmlListener): XmlCheck {
  const parser = createParser(quote, listener);
  const fastPath = createFastPath();
  let reader: 'prolog' | 'fast path' | 'parser' = listener === undefined ? 'prolog' : 'parser';
  let bytes = 0;

  /** Reads up to the root's start tag. Returns the bytes after it, or undefined. A piece ends wherever the tag may end. */
  const readProlog = (chunk: Uint8Array): Uint8Array | undefined => {
    for (let start = 0; start < chunk.length && parser.problem() === undefined;) {
      const tagEnd = chunk.indexOf(greaterThan, start);
      const end = Math.min(tagEnd < 0 ? chunk.length : tagEnd + 1, start + pieceBytes);
      parser.read(chunk.subarray(start, end));
      start = end;
      if (parser.isInPlainRoot()) return chunk.subarray(start);
    }
    return undefined;
  };
  const leaveFastPath = (rest: Uint8Array): void => {
    reader = 'parser';
    parser.resume(bytes - rest.length, fastPath);
    parser.read(rest);
  };

  return {
    push(chunk) {
      bytes += chunk.length;
      let content: Uint8Array | undefined = chunk;
      if (reader === 'prolog') {
        content = readProlog(chunk);
        if (content !== undefined) reader = 'fast path';
      }
      if (reader === 'fast path' && content !== undefined) {
        const rest = fastPath.push(content);
        if (rest !== undefined) leaveFastPath(rest);
      } else if (reader === 'parser') {
        parser.read(chunk);
      }
      return parser.problem();
    },
    end() {
      if (bytes === 0) return 'the body is empty';
      if (reader === 'fast path') leaveFastPath(fastPath.rest());
      parser.end();
      return parser.problem();
    },
    get reports() {
      return reader === 'fast path' ? fastPath.reports() : parser.reports();
    },
    get rootName() {
      return parser.rootName();
    },
  };
}

const greaterThan = 0x3e;

/** Limits on what must be held in memory until it is complete. Far above any report; libxml2 allows a depth of 256. */
const maxDepth = 1_000;
const maxAttributes = 10_000;
const maxNameLength = 64 * 1024;

/**
 * How much is decoded at a time. Text that is being parsed survives garbage collections, and V8 then grows its heap: with
 * the 64 KiB chunks of the connection, a page of 2 GB takes about 100 MB more.
 */
const pieceBytes = 8 * 1024;

function createParser(quote: (name: string) => string, listener: XmlListener | undefined) {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const parser = new SaxesParser({ position: false });
  let problem: string | undefined;
  let isAscii = false;
  let isPlain = true;
  let isInRoot = false;
  /** With its prefix. */
  let root: string | undefined;
  let rootNamespace = '';
  let hasDoctype = false;
  let depth = 0;
  let attributes = 0;
  let reports = 0;
  /** How much of the document the parser has been given, in bytes and in characters, and the text that it is parsing. */
  let parsedBytes = 0;
  let parsedCharacters = 0;
  let currentText = '';

  const currentByte = () => parsedBytes + Buffer.byteLength(currentText.slice(0, parser.position - parsedCharacters));
  const reportProblem = (what: string | undefined, byte?: number) => {
    if (what !== undefined) problem ??= `byte ${byte ?? currentByte()}: ${what.replace(/\.$/, '')}`;
  };
  parser.on('error', ({ message }) => {
    // The DTD may declare the entity. A parser need not read external DTDs to check well-formedness.
    const isIgnored = hasDoctype && message === 'undefined entity.' && listener?.isReading() !== true;
    if (!isIgnored) reportProblem(quoteName(message, quote));
  });
  parser.on('xmldecl', ({ encoding, version }) => {
    isAscii = /^us-ascii$/i.test(encoding ?? '');
    isPlain &&= !isAscii && version === '1.0';
    if (encoding !== undefined && !isAscii && !/^utf-8$/i.test(encoding)) {
      reportProblem(`declares the encoding ${quote(encoding)}`);
    }
  });
  parser.on('doctype', (text) => {
    hasDoctype = true;
    isPlain = false;
    if (mayDeclare(text)) reportProblem(listener?.declarations());
  });
  parser.on('opentagstart', ({ name }) => {
    root ??= name;
    if (depth === 1) reports += 1;
    depth += 1;
    attributes = 0;
    if (depth > maxDepth) reportProblem(`elements nested deeper than ${maxDepth}`);
    listener?.startTag(name);
  });
  parser.on('opentag', ({ isSelfClosing }) => {
    if (depth === 1 && !isSelfClosing) isInRoot = true;
    reportProblem(listener?.endTag());
  });
  /** Whether an attribute of this name, in the tag that is being read, declares the namespace of the root. */
  const declaresRoot = (name: string) => depth === 1 && !isInRoot && name === namespaceAttributeOf(root ?? '');
  parser.on('attribute', (attribute) => {
    attributes += 1;
    if (declaresRoot(attribute.name)) rootNamespace = attribute.value;
    if (attributes > maxAttributes) reportProblem(`more than ${maxAttributes} attributes in one tag`);
    reportProblem(listener?.attribute(attribute.name, attribute.value));
    // saxes keeps attributes until their element ends. Only the name is needed, to detect duplicates.
    attribute.value = '';
  });
  parser.on('closetag', () => {
    depth -= 1;
    listener?.closeElement();
  });
  if (listener !== undefined) {
    // Not by `on`, which assigns to a computed name: with more than seven of these, V8 makes the parser a hash table, and a
    // page takes several times as long. The same holds for calls of `on` after these lines.
    const handlers = parser as unknown as ParserHandlers;
    handlers.textHandler = (text) => reportProblem(listener.text(text));
    handlers.cdataHandler = handlers.textHandler;
  }

  const decode = (chunk?: Uint8Array) => {
    try {
      return decoder.decode(chunk, { stream: chunk !== undefined });
    } catch {
      const what =
        chunk === undefined ? 'ends in the middle of a character' : 'not UTF-8 at or shortly after this byte';
      reportProblem(what, parsedBytes);
      return '';
    }
  };
  const write = (text: string) => {
    currentText = text;
    parser.write(text);
    parsedCharacters += text.length;
    currentText = '';
  };
  const parse = (text: string) => {
    write(text);
    if (isAscii && /[^\0-\x7f]/.test(text)) {
      reportProblem('declares the encoding US-ASCII, but contains other characters', parsedBytes);
    }
    const buffers = parser as unknown as ParserBuffers;
    const isReading = listener?.isReading() === true;
    if (!isReading && !declaresRoot(buffers.name)) dropBufferedText(buffers, root === undefined);
    if (bufferedNameLength(buffers) > maxNameLength) {
      reportProblem(`a ${isReading ? 'value' : 'name'} longer than ${maxNameLength} characters`);
    }
  };

  return {
    read(chunk: Uint8Array) {
      for (let start = 0; start < chunk.length && problem === undefined; start += pieceBytes) {
        const piece = chunk.subarray(start, start + pieceBytes);
        parse(decode(piece));
        parsedBytes += piece.length;
      }
    },
    end() {
      if (problem !== undefined) return;
      parse(decode());
      parser.close();
    },
    /** Whether the root's start tag has just been read, in a document whose content `fast-path.ts` may read. */
    isInPlainRoot: () => isInRoot && isPlain && problem === undefined,
    /** Continues at `byte`, in the state that the fast path has reached there. */
    resume(byte: number, fastPath: FastPath) {
      write(fastPath.openTags());
      reports = fastPath.reports();
      parsedBytes = byte;
    },
    problem: () => problem,
    reports: () => reports,
    rootName: () => expandedName(root ?? '', rootNamespace),
  };
}

/** A prefix and a local name. Other names with colons have none: namespaces do not allow them. */
const prefixedName = /^([^:]+):([^:]+)$/;

function namespaceAttributeOf(name: string): string {
  const [, prefix] = prefixedName.exec(name) ?? [];
  return prefix === undefined ? 'xmlns' : `xmlns:${prefix}`;
}

function expandedName(name: string, namespace: string): string {
  return namespace === '' ? name : `{${namespace}}${prefixedName.exec(name)?.[2] ?? name}`;
}

/** A message of saxes in which the name from the document is quoted. The name follows a colon: `unclosed tag: reports`. */
function quoteName(message: string, quote: (name: string) => string): string {
  const [, problem, name, end] = /^([a-z ]+: )(.*?)(\.?)$/s.exec(message) ?? [];
  return problem === undefined || name === undefined ? message : `${problem}${quote(name)}${end}`;
}

/** The private fields that `on` sets for the events `text` and `cdata`. */
interface ParserHandlers {
  textHandler: (text: string) => void;
  cdataHandler: (text: string) => void;
}

/** What saxes buffers between two chunks: private fields, because it offers no other way to read or clear them. */
interface ParserBuffers {
  text: string;
  readonly name: string;
  readonly entity: string;
  readonly piTarget: string;
}

/** Whether the text of a DOCTYPE has more than the name of the root: an internal subset, or the address of a DTD. */
const mayDeclare = (doctype: string): boolean => /["'[]/.test(doctype);

/**
 * Drops the text that saxes has buffered; otherwise it would hold a comment of a gigabyte, although there is no listener for
 * it. saxes never looks into that text, except in the XML declaration. An attribute is then reported without it. In the
 * prolog, the text may be a part of the DOCTYPE: if it may declare something, a bracket remains.
 */
function dropBufferedText(buffers: ParserBuffers, isInProlog: boolean): void {
  if (buffers.piTarget !== 'xml') buffers.text = isInProlog && mayDeclare(buffers.text) ? '[' : '';
}

function bufferedNameLength({ text, name, entity, piTarget }: ParserBuffers): number {
  return text.length + name.length + entity.length + piTarget.length;
}
