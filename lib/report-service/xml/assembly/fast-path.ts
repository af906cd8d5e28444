/**
 * The reader behind `../fast-path.ts`, in AssemblyScript: it looks at every byte of every page, and as WebAssembly it
 * does so three times as fast as in JavaScript, from the first page on.
 *
 * It reads on from what it has read before: text, then more text. It stops at what is not finished, to be called again
 * when more has come, and at what is not plain, for good. What is plain is a part of XML 1.0 (fifth edition, sections
 * 2.2 to 2.5, 3.1 and 4.1) that needs no table of letters and no declarations.
 */

// Where things lie in memory. The tables come first, and what is to be read lies behind them.
const kinds: usize = 0;
const attributeStarts: usize = 256;
const attributeEnds: usize = 512;
/** The starts of the names of open elements, as 32-bit numbers, and where the next will start. */
export const nameStartsAt: i32 = 1_024;
export const namesAt: i32 = 8_192;
export const textAt: i32 = namesAt + 65_536;
export const textBytes: i32 = 131_072;

/** Elements nested in one another, the root included, of which nothing is seen here. */
const deepest: i32 = 1_000;
const longestNames: i32 = 65_536;
const mostAttributes: i32 = 64;
/** Digits with leading zeros; nobody writes more. */
const longestNumber: i32 = 12;

/** What a byte may be part of. */
const blank: u8 = 1;
const nameStart: u8 = 2;
const inName: u8 = 4;
const inText: u8 = 8;
const inValue: u8 = 16;
const inComment: u8 = 32;
const inSection: u8 = 64;

const tab: u8 = 0x09;
const lineFeed: u8 = 0x0a;
const carriageReturn: u8 = 0x0d;
const space: u8 = 0x20;
const bang: u8 = 0x21;
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
/** Of characters beyond ASCII, U+FFFE and U+FFFF are none of XML's; in UTF-8 they begin with this byte. */
const nearNoncharacter: u8 = 0xef;

/** Not a place: what begins there goes on behind what has come so far, or is not plain. */
const unfinished: i32 = -1;
const notPlain: i32 = -2;

export const insideContent: i32 = 0;
export const insideComment: i32 = 1;
export const insideSection: i32 = 2;

// What it has read so far; to be set to what it was, when it is to go on with another document.
export let depth: i32 = 0;
export let reports: i32 = 0;
export let inside: i32 = insideContent;

let end: i32 = 0;
/** How far a comment or section has been read that does not end here. */
let paused: i32 = 0;

fillKinds();

function fillKinds(): void {
  for (let byte = 0; byte < 256; byte++) store<u8>(byte, kindsOf(<u8>byte), kinds);
}

