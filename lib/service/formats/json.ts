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
import { checkText, type CreateCheck, maxValueLength, type PathValue } from './format-check.ts';

type ValueType = NonNullable<PathValue['type']>;

/** As for XML elements. It is also the default limit of Jackson, a JSON parser of Java. */
const maxDepth = 1_000;

/** A value that was asked for, or one that may contain it. */
interface Node {
  readonly path: string;
  readonly children: Map<string, Node>;
  /** Of an array: what is read of each item, whatever its index. */
  readonly items: ItemRule[];
  /** Of an item that such rules read: called at its end. Returns a problem, or undefined. */
  accept?: () => string | undefined;
  /** Set when the value is found. */
  type?: ValueType;
  text?: string;
}

/** What is read of an item of an array, into a copy of `part`. */
interface ItemRule {
  readonly part: Node;
  /** A further field of the item that is read. */
  readonly key?: string;
  /** The item is complete. Returns a problem, or undefined. */
  readonly accept: (item: Node) => string | undefined;
}

export const createJsonCheck: CreateCheck = ({ paths, reports, inLastReport }) => {
  const root = newNode('');
  for (const path of paths) addNode(root, path);
  const container = reports === undefined ? undefined : addNode(root, containerPath(reports));
  const lastReport = newNode('');
  const valueOfLast = inLastReport === undefined ? undefined : addNode(lastReport, inLastReport);
  if (valueOfLast !== undefined) container?.items.push({ part: lastReport, accept: copyTo(lastReport) });
  const reader = createJsonReader({ root, container });

  return checkText({
    ...reader,
    get reports() {
      return container?.type === 'array' ? reader.reports() : null;
    },
    value(path) {
      const { type, text } = addNode(root, path);
      const selection = path.lastIndexOf('[');
      if (selection >= 0) return { parent: addNode(root, path.slice(0, selection)).type === 'array', type, text };
      const slash = path.lastIndexOf('/');
      const parent = addNode(root, path.slice(0, slash)).type;
      const isIndex = parent === 'array' && /^\d+$/.test(path.slice(slash + 1));
      return { parent: path === '' || parent === 'object' || isIndex, type, text };
    },
    get inLastReport() {
      return { parent: lastReport.type === 'object', type: valueOfLast?.type, text: valueOfLast?.text };
    },
  });
};

interface ReaderOptions {
  readonly root: Node;
  /** The array of reports. */
  readonly container?: Node;
  /** Any number of documents, not one. Nothing is extracted from them. */
  readonly many?: boolean;
}

/** Reads text as JSON. Strings, keys and numbers arrive in chunks, of which only those are held that were asked for. */
export function createJsonReader({ root, container, many = false }: ReaderOptions) {
  const parser = jsonParser({ packValues: false, jsonStreaming: many });
  const maxKeyLength = longestKey(root);
  let problem: string | undefined;
  let depth = 0;
  let documents = 0;
  let reports = 0;
  /** The open containers that may contain values that were asked for, and how many are open inside them that may not. */
  const frames: { readonly node: Node; readonly isArray: boolean; nextIndex: number; key: string }[] = [];
  let skipped = 0;
  /** What is being read, unless it is skipped. */
  let keyOf: (typeof frames)[number] | undefined;
  let value: Node | undefined;

  const childOf = (frame: (typeof frames)[number]): Node | undefined => {
    const { children, items } = frame.node;
    // A text for each index of a list of a million grew the heap by 80 MiB.
    const child = children.size === 0 ? undefined : children.get(frame.isArray ? String(frame.nextIndex++) : frame.key);
    return frame.isArray && items.length > 0 ? startItem(items, child) : child;
  };
  /** The node of a value that starts here. */
  const startValue = (type: ValueType): Node | undefined => {
    if (depth === 0) documents += 1;
    if (skipped > 0) return undefined;
    const frame = frames.at(-1);
    if (frame?.isArray === true && frame.node === container) reports += 1;
    const node = frame === undefined ? root : childOf(frame);
    if (node === undefined || many) return undefined;
    if (node.type !== undefined) problem ??= `there are two values at ${node.path}`;
    node.type = type;
    return node;
  };
  const startScalar = (type: ValueType, text: string): void => {
    // Of any other document, the end may be missing unnoticed: 12 of 123.
    if (depth === 0) problem ??= 'the document is neither an object nor an array';
    value = startValue(type);
    if (value !== undefined && type !== 'null') value.text = text;
  };
  const startContainer = (type: 'object' | 'array'): void => {
    const node = startValue(type);
    depth += 1;
    if (depth > maxDepth) problem ??= `nested deeper than ${maxDepth} levels`;
    const isRead = node !== undefined && (node.children.size > 0 || node.items.length > 0 || node === container);
    if (!isRead) skipped += 1;
    else frames.push({ node, isArray: type === 'array', nextIndex: 0, key: '' });
  };
  const endContainer = (): void => {
    depth -= 1;
    if (skipped > 0) {
      skipped -= 1;
      return;
    }
    problem ??= frames.pop()?.node.accept?.();
  };
  const readChunk = (chunk: string): void => {
    // A longer key is none of those that lead to a value.
    if (keyOf !== undefined && keyOf.key.length <= maxKeyLength) keyOf.key += chunk;
    if (value?.text === undefined) return;
    value.text += chunk;
    if (value.text.length > maxValueLength) problem ??= `the value at ${value.path} is too long`;
  };
  const endValue = (): void => {
    if (value?.text?.isWellFormed() === false) problem ??= `half a surrogate pair in the value at ${value.path}`;
    problem ??= value?.accept?.();
    value = undefined;
  };

  const readToken = (token: { readonly name: string; readonly value?: unknown }): void => {
    switch (token.name) {
      case 'stringChunk':
      case 'numberChunk':
        if (keyOf !== undefined || value !== undefined) readChunk(String(token.value));
        break;
      case 'startKey':
        keyOf = skipped > 0 ? undefined : frames.at(-1);
        if (keyOf !== undefined) keyOf.key = '';
        break;
      case 'endKey':
        keyOf = undefined;
        break;
      case 'startString':
        startScalar('string', '');
        break;
      case 'startNumber':
        startScalar('number', '');
        break;
      case 'endString':
      case 'endNumber':
        endValue();
        break;
      case 'trueValue':
      case 'falseValue':
        startScalar('boolean', String(token.value));
        endValue();
        break;
      case 'nullValue':
        startScalar('null', '');
        endValue();
        break;
      case 'startObject':
        startContainer('object');
        break;
      case 'startArray':
        startContainer('array');
        break;
      default:
        endContainer();
    }
  };
  const parse = (text: string | typeof none): string | undefined => {
    try {
      const tokens = parser(text as string);
      if (tokens === none) return problem;
      for (const token of getManyValues(tokens)) {
        readToken(token);
        if (problem !== undefined) break;
      }
    } catch (error) {
      problem ??= (error as Error).message.replace(/^Parser (has|cannot parse input:) /, '');
    }
    return problem;
  };

  return {
    read: parse,
    end(): string | undefined {
      const what = parse(none);
      return what === undefined ? undefined : `the document is not complete: ${what}`;
    },
    /** How many containers are open. */
    depth: () => depth,
    /** How many documents have started. */
    documents: () => documents,
    reports: () => reports,
  };
}

