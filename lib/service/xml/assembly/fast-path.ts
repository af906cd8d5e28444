/**
 * The reader of `../fast-path.ts`, in AssemblyScript. It looks at every byte of every page: as WebAssembly it is three times
 * as fast as in JavaScript, from the first page on.
 *
 * It accepts plain content, a subset of XML 1.0 (fifth edition, sections 2.2 to 2.5, 3.1 and 4.1) that needs neither tables
 * of letters nor declarations, and reads it piece by piece. It stops at incomplete content, to be called again once more has
 * arrived; and at content that is not plain, for good.
 *
 * Most functions take a position in the text and return the position after what they read, or `incomplete` or `notPlain`.
 */

// The memory layout: tables first, then the text to read.
const byteClasses: usize = 0;
const attributeStarts: usize = 256;
const attributeEnds: usize = 512;
/** Where the names of the open elements start, as 32-bit numbers, followed by where the next name will start. */
export const nameStartsAt: i32 = 1_024;
export const namesAt: i32 = 8_192;
export const textAt: i32 = namesAt + 65_536;
export const textBytes: i32 = 131_072;

/** Of nested elements, including the root, which is not read here. */
const maxDepth: i32 = 1_000;
const maxNameBytes: i32 = 65_536;
const maxAttributes: i32 = 64;
/** Including leading zeros. */
const maxDigits: i32 = 12;

// The classes of bytes: what a byte may be part of.
const blank: u8 = 1;
const nameStart: u8 = 2;
const inName: u8 = 4;
const inText: u8 = 8;
const inValue: u8 = 16;
const inComment: u8 = 32;
const inCdata: u8 = 64;

const tab: u8 = 0x09;
const lineFeed: u8 = 0x0a;
const carriageReturn: u8 = 0x0d;
const space: u8 = 0x20;
const exclamationMark: u8 = 0x21;
const quote: u8 = 0x22;
const hash: u8 = 0x23;
const ampersand: u8 = 0x26;
const apostrophe: u8 = 0x27;
const dash: u8 = 0x2d;
const point: u8 = 0x2e;
const slash: u8 = 0x2f;
const colon: u8 = 0x3a;
const semicolon: u8 = 0x3b;
const lessThan: u8 = 0x3c;
const equals: u8 = 0x3d;
const greaterThan: u8 = 0x3e;
const openBracket: u8 = 0x5b;
const closeBracket: u8 = 0x5d;
const underscore: u8 = 0x5f;
/** The first byte, in UTF-8, of the noncharacters U+FFFE and U+FFFF, which XML forbids, and of valid characters near them. */
const maybeNoncharacter: u8 = 0xef;

/** What starts here continues after the text that has arrived. */
const incomplete: i32 = -1;
const notPlain: i32 = -2;

export const insideContent: i32 = 0;
export const insideComment: i32 = 1;
export const insideCdata: i32 = 2;

// The state after what has been read. Set it to switch to another document.
export let depth: i32 = 0;
export let reports: i32 = 0;
export let inside: i32 = insideContent;

let end: i32 = 0;
/** How far an incomplete comment or CDATA section has been read. */
let paused: i32 = 0;

fillByteClasses();

function fillByteClasses(): void {
  for (let byte = 0; byte < 256; byte++) store<u8>(byte, classesOf(<u8>byte), byteClasses);
}

