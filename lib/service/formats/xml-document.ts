/**
 * Reads the text of a single well-formed XML document with saxes, and counts its reports: the child elements of the
 * root (docs/service-contract.md, section 2.3).
 *
 * A response without a length may be truncated unnoticed; only the end tag of the root shows that it is complete.
 * Namespaces are not checked, except for that of the root, entities are not expanded, and DTDs are not read.
 */

import { SaxesParser } from 'saxes';

export interface XmlDocument {
  /** Reads on. Returns the first problem, otherwise undefined. */
  read(text: string): string | undefined;
  /** The document is over. Returns the first problem of the document as a whole, otherwise undefined. */
  end(): string | undefined;
  /** How many characters of the last text were read when the problem was found. */
  charactersRead(): number;
  /** How many child elements of the root have started. An entity that stands for elements does not count. */
  readonly reports: number;
  /**
   * The name of the root, whatever its prefix: `reports`, or `{http://example.com/ns}reports` in a namespace. With a
   * prefix that the root does not declare, the name as it is. Valid once the root's start tag has been read.
   */
  readonly rootName: string;
}

/** Follows the elements of a document while it is read. A returned text is a problem of the document. */
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

/** Limits on what must be held in memory until it is complete. Far above any report; libxml2 allows a depth of 256. */
const maxDepth = 1_000;
const maxAttributes = 10_000;
const maxNameLength = 64 * 1024;

/** Everything that has been learned from the document so far. */
interface Progress {
  problem: string | undefined;
  charactersRead: number;
  /** With its prefix. */
  root: string | undefined;
  rootNamespace: string;
  isAscii: boolean;
  hasDoctype: boolean;
  depth: number;
  /** In the tag that is being read. */
  attributes: number;
  reports: number;
}

/** Problems quote names from the document as `quote` returns them. */
export function createXmlDocument(quote: (name: string) => string, listener: XmlListener | undefined): XmlDocument {
  const parser = new SaxesParser({ position: false });
  const progress: Progress = {
    problem: undefined,
    charactersRead: 0,
    root: undefined,
    rootNamespace: '',
    isAscii: false,
    hasDoctype: false,
    depth: 0,
    attributes: 0,
    reports: 0,
  };
  let charactersBefore = 0;
  const report = (problem: string | undefined) => {
    if (problem === undefined || progress.problem !== undefined) return;
    progress.problem = problem.replace(/\.$/, '');
    progress.charactersRead = parser.position - charactersBefore;
  };
  listenToProlog(parser, { progress, report, quote, listener });
  listenToElements(parser, { progress, report, listener });

  return {
    read(text) {
      parser.write(text);
      if (progress.isAscii && /[^\0-\x7f]/.test(text)) {
        report('declares the encoding US-ASCII, but contains other characters');
      }
      report(limitBuffers(parser, progress, listener?.isReading() === true));
      charactersBefore += text.length;
      return progress.problem;
    },
    end() {
      if (progress.problem === undefined) parser.close();
      return progress.problem;
    },
    charactersRead: () => progress.charactersRead,
    get reports() {
      return progress.reports;
    },
    get rootName() {
      return expandedName(progress.root ?? '', progress.rootNamespace);
    },
  };
}

interface Listening {
  readonly progress: Progress;
  readonly report: (problem: string | undefined) => void;
  readonly listener: XmlListener | undefined;
}

function listenToProlog(
  parser: SaxesParser,
  { progress, report, quote, listener }: Listening & { readonly quote: (name: string) => string },
): void {
  parser.on('error', ({ message }) => {
    // The DTD may declare the entity. A parser need not read external DTDs to check well-formedness.
    const isIgnored = progress.hasDoctype && message === 'undefined entity.' && listener?.isReading() !== true;
    if (!isIgnored) report(quoteName(message, quote));
  });
  parser.on('xmldecl', ({ encoding }) => {
    progress.isAscii = /^us-ascii$/i.test(encoding ?? '');
    if (encoding !== undefined && !progress.isAscii && !/^utf-8$/i.test(encoding)) {
      report(`declares the encoding ${quote(encoding)}`);
    }
  });
  parser.on('doctype', (text) => {
    progress.hasDoctype = true;
    if (mayDeclare(text)) report(listener?.declarations());
  });
}

