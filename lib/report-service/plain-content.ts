/**
 * Reads what almost all of a page is made of, some times faster than a parser: elements with ASCII names, attributes, text,
 * character references, comments and CDATA sections, byte by byte and without making text of them.
 *
 * It only ever says yes. Whatever it does not know to be well-formed, good or bad, it leaves to the parser from there to
 * the document's end, with the elements that are open. So it must never take too much, and may take too little.
 */

import { isUtf8 } from 'node:buffer';

export interface PlainContent {
  /** Reads on. Undefined: all is well so far; otherwise what has not been read, and is for the parser. */
  push(chunk: Uint8Array): Uint8Array | undefined;
  /** What is left of all that came: the beginning of something. */
  rest(): Uint8Array;
  /** What a parser must read to stand where this stops: the tags that are open within the root, and what is open in them. */
  leadIn(): string;
  /** Child elements of the root met so far. */
  readonly reports: number;
}

/** What comes at a time. */
const chunkBytes = 64 * 1024;
/** Of a tag that does not end: what is longer is the parser's. */
const mostHeld = 32 * 1024;
/** Looked at behind the last byte without asking whether it is there. */
const lookAhead = 16;
const mostAttributes = 64;
const longestNames = 64 * 1024;

/** What a byte may be part of. */
const blank = 1;
const nameStart = 2;
const inName = 4;
const inText = 8;
const inValue = 16;
const inComment = 32;
const inSection = 64;
const codeOf = (character: string): number => character.charCodeAt(0);
const lessThan = codeOf('<');
const greaterThan = codeOf('>');
const slash = codeOf('/');
const ampersand = codeOf('&');
const bang = codeOf('!');
const dash = codeOf('-');
const closeBracket = codeOf(']');
const equals = codeOf('=');
const semicolon = codeOf(';');
const hash = codeOf('#');
const letterX = codeOf('x');
const quote = codeOf('"');
const apostrophe = codeOf("'");
/** Of characters beyond ASCII, U+FFFE and U+FFFF are none of XML's; in UTF-8 they begin with this byte. */
const nearNoncharacter = 0xef;

const kinds = kindsOfBytes();

function kindsOfBytes(): Uint8Array {
  const but = (ends: string, character: string) => !ends.includes(character);
  const kindOf = (byte: number): number => {
    if (byte >= 0x80) return byte === nearNoncharacter ? 0 : inText | inValue | inComment | inSection;
    const character = String.fromCharCode(byte);
    const isBlank = /[\t\n\r ]/.test(character);
    if (byte < 0x20 && !isBlank) return 0;
    return (
      (isBlank ? blank : 0) |
      (/[A-Za-z_:]/.test(character) ? nameStart : 0) |
      (/[A-Za-z_:.\d-]/.test(character) ? inName : 0) |
      // What ends them or begins something else is looked at by itself.
      (but('<&]', character) ? inText : 0) |
      (but('<&"\'', character) ? inValue : 0) |
      (but('-', character) ? inComment : 0) |
      (but(']', character) ? inSection : 0)
    );
  };
  return Uint8Array.from({ length: 256 }, (_, byte) => kindOf(byte));
}

const commentStart = Array.from('<!--', codeOf);
const sectionStart = Array.from('<![CDATA[', codeOf);
const namedReferences = ['&amp;', '&lt;', '&gt;', '&quot;', '&apos;'].map((reference) => Array.from(reference, codeOf));
/** `&#x10FFFF;` and some zeros. */
const longestReference = 12;

/** Not a place: what begins here does not end in what has come so far, or is not plain. */
const unfinished = -1;
const notPlain = -2;

const openings = { content: '', comment: '<!--', section: '<![CDATA[' } as const;