export function newNode(path: string): Node {
  return { path, children: new Map(), items: [] };
}

/** Reads an item into a copy of all that is asked of it: by the rules, and at its index. */
function startItem(items: readonly ItemRule[], atIndex: Node | undefined): Node {
  const rules = atIndex === undefined ? items : [...items, { part: atIndex, accept: copyTo(atIndex) }];
  const item = newNode('');
  for (const { part, key } of rules) {
    addChildren(item, part);
    if (key !== undefined && !item.children.has(key)) item.children.set(key, newNode(`${part.path}/${key}`));
  }
  item.accept = () => {
    for (const { accept } of rules) {
      const problem = accept(item);
      if (problem !== undefined) return problem;
    }
    return undefined;
  };
  return item;
}

function addChildren(node: Node, { children }: Node): void {
  for (const [key, child] of children) {
    const added = node.children.get(key) ?? newNode(child.path);
    node.children.set(key, added);
    addChildren(added, child);
  }
}

/** Copies what was found in an item. */
const copyTo =
  (node: Node) =>
  (item: Node): undefined => {
    node.type = item.type;
    node.text = item.text;
    for (const [key, child] of node.children) copyTo(child)(item.children.get(key) ?? newNode(''));
  };

/** The only item whose field `key` is `value`. */
function selectItem(selected: Node, key: string, value: string): ItemRule {
  const firstMissing = ({ type, path, children }: Node): string | undefined =>
    type === undefined
      ? path
      : children
          .values()
          .map(firstMissing)
          .find((missing) => missing !== undefined);
  const accept = (item: Node): string | undefined => {
    if (item.children.get(key)?.text !== value) return undefined;
    if (selected.type !== undefined) return `there are two values at ${selected.path}`;
    copyTo(selected)(item);
    const missing = firstMissing(selected);
    return missing === undefined ? undefined : `there is no value at ${missing}`;
  };
  return { part: selected, key, accept };
}

/** @throws Error if `reports` does not end with `/*` */
function containerPath(reports: string): string {
  if (!reports.endsWith('/*')) throw new Error(`${reports} does not end with /*`);
  return reports.slice(0, -2);
}

/** @throws Error if `path` is no JSON Pointer */
function addNode(root: Node, path: string): Node {
  if (path !== '' && !path.startsWith('/')) throw new Error(`${path} is not a JSON Pointer`);
  let node = root;
  for (const segment of path.split('/').slice(1)) {
    const [, name = segment, field, ...values] = /^([^[]*)\[([^=]+)=(?:"(.*)"|'(.*)'|(.*))\]$/.exec(segment) ?? [];
    const key = unescape(name);
    const child = node.children.get(key) ?? newNode(`${node.path}/${name}`);
    node.children.set(key, child);
    node =
      field === undefined ? child : addSelection(child, unescape(field), values.find((one) => one !== undefined) ?? '');
  }
  return node;
}

const unescape = (name: string): string => name.replaceAll('~1', '/').replaceAll('~0', '~');

function addSelection(array: Node, key: string, value: string): Node {
  const path = `${array.path}[${key}=${value}]`;
  const known = array.items.find(({ part }) => part.path === path);
  if (known !== undefined) return known.part;
  const selected = newNode(path);
  array.items.push(selectItem(selected, key, value));
  return selected;
}

function longestKey({ children, items }: Node): number {
  const below = Array.from(children, ([key, child]) => Math.max(key.length, longestKey(child)));
  return Math.max(0, ...below, ...items.map(({ part, key = '' }) => Math.max(key.length, longestKey(part))));
}