function kindsOf(byte: u8): u8 {
  if (byte >= 0x80) return byte == nearNoncharacter ? 0 : inText | inValue | inComment | inSection;
  const isBlank = byte == tab || byte == lineFeed || byte == carriageReturn || byte == space;
  if (byte < space && !isBlank) return 0;
  let kind: u8 = isBlank ? blank : 0;
  const isLetter = (byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x7a;
  if (isLetter || byte == underscore || byte == colon) kind |= nameStart | inName;
  if (isDigit(byte) || byte == dash || byte == point) kind |= inName;
  // What ends them or begins something else is looked at by itself.
  const beginsMarkup = byte == lessThan || byte == ampersand;
  if (!beginsMarkup && byte != closeBracket) kind |= inText;
  if (!beginsMarkup && byte != quote && byte != apostrophe) kind |= inValue;
  if (byte != dash) kind |= inComment;
  if (byte != closeBracket) kind |= inSection;
  return kind;
}

function isDigit(byte: u8): bool {
  return byte >= 0x30 && byte <= 0x39;
}

function byteAt(at: i32): u8 {
  return load<u8>(at, textAt);
}

function is(at: i32, kind: u8): bool {
  return (load<u8>(byteAt(at), kinds) & kind) != 0;
}

function behind(at: i32, kind: u8): i32 {
  while (is(at, kind)) at++;
  return at;
}

/** Why it stops at `at`. Behind the end stands a byte that is part of nothing. */
function stop(at: i32): i32 {
  return at >= end ? unfinished : notPlain;
}

/**
 * Reads the text's first `length` bytes, which are UTF-8 and behind which some zeros stand. Returns how many it has done
 * with; of what comes behind these it says whether it is not plain, by the number's complement.
 */
export function read(length: i32): i32 {
  end = length;
  let at = 0;
  for (;;) {
    if (inside != insideContent) {
      at = inside == insideComment ? behindComment(at) : behindSection(at);
      // What has gone by of either need not be there again.
      if (at < 0) return at == unfinished ? paused : ~paused;
      inside = insideContent;
    }
    at = behind(at, inText);
    if (at >= end) return end;
    const next = byteAt(at) == lessThan ? tag(at) : exception(at);
    if (next < 0) return next == unfinished ? at : ~at;
    at = next;
  }
  return end;
}

function tag(at: i32): i32 {
  const second = byteAt(at + 1);
  if (second == slash) return endTag(at);
  if (second != bang) return startTag(at);
  return byteAt(at + 2) == dash ? comment(at) : section(at);
}

/** Behind what stands at `at`, in text or a value, and may not stand there just like that. */
function exception(at: i32): i32 {
  const byte = byteAt(at);
  if (byte == ampersand) return reference(at);
  if (byte == closeBracket) return bracket(at);
  if (byte == nearNoncharacter) return character(at);
  return stop(at);
}

/** The end of the root itself is not seen here, nor what comes behind it. */
function endTag(at: i32): i32 {
  if (depth == 0) return notPlain;
  let here = at + 2;
  const nameEnd = load<i32>(depth << 2, nameStartsAt);
  for (let from = load<i32>((depth - 1) << 2, nameStartsAt); from < nameEnd; from++, here++) {
    if (byteAt(here) != load<u8>(from, namesAt)) return stop(here);
  }
  here = behind(here, blank);
  if (byteAt(here) != greaterThan) return stop(here);
  depth--;
  return here + 1;
}

function startTag(at: i32): i32 {
  if (!is(at + 1, nameStart)) return stop(at + 1);
  const nameEnd = behind(at + 2, inName);
  let here = nameEnd;
  for (let attributes = 0; ; attributes++) {
    const gap = here;
    here = behind(here, blank);
    if (byteAt(here) == greaterThan) return opened(at + 1, nameEnd) ? here + 1 : notPlain;
    if (byteAt(here) == slash) return emptyTagEnd(here);
    if (here == gap || attributes == mostAttributes) return stop(here);
    here = attribute(here, attributes);
    if (here < 0) return here;
  }
  return notPlain;
}

function emptyTagEnd(at: i32): i32 {
  if (byteAt(at + 1) != greaterThan) return stop(at + 1);
  if (isDeepest()) return notPlain;
  if (depth == 0) reports++;
  return at + 2;
}

function isDeepest(): bool {
  return depth + 1 >= deepest;
}

/** Remembers the element; whether it may be. */
function opened(from: i32, to: i32): bool {
  let nameEnd = load<i32>(depth << 2, nameStartsAt);
  if (isDeepest() || nameEnd + to - from > longestNames) return false;
  for (let here = from; here < to; here++, nameEnd++) store<u8>(nameEnd, byteAt(here), namesAt);
  if (depth == 0) reports++;
  depth++;
  store<i32>(depth << 2, nameEnd, nameStartsAt);
  return true;
}

/** The tag's attribute with this number, from 0. */
function attribute(at: i32, number: i32): i32 {
  if (!is(at, nameStart)) return stop(at);
  let here = behind(at + 1, inName);
  // Behind the beginning of a name that is there already may come another end of it.
  if (here >= end) return unfinished;
  if (isTaken(at, here, number)) return notPlain;
  here = behind(here, blank);
  if (byteAt(here) != equals) return stop(here);
  here = behind(here + 1, blank);
  const mark = byteAt(here);
  if (mark != quote && mark != apostrophe) return stop(here);
  here++;
  while (here > 0) {
    here = behind(here, inValue);
    const byte = byteAt(here);
    if (byte == mark) return here + 1;
    here = byte == quote || byte == apostrophe ? here + 1 : exception(here);
  }
  return here;
}

/** Whether one of the attributes before it in the tag has the name that stands there; remembers it. */
function isTaken(from: i32, to: i32, number: i32): bool {
  for (let other = 0; other < number; other++) {
    const otherFrom = load<i32>(other << 2, attributeStarts);
    if (load<i32>(other << 2, attributeEnds) - otherFrom == to - from && isSame(otherFrom, from, to - from)) return true;
  }
  store<i32>(number << 2, from, attributeStarts);
  store<i32>(number << 2, to, attributeEnds);
  return false;
}

function isSame(one: i32, other: i32, length: i32): bool {
  for (let index = 0; index < length; index++) {
    if (byteAt(one + index) != byteAt(other + index)) return false;
  }
  return true;
}

/** One of the five that need no declaration, or a number. */
function reference(at: i32): i32 {
  if (byteAt(at + 1) == hash) return numericReference(at);
  const nameEnd = behind(at + 1, inName);
  if (byteAt(nameEnd) != semicolon) return stop(nameEnd);
  // The name, its bytes one above the other, as no others of these lengths are alike.
  let name: u32 = 0;
  if (nameEnd - at > 5) return notPlain;
  for (let here = at + 1; here < nameEnd; here++) name = (name << 8) | byteAt(here);
  const isKnown = name == 0x616d70 || name == 0x6c74 || name == 0x6774 || name == 0x71756f74 || name == 0x61706f73;
  return isKnown ? nameEnd + 1 : notPlain;
}

function numericReference(at: i32): i32 {
  const isHexadecimal = byteAt(at + 2) == 0x78;
  const first = at + (isHexadecimal ? 3 : 2);
  const base: u64 = isHexadecimal ? 16 : 10;
  let number: u64 = 0;
  let here = first;
  for (; here < first + longestNumber; here++) {
    const digit = digitOf(byteAt(here));
    if (digit >= base) break;
    number = number * base + digit;
  }
  if (byteAt(here) != semicolon || here == first) return stop(here);
  return isCharacter(number) ? here + 1 : notPlain;
}

/** The value of a hexadecimal digit; more than any for whatever else. */
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

/** `]` may stand in text, but not before `]>`. */
function bracket(at: i32): i32 {
  if (at + 2 >= end) return unfinished;
  return byteAt(at + 1) == closeBracket && byteAt(at + 2) == greaterThan ? notPlain : at + 1;
}

/** Behind a character that begins like those that no document may hold, and is not one of them. */
function character(at: i32): i32 {
  return byteAt(at + 1) == 0xbf && byteAt(at + 2) >= 0xbe ? notPlain : at + 3;
}

/** `<!--`, of which three have been seen. */
function comment(at: i32): i32 {
  if (byteAt(at + 3) != dash) return stop(at + 3);
  inside = insideComment;
  return at + 4;
}

/** Behind the end of the comment that goes on at `at`. */
function behindComment(at: i32): i32 {
  let here = at;
  while (here >= 0) {
    here = behind(here, inComment);
    paused = here;
    if (byteAt(here) == nearNoncharacter) here = character(here);
    else if (byteAt(here) != dash) return stop(here);
    else if (here + 2 >= end) return unfinished;
    else if (byteAt(here + 1) != dash) here++;
    else return byteAt(here + 2) == greaterThan ? here + 3 : notPlain;
  }
  return here;
}

/** `<![CDATA[`, of which two have been seen. */
function section(at: i32): i32 {
  if (byteAt(at + 2) != openBracket) return stop(at + 2);
  if (at + 9 > end) return unfinished;
  // "CDATA[" in little-endian order.
  if (load<u32>(at + 3, textAt) != 0x54414443 || load<u16>(at + 7, textAt) != 0x5b41) return notPlain;
  inside = insideSection;
  return at + 9;
}

/** Behind the end of the CDATA section that goes on at `at`. */
function behindSection(at: i32): i32 {
  let here = at;
  while (here >= 0) {
    here = behind(here, inSection);
    paused = here;
    if (byteAt(here) == nearNoncharacter) here = character(here);
    else if (byteAt(here) != closeBracket) return stop(here);
    else if (here + 2 >= end) return unfinished;
    else if (byteAt(here + 1) == closeBracket && byteAt(here + 2) == greaterThan) return here + 3;
    else here++;
  }
  return here;
}
