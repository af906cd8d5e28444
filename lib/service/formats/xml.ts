/**
 * Checks that a page is a single well-formed XML document. For example
 *
 *     <feed xmlns="http://www.w3.org/2005/Atom">
 *       <link rel="self" href="https://api.example.com/events"/>
 *       <link rel="next" href="https://api.example.com/events?after=2"/>
 *       <entry><id>1</id></entry>
 *       <entry><id>2</id></entry>
 *     </feed>
 *
 * has two reports at `/feed/entry`, and its next page at `/feed/link[@rel=next]/@href`. A path names elements from the
 * root on, and at its end possibly an attribute. `[@name=value]` selects elements by an attribute; `*` at the end of
 * `reports` is any element. Names are compared without their prefix, whatever its namespace. The text of an element
 * includes that of the elements inside it.
 *
 * An entity or the default of an attribute could hide a value, so with paths of values, a DOCTYPE with declarations or the
 * address of a DTD is refused.
 *
 * Without paths, the child elements of the root are the reports, and the fast path reads most documents. With paths,
 * saxes reads them, more than ten times as slowly.
 */

import { createXmlCheck, type XmlListener } from '../xml/well-formedness.ts';
import type { PathValue } from '../api/response-facts.ts';
import { type CreateCheck, maxValueLength } from './format-check.ts';

export const createXmlFormatCheck: CreateCheck = ({ paths, reports, inLastReport, present }) => {
  const targets = new Map(paths.filter((path) => path !== '').map((path) => [path, newTarget(path)]));
  const counted = reports === undefined ? undefined : newTarget(reports);
  const last = inLastReport === undefined ? undefined : newTarget(`${reports}${inLastReport}`);
  const all = [...targets.values()].concat(counted ?? [], last ?? []);
  const document: Document = { isAsked: paths.includes(''), hasContent: false };
  const isNeeded = all.length > 0 || document.isAsked;
  const check = createXmlCheck(present, isNeeded ? followPaths(all, { counted, last, document }) : undefined);
  // Another root is another document, such as an error.
  const isRoot = () => [document.name, '*'].includes(counted?.steps[0]?.name ?? '*');

  return {
    push: (chunk) => check.push(chunk),
    end: () =>
      check.end() ?? {
        reports: counted === undefined ? check.reports : counted.hasParent ? counted.count : null,
        rootName: check.rootName,
        value: (path) =>
          path === ''
            ? { parent: true, type: 'object', isEmpty: check.reports === 0 && !document.hasContent && isRoot() }
            : valueOf(targets.get(path), all),
        inLastReport: { ...valueOf(last), parent: (counted?.count ?? 0) > 0 },
      },
  };
};

/** `others`: an element without text is not empty if a value inside it has been found, such as one of its attributes. */
function valueOf(target: Target | undefined, others: readonly Target[] = []): PathValue {
  const parent = target?.hasParent ?? false;
  if (target === undefined || target.count === 0) return { parent };
  const hasValue = others.some(({ path, count }) => count > 0 && path.startsWith(`${target.path}/`));
  return { parent, type: 'string', text: target.text, isEmpty: !target.hasChildren && !hasValue };
}

/** The root element: its name, and whether it has attributes or text. */
interface Document {
  /** Whether a path is that of the whole document. */
  readonly isAsked: boolean;
  name?: string;
  hasContent: boolean;
}

interface Step {
  readonly name: string;
  readonly where?: { readonly attribute: string; readonly value: string };
}

/** A path, and what has been found of it. */
interface Target {
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
  /** Of the tag that is being read: whether it has the attribute of `where`, and the value of `attribute`. */
  isSelected: boolean;
  attributeValue: string | undefined;
}

/** `/`, then `@attribute`, `name`, or `name[@attribute=value]` with or without quotes. */
const stepPattern = /\/(?:@([^/@[\]]+)$|([^/@[\]]+)(?:\[@([^/@[\]=]+)=(?:"([^"]*)"|'([^']*)'|([^'"\]]*))\])?)/gy;

