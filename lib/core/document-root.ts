/**
 * The pages of an export all have the same document root: of XML, the name of the root element; of CSV, the first row, which has
 * the columns. A document with another one is no page: it may be an error document, which has no cursor and so would end
 * pagination. It is refused before it is stored.
 *
 * The settings may name the root. Otherwise page 1 must have that of completed runs, and every other page that of the page
 * before it.
 */

import { hash } from 'node:crypto';
import { ExportError } from './errors.ts';
import type { DocumentRoot, ExportDefinition, ExportState, PageEntry, Run } from './model.ts';
import type { PageLog, ReceivedPage } from './ports.ts';

/** Every store can keep it, the metadata of S3 included: a hash stands for a name that is long, or not printable ASCII. */
export const asDocumentRoot = (name: string): DocumentRoot =>
  (/^(?!.*=\?)[\x21-\x7e]{1,200}$/.test(name) ? name : `sha256-${hash('sha256', name)}`) as DocumentRoot;

const maxRootLength = 200;
const columns = 'columns ';

/**
 * The root of a page of CSV, from its first row: `columns id,text`. No XML name has a space. A row that not every store can keep is
 * replaced by its beginning and a hash of the whole row.
 */
export function rootOfColumns(row: string): DocumentRoot {
  const root = `${columns}${row}`;
  if (root.length <= maxRootLength && /^[\x21-\x7e]+( [\x21-\x7e]+)*$/.test(root) && !root.includes('=?'))
    return root as DocumentRoot;
  const beginning = row.slice(0, 100).replace(/[^\x21-\x7e]|=\?/g, '_');
  return `${columns}${beginning}... sha256-${hash('sha256', row)}` as DocumentRoot;
}

/** `noun` is what a root is called in messages. */
const rootElement = { noun: 'root element', setting: 'service.rootElement' };
const firstRow = { noun: 'columns', setting: 'api.page.columns' };

const kindOf = (root: DocumentRoot) => (root.startsWith(columns) ? firstRow : rootElement);

/** The root without its prefix `columns`. */
const nameOf = (root: DocumentRoot): string => (kindOf(root) === firstRow ? root.slice(columns.length) : root);

/** For messages: `root element reports`, `columns id,text`. */
export const describeRoot = (root: DocumentRoot, name = nameOf(root)): string => `${kindOf(root).noun} ${name}`;

export interface ExpectedRoot {
  readonly root: DocumentRoot;
  /** Why: a clause. */
  readonly reason: string;
  /** What to do if this is the wrong one: a sentence. */
  readonly remedy?: string;
}

/** Of page 1 of `run`. `recorded` is the root of completed runs. Undefined: any root may be right. */
export function rootOfFirstPage(
  { documentRoot: named }: Pick<ExportDefinition, 'documentRoot'>,
  recorded: DocumentRoot | undefined,
  { documentRoot: earlier }: Pick<Run, 'documentRoot'>,
): ExpectedRoot | undefined {
  if (named !== undefined) return { root: named, reason: `${kindOf(named).setting} names it` };
  if (recorded !== undefined) return ofCompletedRuns(recorded);
  return earlier && { root: earlier, reason: 'the run had it before it started over' };
}

/** The expected root of a first page, from that of another slice; undefined if the format has none. */
export const rootOfOtherSlice = ({ documentRoot: root }: Pick<PageEntry, 'documentRoot'>): ExpectedRoot | undefined =>
  root === null
    ? undefined
    : {
        root,
        reason: 'another slice has it',
        remedy:
          'If that slice has an error document, start again: while no slice has a second page, a start exports all slices again',
      };

/** The expected root of the page after `page`; undefined if the format has none. */
export const rootAfter = ({
  page,
  documentRoot: root,
}: Pick<PageEntry, 'page' | 'documentRoot'>): ExpectedRoot | undefined =>
  root === null ? undefined : { root, reason: `page ${page} has it` };

/**
 * Returns what the response after this one must have.
 * @throws ContractError if the response to the request `label` has another root than expected, so that it must not be stored
 */
