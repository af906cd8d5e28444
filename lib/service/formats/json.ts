/**
 * Checks that a page is a single JSON document (RFC 8259) whose root is an object or an array. For example
 *
 *     {"data": [{"id": 1}, {"id": 2}], "meta": {"next": "c2Vjb25k", "more": true}}
 *
 * has two reports at `/data/*`, its next cursor at `/meta/next` and an end flag at `/meta/more`. Paths are JSON
 * Pointers (RFC 6901). `reports` is the pointer of an array, followed by `/*`; without it, reports are not counted.
 * A path may select the item of an array by a field: `/link[rel=next]/url`.
 *
 * A byte order mark is accepted, as RFC 8259 allows. So are duplicate keys and halves of surrogate pairs (`\ud800`),
 * except at the paths: their meaning depends on who reads them.
 */

import { getManyValues, none } from 'stream-chain/core';
import { jsonParser } from 'stream-json/core/parser.js';
import type { PathValue } from '../api/response-facts.ts';
import { checkText, type CreateCheck, maxValueLength, type RootField } from './format-check.ts';
import { createDigest, type Digest } from './digest.ts';
import { createJsonWriter } from './json-writer.ts';

/** As for XML elements. It is also the default limit of Jackson, a JSON parser of Java. */
const maxDepth = 1_000;

/** As many fields of the root are named in messages, with texts up to this length. */
const maxRootFields = 10;
const maxRootText = 60;

/** How many characters of a string the parser holds until more arrive: those of an escape. */
const maxPending = 6;

/** A value that was asked for, or one that may contain it. Nothing else is held. */
interface Part {
  readonly path: string;
  /** What contains it. Absent: it is the root. */
  readonly parent?: Part;
  /** The key in an object, the index in an array, or which of its items: `[rel=next]`. */
  readonly name: string;
  readonly item?: Item;
  readonly parts: Part[];
  /** Whether an object or an array there is held as JSON. */
  isWhole?: boolean;
}

/** The last item of an array, or the only one whose field `key` is `value`. */
type Item = 'last' | { readonly key: string; readonly value: string };

/** A value of the page that is a part. */
interface Found {
  readonly type: NonNullable<PathValue['type']>;
  text?: string;
  /** Of an object or an array that is held. */
  json?: string;
  /** By the names of the parts. */
  readonly parts: Map<string, Found>;
  /** How many items an array has, or fields an object. */
  items: number;
}

/** A value that has started, and may be any of `parts`: its own fields say whether an item is selected. */
interface OpenValue {
  readonly parts: readonly Part[];
  readonly found: Found;
  /** The key of what follows in an object. */
  key: string;
}

export const createJsonCheck: CreateCheck = ({ paths, reports, inLastReport, whole = [], single = false }) => {
  const root: Part = { path: '', name: '', parts: [] };
  for (const path of paths) partAt(root, path).isWhole = whole.includes(path);
  const list = reports === undefined ? undefined : partAt(root, reports.slice(0, -'/*'.length));
  const last = inLastReport === undefined ? undefined : list && addPart(list, '[last]', 'last');
  const inLast = last && partAt(last, inLastReport ?? '');
  const digest = list === undefined ? undefined : createDigest();
  const reader = createJsonReader({ root, hasWhole: whole.length > 0, list, digest });
  const at = (part: Part | undefined): Found | undefined =>
    part?.parent === undefined ? part && reader.document() : at(part.parent)?.parts.get(part.name);

  /** Whether there is what contains the part. What is in a selected item has its place in the list, even if there is no such item. */
  const hasPlace = (part: Part): boolean => {
    let selected: Part | undefined = part;
    while (selected !== undefined && selected.item === undefined) selected = selected.parent;
    const type = at((selected ?? part).parent)?.type;
    // PHP writes `[]` for an object without fields.
    if (type === 'array') return selected !== undefined || /^\d+$/.test(part.name) || at(part.parent)?.items === 0;
    return part === root || (type === 'object' && selected === undefined);
  };
  return checkText({
    read: reader.read,
    end() {
      const problem = reader.end();
      if (problem !== undefined) return problem;
      const found = at(list);
      const isSingle = single && found?.type === 'object' && found.items > 0;
      return {
        reports: found?.type === 'array' ? found.items : isSingle ? 1 : null,
        rootFields: reader.rootFields(),
        reportsDigest: digest?.value(),
        value(path) {
          const part = partAt(root, path);
          return valueOf(at(part), hasPlace(part));
        },
        inLastReport: valueOf(at(inLast), at(last)?.type === 'object'),
      };
    },
  });
};

