/**
 * Takes the reports of a page apart: the child elements of the document's root, whatever their name (contract, section
 * 2.3, says no more of a page's shape), each exactly as it stands there. What lies between them is left out.
 */

import { SaxesParser } from 'saxes';

/** Pieces this small keep what must be held of a page down to little more than one report. */
const pieceCharacters = 64 * 1024;

/**
 * Each report of a well-formed page as its own text. Prefixes and entities that the page declares outside of its reports
 * mean nothing in the text of one alone.
 * @throws Error of the parser, where the page is not well-formed
 */
export async function* reportElements(page: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const cutter = createCutter();
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  for await (const chunk of page) yield* cut(cutter, decoder.decode(chunk, { stream: true }));
  yield* cut(cutter, decoder.decode());
  cutter.end();
}

function* cut(cutter: Cutter, text: string): Generator<string> {
  for (let start = 0; start < text.length; start += pieceCharacters) {
    yield* cutter.push(text.slice(start, start + pieceCharacters));
  }
}

/** Looked for only between two reports: to look into a large one again and again would take the square of its length. */
function lastTagIn(text: string): number {
  const at = text.lastIndexOf('<');
  return at < 0 ? text.length : at;
}

interface Cutter {
  /** The reports that `text` completes. */
  push(text: string): readonly string[];
  end(): void;
}

function createCutter(): Cutter {
  const parser = new SaxesParser({ position: true });
  let depth = 0;
  let found: string[] = [];
  /** What may still belong to a report, and where in the page it begins. */
  let held = '';
  let heldFrom = 0;
  let reportFrom: number | undefined;

  parser.on('error', (error) => {
    // Of an entity that a DTD may declare, nothing but its name is needed here.
    if (!error.message.endsWith('undefined entity.')) throw error;
  });
  parser.on('opentagstart', () => {
    // The parser stands behind the name, and no name holds a `<`.
    if (depth === 1) reportFrom = heldFrom + held.lastIndexOf('<', parser.position - heldFrom - 1);
    depth += 1;
  });
  parser.on('closetag', () => {
    depth -= 1;
    if (depth !== 1 || reportFrom === undefined) return;
    found.push(held.slice(reportFrom - heldFrom, parser.position - heldFrom));
    reportFrom = undefined;
  });

  return {
    push(text) {
      held += text;
      parser.write(text);
      const complete = found;
      found = [];
      // A tag that is cut off at the end may open the next report.
      const keepFrom = reportFrom ?? heldFrom + lastTagIn(held);
      // Of a report that goes on nothing is cut off, or what was gathered of it would be copied each time.
      if (keepFrom > heldFrom) held = held.slice(keepFrom - heldFrom);
      heldFrom = keepFrom;
      return complete;
    },
    end() {
      parser.close();
    },
  };
}
