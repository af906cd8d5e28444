/**
 * Tells a whole well-formed XML document from anything else while it streams by, and counts its reports: the child
 * elements of the root (contract, section 2.3, says no more of a page's shape).
 *
 * A page whose answer named no length may have been cut off without a trace; the document's own last tag is then all
 * that tells. Namespaces are not looked at, entities not expanded, DTDs not read.
 */

import { SaxesParser } from 'saxes';
import { createPlainContent, type PlainContent } from './fast-path.ts';

export interface XmlCheck {
  /** Reads on. What is wrong, once something is, with its place; otherwise undefined. */
  push(chunk: Uint8Array): string | undefined;
  /** The same for the document as a whole, when there is no more of it. */
  end(): string | undefined;
  /** Child elements of the root met so far. An entity that stands for elements counts for none. */
  readonly reports: number;
}

/** Bounds on what must be held until it is complete. No report comes near them; libxml2 stops at a depth of 256. */
const deepest = 1_000;
const maxAttributes = 10_000;
const maxNameLength = 64 * 1024;

/**
 * So much is made into text at a time. V8 gives itself the more room the more outlives its collections, and the text in
 * hand always does: with the 64 KiB that come at a time, a page of 2 GB takes some 100 MB more.
 */
const pieceBytes = 8 * 1024;

/** What saxes gathers between two chunks: private, but nothing else tells how much it is, nor lets go of it. */
interface Gathered {
  text: string;
  readonly name: string;
  readonly entity: string;
  readonly piTarget: string;
}

/**
 * The parser reads what stands before the root's content and behind it. The content itself is read by `fast-path.ts`
 * as far as that knows it to be well-formed, and from there on, to the end, by the parser: it alone ever refuses anything.
 */
export function createXmlCheck(): XmlCheck {
  const parser = createParser();
  const content = createPlainContent();
  let reader: 'prolog' | 'content' | 'parser' = 'prolog';
  let bytes = 0;

  /** Up to the root's start tag: pieces end where one might end. Undefined, or what stands behind it. */
  const readProlog = (chunk: Uint8Array): Uint8Array | undefined => {
    for (let start = 0; start < chunk.length && parser.problem() === undefined; ) {
      const tagEnd = chunk.indexOf(greaterThan, start);
      const end = Math.min(tagEnd < 0 ? chunk.length : tagEnd + 1, start + pieceBytes);
      parser.read(chunk.subarray(start, end));
      start = end;
      if (parser.isInPlainRoot()) return chunk.subarray(start);
    }
    return undefined;
  };
  const leaveContent = (rest: Uint8Array): void => {
    reader = 'parser';
    parser.goOn(bytes - rest.length, content);
    parser.read(rest);
  };

  return {
    push(chunk) {
      bytes += chunk.length;
      let behind: Uint8Array | undefined = chunk;
      if (reader === 'prolog') {
        behind = readProlog(chunk);
        if (behind !== undefined) reader = 'content';
      }
      if (reader === 'content' && behind !== undefined) {
        const rest = content.push(behind);
        if (rest !== undefined) leaveContent(rest);
      } else if (reader === 'parser') {
        parser.read(chunk);
      }
      return parser.problem();
    },
    end() {
      if (bytes === 0) return 'the body is empty';
      if (reader === 'content') leaveContent(content.rest());
      parser.end();
      return parser.problem();
    },
    get reports() {
      return reader === 'content' ? content.reports() : parser.reports();
    },
  };
}

const greaterThan = 0x3e;

function createParser() {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const parser = new SaxesParser({ position: false });
  let problem: string | undefined;
  let isAscii = false;
  let isPlain = true;
  let isInRoot = false;
  let hasDoctype = false;
  let depth = 0;
  let attributes = 0;
  let reports = 0;
  /** What the parser has been given, in bytes of the document and in characters, and the text it is at. */
  let given = 0;
  let characters = 0;
  let reading = '';

  const refuse = (what: string, at = given + Buffer.byteLength(reading.slice(0, parser.position - characters))) => {
    problem ??= `byte ${at}: ${what.replace(/\.$/, '')}`;
  };
  parser.on('error', ({ message }) => {
    // The DTD may declare it, and well-formedness does not ask us to read an external one.
    if (!(hasDoctype && message === 'undefined entity.')) refuse(message);
  });
  parser.on('xmldecl', ({ encoding, version }) => {
    isAscii = /^us-ascii$/i.test(encoding ?? '');
    isPlain &&= !isAscii && version === '1.0';
    if (encoding !== undefined && !isAscii && !/^utf-8$/i.test(encoding)) refuse(`declares the encoding ${encoding}`);
  });
  parser.on('doctype', () => {
    hasDoctype = true;
    isPlain = false;
  });
  parser.on('opentagstart', () => {
    if (depth === 1) reports += 1;
    depth += 1;
    attributes = 0;
    if (depth > deepest) refuse(`elements nested deeper than ${deepest}`);
  });
  parser.on('opentag', ({ isSelfClosing }) => {
    if (depth === 1 && !isSelfClosing) isInRoot = true;
  });
  parser.on('attribute', (attribute) => {
    attributes += 1;
    if (attributes > maxAttributes) refuse(`more than ${maxAttributes} attributes in one tag`);
    // saxes keeps it as long as its element is open; that it was there is all that well-formedness asks.
    attribute.value = '';
  });
  parser.on('closetag', () => {
    depth -= 1;
  });

  const decode = (chunk?: Uint8Array) => {
    try {
      return decoder.decode(chunk, { stream: chunk !== undefined });
    } catch {
      refuse(chunk === undefined ? 'ends in the middle of a character' : 'not UTF-8 here or soon after', given);
      return '';
    }
  };
  const write = (text: string) => {
    reading = text;
    parser.write(text);
    characters += text.length;
    reading = '';
  };
  const readText = (text: string) => {
    write(text);
    if (isAscii && /[^\0-\x7f]/.test(text)) refuse('declares the encoding US-ASCII, but holds other characters', given);
    letGo(parser as unknown as Gathered, refuse);
  };

  return {
    read(chunk: Uint8Array) {
      for (let start = 0; start < chunk.length && problem === undefined; start += pieceBytes) {
        const piece = chunk.subarray(start, start + pieceBytes);
        readText(decode(piece));
        given += piece.length;
      }
    },
    end() {
      if (problem !== undefined) return;
      readText(decode());
      parser.close();
    },
    /** Whether the root's start tag has just been read, in a document that `fast-path.ts` may read on. */
    isInPlainRoot: () => isInRoot && isPlain && problem === undefined,
    /** As if it had read all up to the byte `at`, which `before` has. */
    goOn(at: number, before: PlainContent) {
      write(before.leadIn());
      reports = before.reports();
      given = at;
    },
    problem: () => problem,
    reports: () => reports,
  };
}

/**
 * Drops the text gathered so far, or a comment of a gigabyte would be held whole though nobody listens for it. saxes only
 * hands such text on and never looks into it, but for the XML declaration, whose parts it compares.
 */
function letGo(gathered: Gathered, refuse: (what: string) => void): void {
  if (gathered.piTarget !== 'xml') gathered.text = '';
  const { text, name, entity, piTarget } = gathered;
  if (text.length + name.length + entity.length + piTarget.length > maxNameLength) {
    refuse(`a name longer than ${maxNameLength} characters`);
  }
}