const valueOf = (found: Found | undefined, parent: boolean): PathValue => ({
  parent,
  type: found?.type,
  text: found?.text,
  ...(found?.json !== undefined && { json: found.json }),
  ...((found?.type === 'object' || found?.type === 'array') && { isEmpty: found.items === 0 }),
});

interface ReaderOptions {
  /** The root of the only document. Absent: nothing is read of it. */
  readonly root?: Part;
  /** Any number of documents, not one. */
  readonly many?: boolean;
  /** Whether an object or an array is held as JSON. */
  readonly hasWhole?: boolean;
  /** What is at this part is added to the digest. */
  readonly list?: Part | undefined;
  readonly digest?: Digest | undefined;
}

interface Token {
  readonly name: string;
  readonly value: string;
}

/** Reads text as JSON. Strings, keys and numbers arrive in chunks, of which only those are held that were asked for. */
export function createJsonReader({ root, many = false, hasWhole = false, list, digest }: ReaderOptions) {
  const parser = jsonParser({ packValues: false, jsonStreaming: many });
  let problem: string | undefined;
  let depth = 0;
  let documents = 0;
  let document: Found | undefined;
  /** The open objects and arrays that are read, and how many are open inside them that are not. */
  const open: OpenValue[] = [];
  let skipped = 0;
  /** What is being read: the key of an object, or a scalar. */
  let keyOf: OpenValue | undefined;
  let scalar: OpenValue | undefined;
  /** The value that is held as JSON, and its writer. */
  let whole: { readonly found: Found; readonly writer: ReturnType<typeof createJsonWriter> } | undefined;
  const rootFields: { name: string; text?: string }[] = [];
  /** The depth of the list that is being read. */
  let listDepth = Infinity;
  /** Whether the text read so far ends in a string or a key. */
  let isInString = false;
  /** The end of the text before, which the parser may still hold. */
  let before = '';

  const start = (type: Found['type'], text?: string): OpenValue | undefined => {
    if (depth === 0) documents += 1;
    if (skipped > 0) return undefined;
    const parent = open.at(-1);
    const parts = parent === undefined ? [root ?? []].flat() : partsIn(parent);
    if (parent !== undefined) parent.found.items += 1;
    if (depth === 1) noteRootField(type, text);
    return parts.length === 0 ? undefined : { parts, found: { type, text, parts: new Map(), items: 0 }, key: '' };
  };
  /** Notes a value that is complete in the one that it is part of. */
  const end = ({ parts, found }: OpenValue): void => {
    const parent = open.at(-1)?.found;
    if (parent === undefined) document = found;
    else for (const part of parts) problem ??= addFound(parent, part, found);
  };
  const startScalar = (type: Found['type'], text?: string): void => {
    // Of any other document, the end may be missing unnoticed: 12 of 123.
    if (depth === 0) problem ??= 'the document is neither an object nor an array';
    scalar = start(type, text);
  };
  const noteRootField = (type: Found['type'], text: string | undefined): void => {
    const [rootValue] = open;
    if (rootValue?.found.type !== 'object' || rootValue.found.items > maxRootFields) return;
    const isScalar = type !== 'object' && type !== 'array' && type !== 'null';
    rootFields.push({ name: rootValue.key, ...(isScalar && { text }) });
  };
  /** The text of a scalar in the root; of a long one, none. */
  const addRootText = (chunk: string): void => {
    const field = rootFields.at(-1);
    if (field?.text === undefined || open[0]?.found.items !== rootFields.length) return;
    field.text = field.text.length + chunk.length > maxRootText ? undefined : field.text + chunk;
  };
  const readChunk = (chunk: string): void => {
    if (depth === 1 && keyOf === undefined) addRootText(chunk);
    // A longer key is none of those that lead to a value.
    if (keyOf !== undefined && keyOf.key.length <= maxValueLength) keyOf.key += chunk;
    if (scalar === undefined) return;
    scalar.found.text += chunk;
    if (Number(scalar.found.text?.length) > maxValueLength) {
      problem ??= `the value at ${scalar.parts[0]?.path} is too long`;
    }
  };
  const endScalar = (): void => {
    if (scalar?.found.text?.isWellFormed() === false) {
      problem ??= `half a surrogate pair in the value at ${scalar.parts[0]?.path}`;
    }
    if (scalar !== undefined) end(scalar);
    scalar = undefined;
  };
  const startContainer = (type: 'object' | 'array'): void => {
    const value = start(type);
    depth += 1;
    if (depth > maxDepth) problem ??= `nested deeper than ${maxDepth} levels`;
    if (value === undefined) skipped += 1;
    else open.push(value);
    if (list !== undefined && value?.parts.includes(list) === true) listDepth = depth;
    if (value?.parts.some(({ isWhole }) => isWhole) === true && whole === undefined)
      whole = { found: value.found, writer: createJsonWriter() };
  };
  const endContainer = (): void => {
    depth -= 1;
    if (depth < listDepth) listDepth = Infinity;
    const value = skipped > 0 ? undefined : open.pop();
    if (value === undefined) skipped -= 1;
    else end(value);
    if (whole !== undefined && value?.found === whole.found) {
      whole.found.json = whole.writer.text();
      whole = undefined;
    }
  };
  const startKey = (): void => {
    keyOf = skipped > 0 ? undefined : open.at(-1);
    if (keyOf !== undefined) keyOf.key = '';
  };
  const readLiteral = (type: Found['type'], text?: string): void => {
    startScalar(type, text);
    endScalar();
  };
  /** Faster than a table of functions. */
  const readToken = ({ name, value }: Token): void => {
    switch (name) {
      case 'stringChunk':
      case 'numberChunk':
        return readChunk(value);
      case 'startKey':
        isInString = true;
        return startKey();
      case 'endKey':
        isInString = false;
        keyOf = undefined;
        return;
      case 'startString':
        isInString = true;
        return startScalar('string', '');
      case 'startNumber':
        return startScalar('number', '');
      case 'endString':
        isInString = false;
        return endScalar();
      case 'endNumber':
        return endScalar();
      case 'trueValue':
      case 'falseValue':
        return readLiteral('boolean', String(value));
      case 'nullValue':
        return readLiteral('null');
      case 'startObject':
        return startContainer('object');
      case 'startArray':
        return startContainer('array');
      default:
        return endContainer();
    }
  };
  const held = () => whole?.writer;
  const readWholeToken = (token: Token): void => {
    const writer = held();
    writer?.write(token);
    readToken(token);
    // The token that began it is in it, too.
    if (writer === undefined) held()?.write(token);
    else if (writer.text().length > maxValueLength) problem ??= 'the cursor is too long';
  };
  const readOne = hasWhole ? readWholeToken : readToken;
  const readDigested = (token: Token): void => {
    if (depth >= listDepth) digest?.add(token);
    readOne(token);
  };
  const read = digest === undefined ? readOne : readDigested;
  const parse = (text: string | typeof none): string | undefined => {
    try {
      const tokens = parser(text as string);
      if (tokens === none) return problem;
      for (const token of getManyValues(tokens)) {
        read(token as Token);
        if (problem !== undefined) break;
      }
    } catch (error) {
      const read = text === none ? '' : String(text);
      problem ??= problemOf(error as Error, { before, text: read, isInString });
    } finally {
      if (text !== none) before = (before + String(text)).slice(-maxPending);
    }
    return problem;
  };

  return {
    read: parse,
    end(): string | undefined {
      const what = parse(none);
      return what === undefined ? undefined : `the document is not complete: ${what}`;
    },
    /** How many objects and arrays are open. */
    depth: () => depth,
    /** How many documents have started. */
    documents: () => documents,
    /** What was found in the only document. */
    document: () => document,
    rootFields: (): readonly RootField[] => rootFields,
  };
}

