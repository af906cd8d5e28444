/** Reads text as JSON: counts documents, limits their depth, and collects the values that are asked for. */

import type { Digest } from './digest.ts';
import { maxValueLength } from './format-check.ts';
import { type createFieldNotes, maxNotedDepth } from './json-fields.ts';
import type { Found, Part } from './json-parts.ts';
import { createJsonTokenizer, type Token } from './json-tokens.ts';
import { createJsonValues } from './json-values.ts';

/** As for XML elements. It is also the default limit of Jackson, a JSON parser of Java. */
const maxDepth = 1_000;

interface ReaderOptions {
  /** The root of the only document. Absent: nothing is read of it. */
  readonly root?: Part;
  /** Any number of documents, not one. */
  readonly many?: boolean;
  /** Whether an object or an array is held as JSON. */
  readonly hasWhole?: boolean;
  /** The text of this part is added to the digest. */
  readonly list?: Part | undefined;
  readonly digest?: Digest | undefined;
  readonly fields?: ReturnType<typeof createFieldNotes>;
}

export function createJsonReader({ root, many = false, hasWhole = false, list, digest, fields }: ReaderOptions) {
  const tokenize = createJsonTokenizer(many);
  const values = createJsonValues(root);
  let problem: string | undefined;
  let depth = 0;
  let documents = 0;
  /** How many of the open objects and arrays contain nothing that is asked for. */
  let skipped = 0;
  /** The depth of the list that is being read. */
  let listDepth = Infinity;
  /** How many tokens of the text have been read, and how many when the list ended. */
  let tokensRead = 0;
  let tokensToListEnd = 0;

  const isInList = (): boolean => listDepth < Infinity;
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
      digest?.startList();
    }
  };
  const endContainer = (): void => {
    depth -= 1;
    if (isInList() && depth < listDepth) {
      listDepth = Infinity;
      tokensToListEnd = tokensRead;
    }
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
  /** Most tokens of a page are in its reports, where only the depth counts. */
  const skip = ({ name, value }: Token): void => {
    if (value !== undefined) return;
    if (name === 'startObject' || name === 'startArray') {
      skipped += 1;
      enter();
    } else if (name === 'endObject' || name === 'endArray') {
      skipped -= 1;
      depth -= 1;
    }
  };
  const readToken = (token: Token): void => {
    if (skipped > 0 && depth > maxNotedDepth) return skip(token);
    fields?.add(token);
    if (skipped > 0) skip(token);
    else readers[token.name]?.(token.value);
  };
  /** Also writes the token, if it is in a value that is held as JSON, or begins one. */
  const writeToken = (token: Token): void => {
    let writer = values.writer();
    writer?.write(token);
    readToken(token);
    if (writer === undefined) (writer = values.writer())?.write(token);
    if (Number(writer?.text().length) > maxValueLength) problem ??= 'the cursor is too long';
  };
  const read = hasWhole ? writeToken : readToken;
  const readText = (text: string | undefined): readonly Token[] => {
    const tokens = tokenize(text);
    if (typeof tokens === 'string') {
      problem ??= tokens;
      return [];
    }
    tokensRead = 0;
    for (const token of tokens) {
      tokensRead += 1;
      read(token);
      if (problem !== undefined) break;
    }
    return tokens;
  };
  /** Reads up to the start of the list, and returns what follows. The list starts after one of the brackets. */
  const readBeforeList = (text: string): string => {
    let rest = text;
    while (rest !== '' && problem === undefined && !isInList()) {
      const end = rest.indexOf('[') + 1 || rest.length;
      readText(rest.slice(0, end));
      rest = rest.slice(end);
    }
    return rest;
  };
  const readInList = (text: string, into: Digest): void => {
    const tokens = readText(text);
    if (problem !== undefined) return;
    if (isInList()) into.add(text);
    else into.addEnd(text, tokens.slice(tokensToListEnd));
  };
  return {
    read(text: string): string | undefined {
      const rest = digest === undefined || isInList() ? text : readBeforeList(text);
      if (digest === undefined) readText(rest);
      else if (rest !== '' && problem === undefined) readInList(rest, digest);
      return problem;
    },
    end(): string | undefined {
      readText(undefined);
      return problem === undefined ? undefined : `the document is not complete: ${problem}`;
    },
    /** How many objects and arrays are open. */
    depth: () => depth,
    /** How many documents have started. */
    documents: () => documents,
    /** The root of the only document, with the values that were found. */
    document: values.document,
  };
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
