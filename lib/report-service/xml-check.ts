/**
 * Tells a whole well-formed XML document from anything else while it streams by, and counts its reports: the child
 * elements of the root (contract, section 2.3, says no more of a page's shape).
 *
 * A page whose answer named no length may have been cut off without a trace; the document's own last tag is then all
 * that tells. Namespaces are not looked at, entities not expanded, DTDs not read.
 */

import { SaxesParser } from 'saxes';

export interface XmlCheck {
  /** Reads on. What is wrong, once something is, with its line and column; otherwise undefined. */
  push(chunk: Uint8Array): string | undefined;
  /** The same for the document as a whole, when there is no more of it. */
  end(): string | undefined;
  /** Child elements of the root met so far. An entity that stands for elements counts for none. */
  readonly reports: number;
}

/** Bounds on what must be held until it is complete. No report comes near them; libxml2 stops at a depth of 256. */
const deepest = 1_000;
const mostAttributes = 10_000;
const longestName = 64 * 1024;

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

export function createXmlCheck(): XmlCheck {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const parser = new SaxesParser({ position: false });
  let problem: string | undefined;
  let isEmpty = true;
  let isAscii = false;
  let hasDoctype = false;
  let depth = 0;
  let attributes = 0;
  let reports = 0;

  const refuse = (what: string) => {
    problem ??= `line ${parser.line}, column ${parser.column}: ${what.replace(/\.$/, '')}`;
  };
  parser.on('error', ({ message }) => {
    // The DTD may declare it, and well-formedness does not ask us to read an external one.
    if (!(hasDoctype && message === 'undefined entity.')) refuse(message);
  });
  parser.on('xmldecl', ({ encoding }) => {
    isAscii = /^us-ascii$/i.test(encoding ?? '');
    if (encoding !== undefined && !isAscii && !/^utf-8$/i.test(encoding)) refuse(`declares the encoding ${encoding}`);
  });
  parser.on('doctype', () => {
    hasDoctype = true;
  });
  parser.on('opentagstart', () => {
    if (depth === 1) reports += 1;
    depth += 1;
    attributes = 0;
    if (depth > deepest) refuse(`elements nested deeper than ${deepest}`);
  });
  parser.on('attribute', (attribute) => {
    attributes += 1;
    if (attributes > mostAttributes) refuse(`more than ${mostAttributes} attributes in one tag`);
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
      refuse(chunk === undefined ? 'ends in the middle of a character' : 'not UTF-8 here or soon after');
      return '';
    }
  };
  const read = (text: string) => {
    parser.write(text);
    if (isAscii && /[^\0-\x7f]/.test(text)) refuse('declares the encoding US-ASCII, but holds other characters');
    letGo(parser as unknown as Gathered, refuse);
  };

  return {
    push(chunk) {
      if (chunk.length > 0) isEmpty = false;
      for (let start = 0; start < chunk.length && problem === undefined; start += pieceBytes) {
        read(decode(chunk.subarray(start, start + pieceBytes)));
      }
      return problem;
    },
    end() {
      if (isEmpty) return 'the body is empty';
      if (problem === undefined) {
        read(decode());
        parser.close();
      }
      return problem;
    },
    get reports() {
      return reports;
    },
  };
}

/**
 * Drops the text gathered so far, or a comment of a gigabyte would be held whole though nobody listens for it. saxes only
 * hands such text on and never looks into it, but for the XML declaration, whose parts it compares.
 */
function letGo(gathered: Gathered, refuse: (what: string) => void): void {
  if (gathered.piTarget !== 'xml') gathered.text = '';
  const { text, name, entity, piTarget } = gathered;
  if (text.length + name.length + entity.length + piTarget.length > longestName) {
    refuse(`a name longer than ${longestName} characters`);
  }
}