/** The parser's message, as a person understands it. */
function problemOf({ message }: Error, place: Place): string {
  if (/expected a string value/.test(message)) return 'it ends inside a string';
  if (/unexpected characters/.test(message)) return 'text after the end of the document';
  if (/escaped characters/.test(message)) return problemInString(place);
  return message.replace(/^Parser (has|cannot parse input:) /, '');
}

interface Place {
  readonly before: string;
  readonly text: string;
  readonly isInString: boolean;
}

/** The character that a string must not have as it is. */
function problemInString({ before, text, isInString }: Place): string {
  let isInside = isInString;
  for (const [found] of text.matchAll(/\\(?:["\\/bfnrt]|u[\da-f]{4})|["\\\u0000-\u001f]/gi)) {
    if (found === '"') isInside = !isInside;
    else if (isInside && found.length === 1) return `${nameOf(found)} inside a string`;
  }
  const [found = '\\'] = /[\u0000-\u001f]/.exec(before) ?? [];
  return `${nameOf(found)} inside a string`;
}

function nameOf(character: string): string {
  if (/[\n\r]/.test(character)) return 'a line break';
  if (character === '\t') return 'a tab';
  if (character === '\\') return 'a backslash without a valid escape';
  return `the control character U+${character.charCodeAt(0).toString(16).padStart(4, '0').toUpperCase()}`;
}

/** The parts that the next value in an object or an array may be. */
function partsIn({ parts, found, key }: OpenValue): readonly Part[] {
  const inside: Part[] = [];
  const isIn = ({ name, item }: Part): boolean =>
    found.type === 'array' ? item !== undefined || name === String(found.items) : item === undefined && name === key;
  for (const each of parts) for (const part of each.parts) if (isIn(part)) inside.push(part);
  return inside;
}

/** Adds a value to the one that it is part of, unless it is an item that is not selected. Returns a problem, or undefined. */
function addFound(parent: Found, part: Part, found: Found): string | undefined {
  const { name, item, path } = part;
  const isSelection = typeof item === 'object';
  if (isSelection && found.parts.get(item.key)?.text !== item.value) return undefined;
  if (item !== 'last' && parent.parts.has(name)) return `there are two values at ${path}`;
  parent.parts.set(name, found);
  const missing = isSelection ? firstMissing(part, found) : undefined;
  return missing && `there is no value at ${missing.path}`;
}

function firstMissing(part: Part, found: Found | undefined): Part | undefined {
  if (found === undefined) return part;
  for (const inside of part.parts) {
    const missing = firstMissing(inside, found.parts.get(inside.name));
    if (missing !== undefined) return missing;
  }
  return undefined;
}

/** The part with this name, which is added if there is none. */
function addPart(parent: Part, name: string, item?: Item): Part {
  const known = parent.parts.find((part) => part.name === name);
  if (known !== undefined) return known;
  const added: Part = { path: `${parent.path}${item === undefined ? '/' : ''}${name}`, parent, name, item, parts: [] };
  parent.parts.push(added);
  if (typeof item === 'object') addPart(added, item.key);
  return added;
}

/** The part at a path in `root`. Settings have no other paths. */
const partAt = (root: Part, path: string): Part =>
  path
    .split('/')
    .slice(1)
    .reduce((parent, segment) => {
      const [, name = segment, field, ...values] = /^([^[]*)\[([^=]+)=(?:"(.*)"|'(.*)'|(.*))\]$/.exec(segment) ?? [];
      const part = addPart(parent, unescape(name));
      const value = values.find((one) => one !== undefined) ?? '';
      return field === undefined ? part : addPart(part, `[${field}=${value}]`, { key: unescape(field), value });
    }, root);

const unescape = (name: string): string => name.replaceAll('~1', '/').replaceAll('~0', '~');