function classesOf(byte: u8): u8 {
  if (byte >= 0x80) return byte == maybeNoncharacter ? 0 : inText | inValue | inComment | inCdata;
  const isBlank = byte == tab || byte == lineFeed || byte == carriageReturn || byte == space;
  if (byte < space && !isBlank) return 0;
  let classes: u8 = isBlank ? blank : 0;
  const isLetter = (byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x7a;
  if (isLetter || byte == underscore || byte == colon) classes |= nameStart | inName;
  if (isDigit(byte) || byte == dash || byte == point) classes |= inName;
  // Bytes that end a construct, or start another, are excluded and examined one by one.
  const startsMarkup = byte == lessThan || byte == ampersand;
  if (!startsMarkup && byte != closeBracket) classes |= inText;
  if (!startsMarkup && byte != quote && byte != apostrophe) classes |= inValue;
  if (byte != dash) classes |= inComment;
  if (byte != closeBracket) classes |= inCdata;
  return classes;
}

function isDigit(byte: u8): bool {
  return byte >= 0x30 && byte <= 0x39;
}

function byteAt(at: i32): u8 {
  return load<u8>(at, textAt);
}

function isClass(at: i32, byteClass: u8): bool {
  return (load<u8>(byteAt(at), byteClasses) & byteClass) != 0;
}

function skip(at: i32, byteClass: u8): i32 {
  while (isClass(at, byteClass)) at++;
  return at;
}

/** Why reading stops at `at`. The byte after the end is 0, which belongs to no class. */
function stopAt(at: i32): i32 {
  return at >= end ? incomplete : notPlain;
}

/**
 * Reads the first `length` bytes of the text, which must be UTF-8 followed by zeros. Returns how many of them are done; the
 * complement of that number if the content after them is not plain.
 */
export function read(length: i32): i32 {
  end = length;
  let at = 0;
  for (;;) {
    if (inside != insideContent) {
      at = inside == insideComment ? commentEnd(at) : cdataEnd(at);
      // What has been read of either is done.
      if (at < 0) return at == incomplete ? paused : ~paused;
      inside = insideContent;
    }
    at = skip(at, inText);
    if (at >= end) return end;
    const next = byteAt(at) == lessThan ? tag(at) : specialByte(at);
    if (next < 0) return next == incomplete ? at : ~at;
    at = next;
  }
  return end;
}

function tag(at: i32): i32 {
  const second = byteAt(at + 1);
  if (second == slash) return endTag(at);
  if (second != exclamationMark) return startTag(at);
  return byteAt(at + 2) == dash ? commentStart(at) : cdataStart(at);
}

/** A byte in text or in a value that is not allowed there unconditionally. */
function specialByte(at: i32): i32 {
  const byte = byteAt(at);
  if (byte == ampersand) return reference(at);
  if (byte == closeBracket) return bracket(at);
  if (byte == maybeNoncharacter) return character(at);
  return stopAt(at);
}

/** The root's own end tag and everything after it are not plain. */
function endTag(at: i32): i32 {
  if (depth == 0) return notPlain;
  let here = at + 2;
  const nameEnd = load<i32>(depth << 2, nameStartsAt);
  for (let from = load<i32>((depth - 1) << 2, nameStartsAt); from < nameEnd; from++, here++) {
    if (byteAt(here) != load<u8>(from, namesAt)) return stopAt(here);
  }
  here = skip(here, blank);
  if (byteAt(here) != greaterThan) return stopAt(here);
  depth--;
  return here + 1;
}

function startTag(at: i32): i32 {
  if (!isClass(at + 1, nameStart)) return stopAt(at + 1);
  const nameEnd = skip(at + 2, inName);
  let here = nameEnd;
  for (let attributes = 0; ; attributes++) {
    const gap = here;
    here = skip(here, blank);
    if (byteAt(here) == greaterThan) return openElement(at + 1, nameEnd) ? here + 1 : notPlain;
    if (byteAt(here) == slash) return emptyTagEnd(here);
    if (here == gap || attributes == maxAttributes) return stopAt(here);
    here = attribute(here, attributes);
    if (here < 0) return here;
  }
  return notPlain;
}

function emptyTagEnd(at: i32): i32 {
  if (byteAt(at + 1) != greaterThan) return stopAt(at + 1);
  if (isMaxDepth()) return notPlain;
  if (depth == 0) reports++;
  return at + 2;
}

function isMaxDepth(): bool {
  return depth + 1 >= maxDepth;
}

/** Stores the element's name. False if that exceeds a limit. */
function openElement(from: i32, to: i32): bool {
  let nameEnd = load<i32>(depth << 2, nameStartsAt);
  if (isMaxDepth() || nameEnd + to - from > maxNameBytes) return false;
  for (let here = from; here < to; here++, nameEnd++) store<u8>(nameEnd, byteAt(here), namesAt);
  if (depth == 0) reports++;
  depth++;
  store<i32>(depth << 2, nameEnd, nameStartsAt);
  return true;
}

/** `index` counts the attributes of the tag, from 0. */
function attribute(at: i32, index: i32): i32 {
  if (!isClass(at, nameStart)) return stopAt(at);
  let here = skip(at + 1, inName);
  // The name may continue after what has arrived.
  if (here >= end) return incomplete;
  if (isDuplicateAttribute(at, here, index)) return notPlain;
  here = skip(here, blank);
  if (byteAt(here) != equals) return stopAt(here);
  here = skip(here + 1, blank);
  const delimiter = byteAt(here);
  if (delimiter != quote && delimiter != apostrophe) return stopAt(here);
  here++;
  while (here > 0) {
    here = skip(here, inValue);
    const byte = byteAt(here);
    if (byte == delimiter) return here + 1;
    here = byte == quote || byte == apostrophe ? here + 1 : specialByte(here);
  }
  return here;
}

/** Whether an earlier attribute of the tag has the same name. Stores the name if not. */
function isDuplicateAttribute(from: i32, to: i32, index: i32): bool {
  for (let other = 0; other < index; other++) {
    const otherFrom = load<i32>(other << 2, attributeStarts);
    const otherTo = load<i32>(other << 2, attributeEnds);
    if (otherTo - otherFrom == to - from && isEqual(otherFrom, from, to - from)) return true;
  }
  store<i32>(index << 2, from, attributeStarts);
  store<i32>(index << 2, to, attributeEnds);
  return false;
}

function isEqual(one: i32, other: i32, length: i32): bool {
  for (let index = 0; index < length; index++) {
    if (byteAt(one + index) != byteAt(other + index)) return false;
  }
  return true;
}

/** A character reference, or one of the five entities that need no declaration. */
function reference(at: i32): i32 {
  if (byteAt(at + 1) == hash) return characterReference(at);
  const nameEnd = skip(at + 1, inName);
  if (byteAt(nameEnd) != semicolon) return stopAt(nameEnd);
  // The name's bytes as one number.
  let name: u32 = 0;
  if (nameEnd - at > 5) return notPlain;
  for (let here = at + 1; here < nameEnd; here++) name = (name << 8) | byteAt(here);
  // "amp", "lt", "gt", "quot", "apos".
  const isKnown = name == 0x616d70 || name == 0x6c74 || name == 0x6774 || name == 0x71756f74 || name == 0x61706f73;
  return isKnown ? nameEnd + 1 : notPlain;
}

function characterReference(at: i32): i32 {
  const isHexadecimal = byteAt(at + 2) == 0x78;
  const first = at + (isHexadecimal ? 3 : 2);
  const base: u64 = isHexadecimal ? 16 : 10;
  let number: u64 = 0;
  let here = first;
  for (; here < first + maxDigits; here++) {
    const digit = digitOf(byteAt(here));
    if (digit >= base) break;
    number = number * base + digit;
  }
  if (byteAt(here) != semicolon || here == first) return stopAt(here);
  return isCharacter(number) ? here + 1 : notPlain;
}

/** The value of a hexadecimal digit; 99 for any other byte. */
function digitOf(byte: u8): u64 {
  if (isDigit(byte)) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 87 : 99;
}

/** XML 1.0, production 2. */
function isCharacter(number: u64): bool {
  if (number < 0x20) return number == tab || number == lineFeed || number == carriageReturn;
  return number <= 0xd7ff || (number >= 0xe000 && number <= 0xfffd) || (number >= 0x10000 && number <= 0x10ffff);
}

/** `]` is allowed in text, but `]]>` is not. */
function bracket(at: i32): i32 {
  if (at + 2 >= end) return incomplete;
  return byteAt(at + 1) == closeBracket && byteAt(at + 2) == greaterThan ? notPlain : at + 1;
}

/** A character that starts like U+FFFE and U+FFFF, and must be neither. */
function character(at: i32): i32 {
  return byteAt(at + 1) == 0xbf && byteAt(at + 2) >= 0xbe ? notPlain : at + 3;
}

/** `<!--`. The caller has seen `<!-`. */
function commentStart(at: i32): i32 {
  if (byteAt(at + 3) != dash) return stopAt(at + 3);
  inside = insideComment;
  return at + 4;
}

/** The end of the comment that continues at `at`. */
function commentEnd(at: i32): i32 {
  let here = at;
  while (here >= 0) {
    here = skip(here, inComment);
    paused = here;
    if (byteAt(here) == maybeNoncharacter) here = character(here);
    else if (byteAt(here) != dash) return stopAt(here);
    else if (here + 2 >= end) return incomplete;
    else if (byteAt(here + 1) != dash) here++;
    else return byteAt(here + 2) == greaterThan ? here + 3 : notPlain;
  }
  return here;
}

/** `<![CDATA[`. The caller has seen `<!`. */
function cdataStart(at: i32): i32 {
  if (byteAt(at + 2) != openBracket) return stopAt(at + 2);
  if (at + 9 > end) return incomplete;
  // "CDATA[" in little-endian order.
  if (load<u32>(at + 3, textAt) != 0x54414443 || load<u16>(at + 7, textAt) != 0x5b41) return notPlain;
  inside = insideCdata;
  return at + 9;
}

/** The end of the CDATA section that continues at `at`. */
function cdataEnd(at: i32): i32 {
  let here = at;
  while (here >= 0) {
    here = skip(here, inCdata);
    paused = here;
    if (byteAt(here) == maybeNoncharacter) here = character(here);
    else if (byteAt(here) != closeBracket) return stopAt(here);
    else if (here + 2 >= end) return incomplete;
    else if (byteAt(here + 1) == closeBracket && byteAt(here + 2) == greaterThan) return here + 3;
    else here++;
  }
  return here;
}
