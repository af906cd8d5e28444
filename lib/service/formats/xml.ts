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
 * An entity or the default of an attribute could hide a value, so with paths of values, a DOCTYPE with declarations or
 * the address of a DTD is refused.
 *
 * Without paths, the child elements of the root are the reports.
 */

import { isBelowRoot } from '../api/paths.ts';
import { type CreateCheck, checkText } from './format-check.ts';
import { createXmlDocument, type XmlListener } from './xml-document.ts';
import { addText, beginTag, newTarget, readAttribute, type Target, twoValues, valueOf } from './xml-path.ts';

export const createXmlFormatCheck: CreateCheck = ({ paths, reports, inLastReport, present }) => {
  // The element that contains the reports. What is in it may be long, so only whether it is there is asked of it.
  const place = reports?.slice(0, reports.lastIndexOf('/')) ?? '';
  const asked = paths.filter((path) => path !== '');
  const targets = new Map([...asked, ...(isBelowRoot(place) ? [place] : [])].map((path) => [path, newTarget(path)]));
  const container = isBelowRoot(place) ? targets.get(place) : undefined;
  const counted = reports === undefined ? undefined : newTarget(reports);
  const last = inLastReport === undefined ? undefined : newTarget(`${reports}${inLastReport}`);
  const all = [...targets.values()].concat(counted ?? [], last ?? []);
  const hasValues = asked.length > 0 || last !== undefined;
  const root = { ...notAsked(), isAsked: paths.includes('') };
  const inReport = last === undefined ? [] : [last];
  const listener =
    all.length > 0 || root.isAsked ? followPaths(all, { counted, container, inReport, root, hasValues }) : undefined;
  const document = createXmlDocument(present, listener);
  // Another root is another document, such as an error.
  const isRoot = () => [root.name, '*'].includes(counted?.steps[0]?.name ?? '*');

  return checkText({
    read: (text) => document.read(text),
    charactersRead: () => document.charactersRead(),
    keepsByteOrderMark: true,
    end: () =>
      document.end() ?? {
        reports: counted === undefined ? document.reports : counted.hasParent ? counted.count : null,
        rootName: document.rootName,
        value: (path) =>
          path === ''
            ? { parent: true, type: 'object', isEmpty: document.reports === 0 && !root.hasContent && isRoot() }
            : valueOf(targets.get(path), all),
        inLastReport: { ...valueOf(last), parent: (counted?.count ?? 0) > 0 },
      },
  });
};

/** The root element: its name, and whether it has attributes or text. */
interface Root {
  /** Whether a path is that of the whole document. */
  readonly isAsked: boolean;
  name: string | undefined;
  hasContent: boolean;
}

const notAsked = (): Root => ({ isAsked: false, name: undefined, hasContent: false });

interface FollowOptions {
  /** Elements at this path are the reports. At any other, there must not be more than one. Before `inReport`. */
  readonly counted: Target | undefined;
  /** The element that contains the reports. Its text is not read. */
  readonly container?: Target | undefined;
  /** Those in a report: each report has its own values. */
  readonly inReport: readonly Target[];
  /** Called when a report is complete. */
  readonly onReport?: () => void;
  readonly root?: Root;
  /** Whether more is asked for than the number of reports. */
  readonly hasValues: boolean;
}

export function followPaths(
  targets: readonly Target[],
  { counted, container, inReport, onReport, root = notAsked(), hasValues }: FollowOptions,
): XmlListener {
  let depth = 0;
  /** Targets that the element of the tag that is being read may belong to. */
  let candidates: readonly Target[] = [];
  let isTagRead = false;
  /** Targets whose text is being read. */
  const reading = new Set<Target>();

  const isTagNeeded = () =>
    (root.isAsked && depth === 0) ||
    candidates.some(({ attribute, isSelected }) => !isSelected || attribute !== undefined);
  /** The element of the tag that has been read is the next one on the path of the target. */
  const enter = (target: Target): string | undefined => {
    const { steps, attribute, attributeValue } = target;
    target.matched = depth;
    if (depth >= steps.length - 1) target.hasParent = true;
    if (depth < steps.length) return undefined;
    if (target === counted) for (const each of inReport) Object.assign(each, { count: 0, text: '' });
    if (attribute !== undefined && attributeValue === undefined) {
      return steps.at(-1)?.where && `the element of ${target.path} has no attribute ${attribute}`;
    }
    target.count += 1;
    if (target === counted || target === container) return undefined;
    if (target.count > 1) return twoValues(target);
    if (attribute === undefined) reading.add(target);
    return addText(target, attributeValue ?? '');
  };

  return {
    isReading: () => isTagRead || reading.size > 0 || (root.isAsked && depth === 1 && !root.hasContent),
    startTag(name) {
      const local = localName(name);
      for (const target of reading) target.hasChildren = true;
      candidates = targets.filter(
        ({ matched, steps }) => matched === depth && [local, '*'].includes(steps[depth]?.name ?? ''),
      );
      for (const target of candidates) beginTag(target, depth);
      isTagRead = isTagNeeded();
      if (depth === 0) root.name = local;
      depth += 1;
    },
    attribute(name, value) {
      if (!isTagRead || name.startsWith('xmlns:')) return undefined;
      if (depth === 1 && name !== 'xmlns') root.hasContent = true;
      const local = localName(name);
      return firstProblem(candidates, (target) => readAttribute(target, depth - 1, local, value));
    },
    endTag() {
      isTagRead = false;
      return firstProblem(candidates, (target) => (target.isSelected ? enter(target) : undefined));
    },
    text(text) {
      if (depth === 1 && text.trim() !== '') root.hasContent = true;
      return firstProblem(reading, (target) => addText(target, text));
    },
    closeElement() {
      for (const target of targets) {
        if (target.matched !== depth) continue;
        target.matched -= 1;
        if (depth < target.steps.length) continue;
        reading.delete(target);
        if (target === counted) onReport?.();
      }
      depth -= 1;
    },
    declarations: () =>
      hasValues
        ? 'the DOCTYPE has declarations or names a DTD, which is not read and could hide a value, such as the next page'
        : undefined,
  };
}

/** Applies `read` to all targets. */
function firstProblem(targets: Iterable<Target>, read: (target: Target) => string | undefined): string | undefined {
  let problem: string | undefined;
  for (const target of targets) {
    const found = read(target);
    problem ??= found;
  }
  return problem;
}

function localName(name: string): string {
  return name.slice(name.lastIndexOf(':') + 1);
}
