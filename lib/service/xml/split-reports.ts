/**
 * Splits a page into its reports: the child elements of the document's root, whatever their name
 * (docs/service-contract.md, section 2.3), each exactly as it occurs in the page. Text between them is dropped.
 */

import { SaxesParser } from 'saxes';

/**
 * Each report of a well-formed page as a text of its own. A report may refer to prefixes and entities that the page declares
 * elsewhere; those declarations are not part of its text.
 * @throws Error of the parser if the page is not well-formed
 */
export async function* splitReports(page: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const splitter = createSplitter();
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  for await (const chunk of page) yield* splitText(splitter, decoder.decode(chunk, { stream: true }));
  yield* splitText(splitter, decoder.decode());
  splitter.end();
}

/** Pieces this small keep little more than one report in memory. */
const pieceLength = 64 * 1024;

function* splitText(splitter: Splitter, text: string): Generator<string> {
  for (let start = 0; start < text.length; start += pieceLength) {
    yield* splitter.push(text.slice(start, start + pieceLength));
  }
}

interface Splitter {
  /** The reports that `text` completes. */
  push(text: string): readonly string[];
  /** @throws Error of the parser if the document is incomplete */
  end(): void;
}

function createSplitter(): Splitter {
  const parser = new SaxesParser({ position: true });
  let depth = 0;
  let complete: string[] = [];
  /** Text that may belong to a report, and its position in the page. */
  let held = '';
  let heldFrom = 0;
  let reportFrom: number | undefined;

  parser.on('error', (error) => {
    // A DTD may declare the entity. Its value is not needed here.
    if (!error.message.endsWith('undefined entity.')) throw error;
  });
  parser.on('opentagstart', () => {
    // The parser's position is after the name, and a name contains no `<`.
    if (depth === 1) reportFrom = heldFrom + held.lastIndexOf('<', parser.position - heldFrom - 1);
    depth += 1;
  });
  parser.on('closetag', () => {
    depth -= 1;
    if (depth !== 1 || reportFrom === undefined) return;
    complete.push(held.slice(reportFrom - heldFrom, parser.position - heldFrom));
    reportFrom = undefined;
  });

  return {
    push(text) {
      held += text;
      parser.write(text);
      const reports = complete;
      complete = [];
      // A tag that is cut off at the end may start the next report. Inside a report nothing can be dropped: copying and
      // searching what is held of a large report for each piece would take quadratic time.
      const keepFrom = reportFrom ?? heldFrom + lastTagStart(held);
      if (keepFrom > heldFrom) held = held.slice(keepFrom - heldFrom);
      heldFrom = keepFrom;
      return reports;
    },
    end() {
      parser.close();
    },
  };
}

function lastTagStart(text: string): number {
  const position = text.lastIndexOf('<');
  return position < 0 ? text.length : position;
}