/** For the content of a root whose start tag has been read. `deepest`: elements nested in one another, the root included. */
export function createPlainContent(deepest: number): PlainContent {
  const bytes = new Uint8Array(2 * mostHeld + chunkBytes + 4 + lookAhead);
  /** Where what has come ends. */
  let end = 0;
  /** How much of it was there before and came to no end. */
  let held = 0;
  /** The beginning of a character whose end has not come. */
  let partOfCharacter: Uint8Array = new Uint8Array(0);
  let inside: keyof typeof openings = 'content';
  /** How far a comment or section has been read that does not end here. */
  let paused = 0;
  let reports = 0;

  const names = new Uint8Array(longestNames);
  /** Where the name of each open element begins, and, last, where the next one will. */
  const nameStarts = new Int32Array(deepest + 1);
  let depth = 0;
  const attributeStarts = new Int32Array(mostAttributes);
  const attributeEnds = new Int32Array(mostAttributes);

  const kindAt = (at: number): number => kinds[bytes[at] as number] as number;
  const stop = (at: number): number => (at >= end ? unfinished : notPlain);

  // In the four functions that meet nearly every byte the arrays are constants of their own: V8 then keeps them at hand,
  // and reads half as fast again.

  /** How far it goes on well-formed from the beginning; whether it is only not known yet what comes there. */
  function read(): { readonly to: number; readonly isPlain: boolean } {
    const text = bytes;
    const kindOf = kinds;
    for (let at = 0; ; ) {
      if (inside !== 'content') {
        at = inside === 'comment' ? behindComment(at) : behindSection(at);
        // What has gone by of either need not be there again.
        if (at < 0) return { to: paused, isPlain: at === unfinished };
        inside = 'content';
      }
      while (((kindOf[text[at] as number] as number) & inText) !== 0) at += 1;
      if (at >= end) return { to: end, isPlain: true };
      const next = text[at] === lessThan ? tag(at) : exception(at);
      if (next < 0) return { to: at, isPlain: next === unfinished };
      at = next;
    }
  }

  function tag(at: number): number {
    const second = bytes[at + 1];
    if (second === slash) return endTag(at);
    if (second !== bang) return startTag(at);
    return bytes[at + 2] === dash ? comment(at) : section(at);
  }

  /** Behind what stands at `at`, in text or a value, and may not stand there just like that. */
  function exception(at: number): number {
    const byte = bytes[at];
    if (byte === ampersand) return reference(at);
    if (byte === closeBracket) return bracket(at);
    if (byte === nearNoncharacter) return character(at);
    return stop(at);
  }

  /** The end of the root itself is the parser's, as is all behind it. */
  function endTag(at: number): number {
    if (depth === 0) return notPlain;
    const text = bytes;
    const name = names;
    const nameEnd = nameStarts[depth] as number;
    let here = at + 2;
    for (let from = nameStarts[depth - 1] as number; from < nameEnd; from += 1, here += 1) {
      if (text[here] !== name[from]) return stop(here);
    }
    if (text[here] !== greaterThan) here = behindBlanks(here);
    if (text[here] !== greaterThan) return stop(here);
    depth -= 1;
    return here + 1;
  }

  function startTag(at: number): number {
    const text = bytes;
    const kindOf = kinds;
    let here = at + 1;
    if ((kindAt(here) & nameStart) === 0) return stop(here);
    while (((kindOf[text[here] as number] as number) & inName) !== 0) here += 1;
    const nameEnd = here;
    for (let attributes = 0; ; attributes += 1) {
      const gap = here;
      if (text[here] !== greaterThan) here = behindBlanks(here);
      if (text[here] === greaterThan) return opened(at + 1, nameEnd) ? here + 1 : notPlain;
      if (text[here] === slash) return emptyTagEnd(here);
      if (here === gap || attributes === mostAttributes) return stop(here);
      here = attribute(here, attributes);
      if (here < 0) return here;
    }
  }

  function emptyTagEnd(at: number): number {
    if (bytes[at + 1] !== greaterThan) return stop(at + 1);
    if (depth + 1 >= deepest) return notPlain;
    if (depth === 0) reports += 1;
    return at + 2;
  }

  function behindBlanks(at: number): number {
    let here = at;
    while ((kindAt(here) & blank) !== 0) here += 1;
    return here;
  }

  /** Remembers the element; whether it may be. */
  function opened(from: number, to: number): boolean {
    const nameAt = nameStarts[depth] as number;
    if (depth + 1 >= deepest || nameAt + to - from > longestNames) return false;
    let nameEnd = nameAt;
    for (let here = from; here < to; here += 1, nameEnd += 1) names[nameEnd] = bytes[here] as number;
    if (depth === 0) reports += 1;
    depth += 1;
    nameStarts[depth] = nameEnd;
    return true;
  }

  /** The tag's attribute with this number, from 0. */
  function attribute(at: number, number: number): number {
    const text = bytes;
    const kindOf = kinds;
    if ((kindAt(at) & nameStart) === 0) return stop(at);
    let here = at + 1;
    while (((kindOf[text[here] as number] as number) & inName) !== 0) here += 1;
    if (isTaken(at, here, number)) return notPlain;
    if (text[here] !== equals) here = behindBlanks(here);
    if (text[here] !== equals) return stop(here);
    here = behindBlanks(here + 1);
    const mark = text[here];
    if (mark !== quote && mark !== apostrophe) return stop(here);
    for (here += 1; here > 0; ) {
      while (((kindOf[text[here] as number] as number) & inValue) !== 0) here += 1;
      const byte = text[here];
      if (byte === mark) return here + 1;
      here = byte === quote || byte === apostrophe ? here + 1 : exception(here);
    }
    return here;
  }

  /** Whether one of so many attributes before it in the tag has the name that stands there; remembers it. */
  function isTaken(from: number, to: number, before: number): boolean {
    for (let other = 0; other < before; other += 1) {
      if (isSame(attributeStarts[other] as number, attributeEnds[other] as number, from, to)) return true;
    }
    attributeStarts[before] = from;
    attributeEnds[before] = to;
    return false;
  }

  function isSame(from: number, to: number, otherFrom: number, otherTo: number): boolean {
    if (to - from !== otherTo - otherFrom) return false;
    for (let here = from, there = otherFrom; here < to; here += 1, there += 1) {
      if (bytes[here] !== bytes[there]) return false;
    }
    return true;
  }

  function reference(at: number): number {
    if (bytes[at + 1] === hash) return numericReference(at);
    for (const reference of namedReferences) {
      const behind = follows(at, reference);
      if (behind !== notPlain) return behind;
    }
    return notPlain;
  }

  function numericReference(at: number): number {
    const isHexadecimal = bytes[at + 2] === letterX;
    const first = at + (isHexadecimal ? 3 : 2);
    const base = isHexadecimal ? 16 : 10;
    let number = 0;
    let here = first;
    for (; here < at + longestReference; here += 1) {
      const digit = digitOf(bytes[here] as number);
      if (digit >= base) break;
      number = number * base + digit;
    }
    if (bytes[here] !== semicolon || here === first) return stop(here);
    return isCharacter(number) ? here + 1 : notPlain;
  }

  /** `]` may stand alone, but not before `]>`. */
  function bracket(at: number): number {
    if (at + 2 >= end) return bytes[at + 1] === closeBracket || at + 1 >= end ? unfinished : at + 1;
    return bytes[at + 1] === closeBracket && bytes[at + 2] === greaterThan ? notPlain : at + 1;
  }

  /** One that begins like U+FFFE and U+FFFF, which no document may hold. */
  function character(at: number): number {
    return bytes[at + 1] === 0xbf && (bytes[at + 2] as number) >= 0xbe ? notPlain : at + 3;
  }

  function comment(at: number): number {
    const behind = follows(at, commentStart);
    if (behind > 0) inside = 'comment';
    return behind;
  }

  /** Behind the end of the comment that goes on at `at`. */
  function behindComment(at: number): number {
    for (let here = at; ; ) {
      while ((kindAt(here) & inComment) !== 0) here += 1;
      paused = here;
      if (bytes[here] === nearNoncharacter) here = character(here);
      else if (bytes[here] !== dash) return stop(here);
      else if (here + 2 >= end) return unfinished;
      else if (bytes[here + 1] !== dash) here += 1;
      else return bytes[here + 2] === greaterThan ? here + 3 : notPlain;
      if (here < 0) return here;
    }
  }

  function section(at: number): number {
    const behind = follows(at, sectionStart);
    if (behind > 0) inside = 'section';
    return behind;
  }

  /** Behind the end of the CDATA section that goes on at `at`. */
  function behindSection(at: number): number {
    for (let here = at; ; ) {
      while ((kindAt(here) & inSection) !== 0) here += 1;
      paused = here;
      if (bytes[here] === nearNoncharacter) here = character(here);
      else if (bytes[here] !== closeBracket) return stop(here);
      else if (here + 2 >= end) return unfinished;
      else if (bytes[here + 1] === closeBracket && bytes[here + 2] === greaterThan) return here + 3;
      else here += 1;
      if (here < 0) return here;
    }
  }

  /** Behind `wanted`, where it stands at `at`. */
  function follows(at: number, wanted: readonly number[]): number {
    for (let index = 0; index < wanted.length; index += 1) {
      if (bytes[at + index] !== wanted[index]) return stop(at + index);
    }
    return at + wanted.length;
  }

  /** Takes `chunk` in, but for a character that it begins and does not end. Whether all of it is UTF-8. */
  function take(chunk: Uint8Array): boolean {
    const from = end;
    bytes.set(partOfCharacter, end);
    bytes.set(chunk, end + partOfCharacter.length);
    end += partOfCharacter.length + chunk.length;
    const whole = end - partialCharacter(bytes, from, end);
    partOfCharacter = bytes.slice(whole, end);
    if (!isUtf8(bytes.subarray(from, whole))) {
      partOfCharacter = new Uint8Array(0);
      return false;
    }
    end = whole;
    bytes.fill(0, end, end + lookAhead);
    return true;
  }

  function rest(): Uint8Array {
    return Buffer.concat([bytes.subarray(0, end), partOfCharacter]);
  }

  return {
    push(chunk) {
      for (let start = 0; start < chunk.length; start += chunkBytes) {
        const isText = take(chunk.subarray(start, start + chunkBytes));
        const behind = () => Buffer.concat([rest(), chunk.subarray(start + chunkBytes)]);
        if (!isText) return behind();
        // What did not come to its end is not looked at again for each byte that comes, but when it has doubled.
        if (end < 2 * held) continue;
        const { to, isPlain } = read();
        bytes.copyWithin(0, to, end);
        end -= to;
        held = end;
        if (!isPlain || held > mostHeld) return behind();
      }
      return undefined;
    },
    rest,
    leadIn() {
      const tag = (_: unknown, index: number) =>
        `<${Buffer.from(names.subarray(nameStarts[index], nameStarts[index + 1])).toString('latin1')}>`;
      return Array.from({ length: depth }, tag).join('') + openings[inside];
    },
    get reports() {
      return reports;
    },
  };
}

/** How many of the last bytes begin a character that they do not end. */
function partialCharacter(bytes: Uint8Array, from: number, end: number): number {
  for (let length = 1; length <= 3 && end - length >= from; length += 1) {
    const byte = bytes[end - length] as number;
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return length < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) ? length : 0;
  }
  return 0;
}

/** The value of a hexadecimal digit; more than any for whatever else. */
function digitOf(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const letter = byte | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : 99;
}

/** XML 1.0, production 2. */
function isCharacter(number: number): boolean {
  if (number < 0x20) return number === 9 || number === 10 || number === 13;
  return number <= 0xd7ff || (number >= 0xe000 && number <= 0xfffd) || (number >= 0x10000 && number <= 0x10ffff);
}