export function assertRootOfResponse(
  label: string,
  received: Pick<ReceivedPage, 'documentRoot' | 'documentRootText' | 'excerpt'>,
  expected: ExpectedRoot | undefined,
): ExpectedRoot | undefined {
  const root = received.documentRoot;
  const other = findOther(root, expected);
  if (other === undefined) {
    if (expected !== undefined || root === null) return expected;
    return { root, reason: 'an earlier response has it', remedy: 'If that one was an error document, try again' };
  }
  const excerpt = received.excerpt();
  throw rootError(
    `Report service sent a document with the ${describeRoot(other.found, received.documentRootText())} for ${label}`,
    other,
    'It was not stored',
    excerpt === '' ? '' : `. Response: ${excerpt}`,
  );
}

/** What the first response to a probe must have. */
export async function rootOfFirstProbe(
  definition: Pick<ExportDefinition, 'name' | 'documentRoot'>,
  log: Pick<PageLog, 'exportState'>,
): Promise<ExpectedRoot | undefined> {
  return rootOfFirstPage(definition, (await log.exportState(definition.name))?.documentRoot, {});
}

/** @throws ContractError if a page that an earlier attempt has stored has another root than expected */
export function assertRootOfStored(
  { page, run, documentRoot: root }: Pick<PageEntry, 'page' | 'run' | 'documentRoot'>,
  expected: ExpectedRoot | undefined,
): void {
  const other = findOther(root, expected);
  if (other === undefined) return;
  throw rootError(
    `Page ${page} of run ${run} was stored with the ${describeRoot(other.found)}`,
    other,
    'The run cannot continue; start with --restart to begin a new one',
  );
}

/** The setting may be younger than the run. @throws ConfigurationError if it names another root than the run's pages have */
export function assertRootOfSettings(
  { documentRoot: named }: ExportDefinition,
  { run, documentRoot: root }: PageEntry,
) {
  if (named === undefined || root === null || root === named) return;
  throw new ExportError(
    'ConfigurationError',
    `The pages of run ${run} have the ${describeRoot(root)}, but ${kindOf(named).setting} is ${nameOf(named)}. Correct the setting to finish the run, ` +
      'or start with --restart to abandon it and begin a new one',
  );
}

/**
 * `state`, that of the export, with the root of a run whose last page is `last`, and which is about to be published.
 * @throws ContractError if completed runs have another root, unless the settings name that of this run
 * @throws ConfigurationError if the settings name another root
 */
export function withRootOf(last: PageEntry, state: ExportState, definition: ExportDefinition): ExportState {
  const { run, documentRoot: root } = last;
  const { documentRoot: recorded } = state;
  assertRootOfSettings(definition, last);
  if (root === null || root === recorded) return state;
  if (recorded !== undefined && definition.documentRoot === undefined) {
    const other = { found: root, expected: ofCompletedRuns(recorded) };
    throw rootError(`The pages of run ${run} have the ${describeRoot(root)}`, other, 'The run is not published');
  }
  return { ...state, documentRoot: root };
}

interface OtherRoot {
  readonly found: DocumentRoot;
  readonly expected: ExpectedRoot;
}

const findOther = (found: DocumentRoot | null, expected: ExpectedRoot | undefined): OtherRoot | undefined =>
  found === null || expected === undefined || found === expected.root ? undefined : { found, expected };

function rootError(problem: string, { found, expected }: OtherRoot, consequence: string, end = ''): ExportError {
  const { root, reason, remedy } = expected;
  const { noun, setting } = kindOf(found);
  const sentences = [
    `${problem}, but ${nameOf(root)} is expected: ${reason}`,
    consequence,
    `If the service has really changed its ${noun}, set ${setting} to the new one and start with --restart`,
    ...(remedy === undefined ? [] : [remedy]),
  ];
  return new ExportError('ContractError', `${sentences.join('. ')}${end}`);
}

const ofCompletedRuns = (root: DocumentRoot): ExpectedRoot => ({
  root,
  reason: 'the export has had it so far',
  remedy: `If a completed run took a document with ${nameOf(root)} for a page by mistake, also add --since, with the since of that run`,
});
