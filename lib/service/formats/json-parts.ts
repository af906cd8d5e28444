/** The values of a JSON document that are asked for, and what has been found of them. Nothing else is held. */

import type { PathValue } from '../api/response-facts.ts';

/** A value that was asked for, or one that may contain it. Nothing else is held. */
export interface Part {
  readonly path: string;
  /** What contains it. Absent: it is the root. */
  readonly parent?: Part;
  /** The key in an object, the index in an array, or which of its items: `[rel=next]`. */
  readonly name: string;
  readonly item?: Item;
  readonly parts: Part[];
  /** Whether an object or an array there is asked for as a whole. `object`: only an object. */
  isWhole?: boolean | 'object';
}

/** The last item of an array, or the only one whose field `key` is `value`. */
export type Item = 'last' | { readonly key: string; readonly value: string };

/** A value of the page that is a part. */
export interface Found {
  readonly type: NonNullable<PathValue['type']>;
  text?: string;
  /** The text of an object or an array that is asked for as a whole, or its digest. */
  json?: string;
  /** By the names of the parts. */
  readonly parts: Map<string, Found>;
  /** How many items an array has, or fields an object. */
  items: number;
}

/** A value that has started, and may be any of `parts`: its own fields say whether an item is selected. */
export interface OpenValue {
  readonly parts: readonly Part[];
  readonly found: Found;
  /** The key of what follows in an object. */
  key: string;
}

/** The path of the value in messages. */
export const pathOf = ({ parts }: OpenValue): string => parts[0]?.path ?? '';

/** The part at a path in `root`. Settings have no other paths. */
export const partAt = (root: Part, path: string): Part =>
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

/** The part with this name, which is added if there is none. */
export function addPart(parent: Part, name: string, item?: Item): Part {
  const known = parent.parts.find((part) => part.name === name);
  if (known !== undefined) return known;
  const added: Part = { path: `${parent.path}${item === undefined ? '/' : ''}${name}`, parent, name, item, parts: [] };
  parent.parts.push(added);
  if (typeof item === 'object') addPart(added, item.key);
  return added;
}

/** The parts that the next value in an object or an array may be. */
export function partsIn({ parts, found, key }: OpenValue): readonly Part[] {
  const inside: Part[] = [];
  const isIn = ({ name, item }: Part): boolean =>
    found.type === 'array' ? item !== undefined || name === String(found.items) : item === undefined && name === key;
  for (const each of parts) for (const part of each.parts) if (isIn(part)) inside.push(part);
  return inside;
}

/**
 * Adds a value to the one that it is part of, unless it is an item that is not selected. Returns a problem, or
 * undefined.
 */
export function addFound(parent: Found, part: Part, found: Found): string | undefined {
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