/** @throws Error if `path` is none */
function newTarget(path: string): Target {
  const steps: Step[] = [];
  let attribute: string | undefined;
  let length = 0;
  for (const [whole, last, name, whereAttribute, ...values] of path.matchAll(stepPattern)) {
    length += whole.length;
    if (name === undefined) attribute = last;
    else if (whereAttribute === undefined) steps.push({ name });
    else
      steps.push({ name, where: { attribute: whereAttribute, value: values.find((one) => one !== undefined) ?? '' } });
  }
  if (steps.length === 0 || length !== path.length) throw new Error(`${path} is not a path of XML elements`);
  const found = {
    matched: 0,
    hasParent: false,
    count: 0,
    text: '',
    hasChildren: false,
    isSelected: false,
    attributeValue: undefined,
  };
  return { path, steps, attribute, ...found };
}

/**
 * Of `counted`, elements are counted; of all other targets, there must not be more than one, and of `last` only that in the last
 * element of `counted` stays.
 */
function followPaths(
  targets: readonly Target[],
  {
    counted,
    last,
    document,
  }: { readonly counted: Target | undefined; readonly last: Target | undefined; readonly document: Document },
): XmlListener {
  let depth = 0;
  /** Those that the element of the tag that is being read may belong to. */
  let candidates: Target[] = [];
  let isTagRead = false;
  /** Those whose text is being read. */
  let reading: Target[] = [];

  const find = (target: Target, text: string): string | undefined => {
    target.count += 1;
    if (target.count > 1 && target !== counted) return `there are two values at ${target.path}`;
    return addText(target, text);
  };
  const enter = (target: Target, where: Step['where']): string | undefined => {
    const { steps, attribute, attributeValue } = target;
    target.matched = depth;
    if (depth >= steps.length - 1) target.hasParent = true;
    if (depth < steps.length) return undefined;
    if (target === counted && last !== undefined) Object.assign(last, { count: 0, text: '' });
    if (attribute === undefined) {
      if (target !== counted) reading = [...reading, target];
      return find(target, '');
    }
    if (attributeValue !== undefined) return find(target, attributeValue);
    return where === undefined ? undefined : `the element of ${target.path} has no attribute ${attribute}`;
  };

  return {
    isReading: () => isTagRead || reading.length > 0 || (document.isAsked && depth === 1 && !document.hasContent),
    startTag(name) {
      candidates = [];
      isTagRead = false;
      for (const target of reading) target.hasChildren = true;
      const local = localName(name);
      for (const target of targets) {
        const step = target.steps[depth];
        if (target.matched !== depth || step === undefined || (step.name !== local && step.name !== '*')) continue;
        target.isSelected = step.where === undefined;
        target.attributeValue = undefined;
        candidates.push(target);
        isTagRead ||= !target.isSelected || target.attribute !== undefined;
      }
      if (depth === 0) document.name = local;
      isTagRead ||= document.isAsked && depth === 0;
      depth += 1;
    },
    attribute(name, value) {
      if (!isTagRead || name.startsWith('xmlns:')) return undefined;
      if (depth === 1 && name !== 'xmlns') document.hasContent = true;
      const local = localName(name);
      for (const target of candidates) {
        const where = target.steps[depth - 1]?.where;
        if (where?.attribute === local && where.value === value) target.isSelected = true;
        if (target.attribute !== local || depth !== target.steps.length) continue;
        if (target.attributeValue !== undefined) return `there are two values at ${target.path}`;
        target.attributeValue = value;
      }
      return undefined;
    },
    endTag() {
      isTagRead = false;
      let problem: string | undefined;
      for (const target of candidates) {
        if (target.isSelected) problem ??= enter(target, target.steps[depth - 1]?.where);
      }
      return problem;
    },
    text(text) {
      let problem: string | undefined;
      if (depth === 1 && text.trim() !== '') document.hasContent = true;
      for (const target of reading) problem ??= addText(target, text);
      return problem;
    },
    closeElement() {
      for (const target of targets) {
        if (target.matched !== depth) continue;
        target.matched -= 1;
        if (depth === target.steps.length) reading = reading.filter((one) => one !== target);
      }
      depth -= 1;
    },
    declarations: () =>
      targets.some((target) => target !== counted)
        ? 'the DOCTYPE has declarations or names a DTD, which is not read and could hide the next page or an error'
        : undefined,
  };
}

function addText(target: Target, text: string): string | undefined {
  target.text += text;
  return target.text.length > maxValueLength ? `the value at ${target.path} is too long` : undefined;
}

function localName(name: string): string {
  return name.slice(name.lastIndexOf(':') + 1);
}
