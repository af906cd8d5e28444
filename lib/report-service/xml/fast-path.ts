/**
 * Reads what almost all of a page is made of, ten times faster than a parser: elements with ASCII names, attributes, text,
 * references, comments and CDATA sections. The reading itself is WebAssembly (`assembly/fast-path.ts`).
 *
 * It only ever says yes. Whatever it does not know to be well-formed, good or bad, it leaves to the parser, from there to
 * the document's end. So it must never take too much, and may take too little.
 */

import { isUtf8 } from 'node:buffer';
import { fastPathWasm } from './fast-path-wasm.ts';

export interface PlainContent {
  /** Reads on. Undefined: all is well so far; otherwise what has not been read, and is for the parser. */
  push(chunk: Uint8Array): Uint8Array | undefined;
  /** What is left of all that came: the beginning of something. */
  rest(): Uint8Array;
  /** What a parser must read to stand where this stops: the tags that are open within the root, and what is open in them. */
  leadIn(): string;
  /** Child elements of the root met so far. */
  reports(): number;
}

/** What the module exports; the numbers ending in `At` are addresses in its memory. */
interface Reader {
  readonly memory: WebAssembly.Memory;
  readonly nameStartsAt: WebAssembly.Global;
  readonly namesAt: WebAssembly.Global;
  readonly textAt: WebAssembly.Global;
  readonly insideComment: WebAssembly.Global;
  readonly insideSection: WebAssembly.Global;
  readonly depth: WebAssembly.Global;
  readonly reports: WebAssembly.Global;
  readonly inside: WebAssembly.Global;
  readonly read: (length: number) => number;
}

/** What comes at a time; with twice what is held, it fits into the reader's memory. */
const chunkBytes = 60 * 1024;
/** Of a tag that does not end: what is longer is the parser's. */
const maxHeld = 32 * 1024;
/** What the reader looks at behind the last byte without asking whether it is there. */
const lookAhead = 16;

const nothing = new Uint8Array(0);

/** One for all documents of this process: it reads them by turns, and each keeps its own state meanwhile. */
let theReader: ReturnType<typeof createReader> | undefined;
/** Whose state the reader has. */
let guest: { readonly leave: () => void } | undefined;

/** For the content of a root whose start tag has been read. */
export function createPlainContent(): PlainContent {
  theReader ??= createReader();
  const reader = theReader;
  const { exports, text } = reader;
  /** The reader's, for as long as it reads another document. */
  let state = { depth: 0, reports: 0, inside: 0, names: nothing, nameStarts: new Int32Array(1), text: nothing };
  /** Where what has come ends. */
  let end = 0;
  /** How much of it was there before and came to no end. */
  let held = 0;
  /** The beginning of a character whose end has not come. */
  let partOfCharacter: Uint8Array = nothing;

  const self = {
    leave() {
      const { depth, reports, inside } = exports;
      const nameStarts = reader.nameStarts.slice(0, depth.value + 1);
      const names = reader.names.slice(0, nameStarts.at(-1));
      state = {
        depth: depth.value,
        reports: reports.value,
        inside: inside.value,
        names,
        nameStarts,
        text: text.slice(0, end),
      };
    },
  };
  const enter = () => {
    if (guest === self) return;
    guest?.leave();
    guest = self;
    const { depth, reports, inside } = exports;
    depth.value = state.depth;
    reports.value = state.reports;
    inside.value = state.inside;
    reader.nameStarts.set(state.nameStarts);
    reader.names.set(state.names);
    text.set(state.text);
  };

  /** Takes `chunk` in, but for a character that it begins and does not end. Whether all of it is UTF-8. */
  function take(chunk: Uint8Array): boolean {
    const from = end;
    text.set(partOfCharacter, end);
    text.set(chunk, end + partOfCharacter.length);
    end += partOfCharacter.length + chunk.length;
    const whole = end - partialCharacter(text, from, end);
    if (!isUtf8(text.subarray(from, whole))) {
      partOfCharacter = nothing;
      return false;
    }
    partOfCharacter = text.slice(whole, end);
    end = whole;
    text.fill(0, end, end + lookAhead);
    return true;
  }

  /** Whether what has come is plain, as far as can be told. */
  function read(): boolean {
    const done = exports.read(end);
    const from = done < 0 ? ~done : done;
    text.copyWithin(0, from, end);
    end -= from;
    held = end;
    return done >= 0 && held <= maxHeld;
  }

  function rest(): Uint8Array {
    enter();
    return Buffer.concat([text.subarray(0, end), partOfCharacter]);
  }

  return {
    push(chunk) {
      enter();
      for (let start = 0; start < chunk.length; start += chunkBytes) {
        const isText = take(chunk.subarray(start, start + chunkBytes));
        // What did not come to its end is not looked at again for each byte that comes, but when it has doubled.
        if (isText && (end < 2 * held || read())) continue;
        return Buffer.concat([rest(), chunk.subarray(start + chunkBytes)]);
      }
      return undefined;
    },
    rest,
    leadIn() {
      enter();
      const { depth, inside, insideComment, insideSection } = exports;
      const tags = Array.from({ length: depth.value }, (_, index) => {
        const name = reader.names.subarray(reader.nameStarts[index], reader.nameStarts[index + 1]);
        return `<${Buffer.from(name).toString('latin1')}>`;
      });
      if (inside.value === insideComment.value) tags.push('<!--');
      if (inside.value === insideSection.value) tags.push('<![CDATA[');
      return tags.join('');
    },
    reports() {
      enter();
      return exports.reports.value;
    },
  };
}

function createReader() {
  const module = new WebAssembly.Module(Buffer.from(fastPathWasm, 'base64'));
  const exports = new WebAssembly.Instance(module).exports as unknown as Reader;
  const { buffer } = exports.memory;
  const namesAt = exports.namesAt.value;
  const nameStartsAt = exports.nameStartsAt.value;
  return {
    exports,
    nameStarts: new Int32Array(buffer, nameStartsAt, (namesAt - nameStartsAt) / Int32Array.BYTES_PER_ELEMENT),
    names: new Uint8Array(buffer, namesAt, exports.textAt.value - namesAt),
    text: new Uint8Array(buffer, exports.textAt.value),
  };
}

/** How many of the last bytes begin a character that they do not end. */
function partialCharacter(bytes: Uint8Array, from: number, end: number): number {
  for (let length = 1; length <= 3 && end - length >= from; length += 1) {
    const byte = bytes[end - length] ?? 0;
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return length < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) ? length : 0;
  }
  return 0;
}
