/**
 * Reads what almost every page consists of, ten times as fast as a parser: elements with ASCII names, attributes, text,
 * references, comments and CDATA sections. The reader is WebAssembly (`assembly/fast-path.ts`).
 *
 * It never rejects anything. From the first construct that it does not know to be well-formed, whether it is or not, the
 * rest of the document is left to the parser. So it may accept too little, but must never accept too much.
 */

import { isUtf8 } from 'node:buffer';
import { fastPathWasm } from './fast-path-wasm.ts';

export interface FastPath {
  /** Reads on. Returns undefined while the content is plain, otherwise the bytes that are left to the parser. */
  push(chunk: Uint8Array): Uint8Array | undefined;
  /** The bytes that have arrived and are not read: the start of an incomplete construct. */
  rest(): Uint8Array;
  /** What a parser must read to get into the same state: the tags that are open inside the root, and an open comment. */
  openTags(): string;
  /** How many child elements of the root have started. */
  reports(): number;
}

/** The exports of the module. Names that end in `At` are addresses in its memory. */
interface Exports {
  readonly memory: WebAssembly.Memory;
  readonly nameStartsAt: WebAssembly.Global;
  readonly namesAt: WebAssembly.Global;
  readonly textAt: WebAssembly.Global;
  readonly insideComment: WebAssembly.Global;
  readonly insideCdata: WebAssembly.Global;
  readonly depth: WebAssembly.Global;
  readonly reports: WebAssembly.Global;
  readonly inside: WebAssembly.Global;
  readonly read: (length: number) => number;
}

/** Together with twice `maxHeldBytes`, a chunk fits into the reader's memory. */
const chunkBytes = 60 * 1024;
/** The longest incomplete construct. Longer ones are left to the parser. */
const maxHeldBytes = 32 * 1024;
/** How far the reader looks past the end of the text without a check. */
const lookAheadBytes = 16;

const empty = new Uint8Array(0);

/** One reader serves all documents of the process. Each document saves its state while the reader has another one's. */
let sharedReader: ReturnType<typeof createReader> | undefined;
/** The document whose state the reader has. */
let current: { readonly save: () => void } | undefined;

/** For the content of a root element whose start tag has been read. */
export function createFastPath(): FastPath {
  sharedReader ??= createReader();
  const reader = sharedReader;
  const { exports, text } = reader;
  let saved = { depth: 0, reports: 0, inside: 0, names: empty, nameStarts: new Int32Array(1), text: empty };
  /** The length of the text that has arrived and is not read. */
  let end = 0;
  /** The length of the text that the last call of the reader left as incomplete. */
  let heldBytes = 0;
  /** The start of a UTF-8 character whose end has not arrived. */
  let partialCharacter: Uint8Array = empty;

  const self = {
    save() {
      const { depth, reports, inside } = exports;
      const nameStarts = reader.nameStarts.slice(0, depth.value + 1);
      saved = {
        depth: depth.value,
        reports: reports.value,
        inside: inside.value,
        names: reader.names.slice(0, nameStarts.at(-1)),
        nameStarts,
        text: text.slice(0, end),
      };
    },
  };
  const restore = () => {
    if (current === self) return;
    current?.save();
    current = self;
    const { depth, reports, inside } = exports;
    depth.value = saved.depth;
    reports.value = saved.reports;
    inside.value = saved.inside;
    reader.nameStarts.set(saved.nameStarts);
    reader.names.set(saved.names);
    text.set(saved.text);
  };

  /** Appends `chunk` to the text, except for a character that it cuts off. False if it is not UTF-8. */
  function append(chunk: Uint8Array): boolean {
    const from = end;
    text.set(partialCharacter, end);
    text.set(chunk, end + partialCharacter.length);
    end += partialCharacter.length + chunk.length;
    const complete = end - partialCharacterLength(text, from, end);
    if (!isUtf8(text.subarray(from, complete))) {
      partialCharacter = empty;
      return false;
    }
    partialCharacter = text.slice(complete, end);
    end = complete;
    text.fill(0, end, end + lookAheadBytes);
    return true;
  }

  /** Whether the text is plain, as far as it has arrived. */
  function read(): boolean {
    const done = exports.read(end);
    const from = done < 0 ? ~done : done;
    text.copyWithin(0, from, end);
    end -= from;
    heldBytes = end;
    return done >= 0 && heldBytes <= maxHeldBytes;
  }

  function rest(): Uint8Array {
    restore();
    return Buffer.concat([text.subarray(0, end), partialCharacter]);
  }

  return {
    push(chunk) {
      restore();
      for (let start = 0; start < chunk.length; start += chunkBytes) {
        const isText = append(chunk.subarray(start, start + chunkBytes));
        // An incomplete construct is read again only when it has doubled in size, not for each byte that arrives.
        if (isText && (end < 2 * heldBytes || read())) continue;
        return Buffer.concat([rest(), chunk.subarray(start + chunkBytes)]);
      }
      return undefined;
    },
    rest,
    openTags() {
      restore();
      const { depth, inside, insideComment, insideCdata } = exports;
      const tags = Array.from({ length: depth.value }, (_, index) => {
        const name = reader.names.subarray(reader.nameStarts[index], reader.nameStarts[index + 1]);
        return `<${Buffer.from(name).toString('latin1')}>`;
      });
      if (inside.value === insideComment.value) tags.push('<!--');
      if (inside.value === insideCdata.value) tags.push('<![CDATA[');
      return tags.join('');
    },
    reports() {
      restore();
      return exports.reports.value;
    },
  };
}

function createReader() {
  const module = new WebAssembly.Module(Buffer.from(fastPathWasm, 'base64'));
  const exports = new WebAssembly.Instance(module).exports as unknown as Exports;
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

/** How many of the last bytes start a UTF-8 character without completing it. */
function partialCharacterLength(bytes: Uint8Array, from: number, end: number): number {
  for (let length = 1; length <= 3 && end - length >= from; length += 1) {
    const byte = bytes[end - length] ?? 0;
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return length < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) ? length : 0;
  }
  return 0;
}
