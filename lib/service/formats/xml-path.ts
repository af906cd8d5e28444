/** A path in an XML document: its syntax (see `xml.ts`), and what has been found there. */

import type { PathValue } from '../api/response-facts.ts';
import { maxValueLength } from './format-check.ts';

interface Step {
  readonly name: string;
  readonly where?: { readonly attribute: string; readonly value: string };
}

/** A path, and what has been found of it. */
export interface Target {
  readonly path: string;
  readonly steps: readonly Step[];
  readonly attribute: string | undefined;
  /** How many of the open elements are on the path. */
  matched: number;
  /** Whether there is an element that may contain the last one, or for an attribute of the root, the root. */
  hasParent: boolean;
  /** How many elements or attributes the path has led to. */
  count: number;
  text: string;
  /** Whether there are elements inside it. */
  hasChildren: boolean;
  /** Whether the tag that is being read has the attribute of `where`. */
  isSelected: boolean;
  /** The value of `attribute` in the tag that is being read. */
  attributeValue: string | undefined;
}

/** `/`, then `@attribute`, `name`, or `name[@attribute=value]` with or without quotes. */
const stepPattern = /\/(?:@([^/@[\]]+)$|([^/@[\]]+)(?:\[@([^/@[\]=]+)=(?:"([^"]*)"|'([^']*)'|([^'"\]]*))\])?)/gy;

/** @throws Error if `path` is none */
export function newTarget(path: string): Target {
  const parts = Array.from(path.matchAll(stepPattern));
  const length = parts.reduce((sum, [whole]) => sum + whole.length, 0);
  const steps = parts.flatMap(([, , name, attribute, ...values]): readonly Step[] => {
    if (name === undefined) return [];
    const value = values.find((one) => one !== undefined) ?? '';
    return [attribute === undefined ? { name } : { name, where: { attribute, value } }];
  });
  if (steps.length === 0 || length !== path.length) throw new Error(`${path} is not a path of XML elements`);
  return {
    path,
    steps,
    attribute: parts.at(-1)?.[1],
    matched: 0,
    hasParent: false,
    count: 0,
    text: '',
    hasChildren: false,
    isSelected: false,
    attributeValue: undefined,
  };
}

/** A tag begins whose element, at this depth, matches the next step of the target. */
export function beginTag(target: Target, depth: number): void {
  target.isSelected = target.steps[depth]?.where === undefined;
  target.attributeValue = undefined;
}

/** The tag that is being read, of an element at this depth, has this attribute. Returns a problem, or undefined. */
export function readAttribute(target: Target, depth: number, name: string, value: string): string | undefined {
  const where = target.steps[depth]?.where;
  if (where?.attribute === name && where.value === value) target.isSelected = true;
  if (target.attribute !== name || depth !== target.steps.length - 1) return undefined;
  if (target.attributeValue !== undefined) return twoValues(target);
  target.attributeValue = value;
  return undefined;
}

export const twoValues = ({ path }: Target): string => `there are two values at ${path}`;

/** Returns a problem, or undefined. */
export function addText(target: Target, text: string): string | undefined {
  target.text += text;
  return target.text.length > maxValueLength ? `the value at ${target.path} is too long` : undefined;
}

/** `others`: an element without text is not empty if a value inside it, such as an attribute, has been found. */
export function valueOf(target: Target | undefined, others: readonly Target[] = []): PathValue {
  const parent = target?.hasParent ?? false;
  if (target === undefined || target.count === 0) return { parent };
  const hasValue = others.some(({ path, count }) => count > 0 && path.startsWith(`${target.path}/`));
  return { parent, type: 'string', text: target.text, isEmpty: !target.hasChildren && !hasValue };
}