function listenToElements(parser: SaxesParser, { progress, report, listener }: Listening): void {
  parser.on('opentagstart', ({ name }) => {
    progress.root ??= name;
    if (progress.depth === 1) progress.reports += 1;
    progress.depth += 1;
    progress.attributes = 0;
    if (progress.depth > maxDepth) report(`elements nested deeper than ${maxDepth}`);
    listener?.startTag(name);
  });
  parser.on('attribute', (attribute) => {
    progress.attributes += 1;
    if (declaresRoot(progress, attribute.name)) progress.rootNamespace = attribute.value;
    if (progress.attributes > maxAttributes) report(`more than ${maxAttributes} attributes in one tag`);
    report(listener?.attribute(attribute.name, attribute.value));
    // saxes keeps attributes until their element ends. Only the name is needed, to detect duplicates.
    attribute.value = '';
  });
  parser.on('closetag', () => {
    progress.depth -= 1;
    listener?.closeElement();
  });
  if (listener === undefined) return;
  parser.on('opentag', () => report(listener.endTag()));
  // Not by `on`, which assigns to a computed name: with more than seven of these, V8 makes the parser a hash table, and
  // a page takes several times as long. The same holds for calls of `on` after these lines.
  const handlers = parser as unknown as ParserHandlers;
  handlers.textHandler = (text) => report(listener.text(text));
  handlers.cdataHandler = handlers.textHandler;
}

/** Whether an attribute of this name, in the tag that is being read, declares the namespace of the root. */
const declaresRoot = ({ depth, root = '' }: Progress, name: string): boolean =>
  depth === 1 && name === namespaceAttributeOf(root);

/** A prefix and a local name. Other names with colons have none: namespaces do not allow them. */
const prefixedName = /^([^:]+):([^:]+)$/;

function namespaceAttributeOf(name: string): string {
  const [, prefix] = prefixedName.exec(name) ?? [];
  return prefix === undefined ? 'xmlns' : `xmlns:${prefix}`;
}

function expandedName(name: string, namespace: string): string {
  return namespace === '' ? name : `{${namespace}}${prefixedName.exec(name)?.[2] ?? name}`;
}

/** A message of saxes with the name from the document quoted. The name follows a colon: `unclosed tag: reports`. */
function quoteName(message: string, quote: (name: string) => string): string {
  const [, problem, name, end] = /^([a-z ]+: )(.*?)(\.?)$/s.exec(message) ?? [];
  return problem === undefined || name === undefined ? message : `${problem}${quote(name)}${end}`;
}

/** The private fields that `on` sets for the events `text` and `cdata`. */
interface ParserHandlers {
  textHandler: (text: string) => void;
  cdataHandler: (text: string) => void;
}

/** Buffers of saxes between two texts: private fields, because it offers no other way to read or clear them. */
interface ParserBuffers {
  text: string;
  readonly name: string;
  readonly entity: string;
  readonly piTarget: string;
}

/** Whether the text of a DOCTYPE has more than the name of the root: an internal subset, or the address of a DTD. */
const mayDeclare = (doctype: string): boolean => /["'[]/.test(doctype);

/**
 * Drops the text that saxes has buffered, if it is not needed: it would hold a comment of a gigabyte, although there is
 * no listener for it. saxes never looks into that text, except in the XML declaration. An attribute is then reported
 * without it. In the prolog, the text may be a part of the DOCTYPE: if it may declare something, a bracket remains.
 * Returns a problem if the rest is too long.
 */
function limitBuffers(parser: SaxesParser, progress: Progress, isReading: boolean): string | undefined {
  const buffers = parser as unknown as ParserBuffers;
  if (!isReading && !declaresRoot(progress, buffers.name) && buffers.piTarget !== 'xml') {
    buffers.text = progress.root === undefined && mayDeclare(buffers.text) ? '[' : '';
  }
  const { text, name, entity, piTarget } = buffers;
  const isTooLong = text.length + name.length + entity.length + piTarget.length > maxNameLength;
  return isTooLong ? `a ${isReading ? 'value' : 'name'} longer than ${maxNameLength} characters` : undefined;
}
