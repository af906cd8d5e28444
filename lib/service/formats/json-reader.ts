/** Reads text as JSON: counts documents, limits their depth, and collects the values that are asked for. */

import { maxValueLength } from './format-check.ts';
import { type createFieldNotes, maxNotedDepth } from './json-fields.ts';
import type { Found, Part } from './json-parts.ts';
import { createJsonTokenizer, type Token } from './json-tokens.ts';
import { createJsonValues, type OnValue } from './json-values.ts';

/** As for XML elements. It is also the default limit of Jackson, a JSON parser of Java. */
const maxDepth = 1_000;

interface ReaderOptions {
  /** The root of each document. Absent: nothing is read of it. */
  readonly root?: Part;
  /** Any number of documents, not one. */
  readonly many?: boolean;
  /** What is held of an object or an array that is asked for as a whole. Absent: none is. */
  readonly holds?: 'text' | 'digest' | undefined;
  /** The list of the reports. */
  readonly list?: Part | undefined;
  readonly fields?: ReturnType<typeof createFieldNotes>;
  readonly onValue?: OnValue;
}

export type JsonReader = ReturnType<typeof createJsonReader>;

export function createJsonReader({ many = false, ...options }: ReaderOptions) {
  const tokenize = createJsonTokenizer(many);
  const reader = createTokenReader(options);
  let tokensAfterList: readonly Token[] = [];

  const readTokens = (tokens: readonly Token[]): void => {
    tokensAfterList = [];
    for (let index = reader.skipFrom(tokens, 0); index < tokens.length; index = reader.skipFrom(tokens, index + 1)) {
      const wasInList = reader.isInList();
      reader.read(tokens[index] as Token);
      if (wasInList && !reader.isInList()) tokensAfterList = tokens.slice(index + 1);
    }
  };
  const readText = (text: string | undefined): string | undefined => {
    const tokens = tokenize(text);
    if (typeof tokens === 'string') return reader.problem() ?? tokens;
    readTokens(tokens);
    return reader.problem();
  };
  return {
    read: (text: string) => readText(text),
    end(): string | undefined {
      const found = readText(undefined);
      return found === undefined ? undefined : `the document is not complete: ${found}`;
    },
    isInList: reader.isInList,
    lists: reader.lists,
    /** The tokens of the last text after the list that ended in it. */
    tokensAfterList: () => tokensAfterList,
    depth: reader.depth,
    documents: reader.documents,
    document: reader.document,
  };
}

function createTokenReader({ root, holds, list, fields, onValue }: ReaderOptions) {
  const values = createJsonValues(root, onValue, holds ?? 'text');
  let problem: string | undefined;
  let depth = 0;
  let documents = 0;
  /** How many of the open objects and arrays contain nothing that is asked for. */
  let skipped = 0;
  /** The depth of the list that is being read. */
  let listDepth = Infinity;
  let lists = 0;
  const notedDepth = fields === undefined ? 0 : maxNotedDepth;

  const enter = (): void => {
    depth += 1;
    if (depth > maxDepth) problem ??= `nested deeper than ${maxDepth} levels`;
  };
  const startContainer = (type: 'object' | 'array'): void => {
    if (depth === 0) documents += 1;
    enter();
    const value = skipped > 0 ? undefined : values.startContainer(type);
    if (value === undefined) skipped += 1;
    else if (list !== undefined && value.parts.includes(list)) {
      listDepth = depth;
      lists += 1;
    }
  };
  const endContainer = (): void => {
    if (depth === listDepth) listDepth = Infinity;
    depth -= 1;
    if (skipped > 0) skipped -= 1;
    else problem ??= values.endContainer();
  };
  const startScalar = (type: Found['type'], text?: string): void => {
    // The end of any other document may be missing unnoticed: 12 of 123.
    if (depth === 0) problem ??= 'the document is neither an object nor an array';
    values.startScalar(type, text);
  };
  const report = (found: string | undefined): void => {
    problem ??= found;
  };
  const readers = tokenReaders({ startContainer, endContainer, startScalar, values, report });
  const skip = ({ name }: Token): void => {
    if (name === 'startObject' || name === 'startArray') {
      skipped += 1;
      enter();
    } else if (name === 'endObject' || name === 'endArray') {
      skipped -= 1;
      depth -= 1;
    }
  };
  /** Most tokens of a page are in reports, where only the depth counts. Returns the index of the next other one. */
  const skipFrom = (tokens: readonly Token[], start: number): number => {
    let index = start;
    if (values.writer() !== undefined) return index;
    for (; skipped > 0 && depth > notedDepth && index < tokens.length; index += 1) skip(tokens[index] as Token);
    return index;
  };
  const readToken = (token: Token): void => {
    if (depth <= notedDepth) fields?.add(token);
    if (skipped > 0) skip(token);
    else readers[token.name]?.(token.value);
  };
  return {
    read: holds === undefined ? readToken : withWriter({ readToken, values, report }),
    skipFrom,
    /** The first problem, or undefined. */
    problem: () => problem,
    isInList: () => listDepth < Infinity,
    /** How many lists have started. */
    lists: () => lists,
    /** How many objects and arrays are open. */
    depth: () => depth,
    /** How many documents have started. */
    documents: () => documents,
    /** The root of the only document, with the values that were found. */
    document: values.document,
  };
}

/** Also writes each token that is in a value which is held as JSON, or begins one. */
function withWriter({ readToken, values, report }: Writing) {
  return (token: Token): void => {
    let writer = values.writer();
    writer?.write(token);
    readToken(token);
    if (writer === undefined) (writer = values.writer())?.write(token);
    if (Number(writer?.length()) > maxValueLength) report('the cursor is too long');
  };
}

interface Writing extends Pick<Reading, 'values' | 'report'> {
  readonly readToken: (token: Token) => void;
}

interface Reading {
  readonly startContainer: (type: 'object' | 'array') => void;
  readonly endContainer: () => void;
  readonly startScalar: (type: Found['type'], text?: string) => void;
  readonly values: ReturnType<typeof createJsonValues>;
  readonly report: (problem: string | undefined) => void;
}

function tokenReaders({ startContainer, endContainer, startScalar, values, report }: Reading) {
  const endScalar = () => report(values.endScalar());
  const addChunk = (value: Token['value']) => report(values.addChunk(String(value)));
  const readLiteral = (type: Found['type'], text?: string): void => {
    startScalar(type, text);
    endScalar();
  };
  return {
    startObject: () => startContainer('object'),
    startArray: () => startContainer('array'),
    endObject: endContainer,
    endArray: endContainer,
    startKey: () => values.startKey(),
    endKey: () => values.endKey(),
    startString: () => startScalar('string', ''),
    startNumber: () => startScalar('number', ''),
    stringChunk: addChunk,
    numberChunk: addChunk,
    endString: endScalar,
    endNumber: endScalar,
    trueValue: () => readLiteral('boolean', 'true'),
    falseValue: () => readLiteral('boolean', 'false'),
    nullValue: () => readLiteral('null'),
  } as Readonly<Record<string, (value: Token['value']) => void>>;
}
