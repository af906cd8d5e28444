/**
 * All pages of an export in XML or CSV have the same document root: in XML the name of the root element, in CSV the
 * first row, which has the columns and may differ from parent to parent. A document with another root is no page. It
 * may be an error document, which has no cursor and so would end pagination. It is refused before it is stored.
 *
 * The settings may name the root. Otherwise a first page must have the root of completed runs, else that of the other
 * slices, and every other page that of the page before it.
 */

import { hash } from 'node:crypto';
import { ExportError } from './errors.ts';
import type { DocumentRoot, ExportDefinition, ExportState, LogEntry, PageEntry, Run } from './model.ts';
import type { ReceivedPage } from './ports.ts';
import { hasParents } from './slices.ts';

/**
 * The root of a page of XML. A name that is long, or not printable ASCII, is replaced by a hash: every store must be
 * able to keep the root, also in the metadata of an S3 object.
 */
export function asDocumentRoot(name: string): DocumentRoot {
  const isStorable = /^(?!.*=\?)[\x21-\x7e]{1,200}$/.test(name);
  return (isStorable ? name : `sha256-${hash('sha256', name)}`) as DocumentRoot;
}

const maxRootLength = 200;
const columns = 'columns ';

/**
 * The root of a page of CSV, from its first row: `columns id,text`. It has a space, which no XML name has. A row that
 * not every store can keep is replaced by its beginning and a hash of the whole row.
 */
export function rootOfColumns(row: string): DocumentRoot {
  const root = `${columns}${row}`;
  const hasStorableText = /^[\x21-\x7e]+( [\x21-\x7e]+)*$/.test(root) && !root.includes('=?');
  if (root.length <= maxRootLength && hasStorableText) return root as DocumentRoot;
  const beginning = row.slice(0, 100).replace(/[^\x21-\x7e]|=\?/g, '_');
  return `${columns}${beginning}... sha256-${hash('sha256', row)}` as DocumentRoot;
}

/** Whether all slices of a run have the same root. The columns of CSV may differ from parent to parent. */
export const haveOneRoot = ({ slices, request }: Pick<Run, 'slices'> & { readonly request: PickedRequest }): boolean =>
  request.reportsAt.kind !== 'csv' || !hasParents({ slices });

type PickedRequest = Pick<Run['request'], 'reportsAt'>;

/** The words for a root in messages, and the setting that names it. */
const rootElement = { noun: 'root element', setting: 'service.rootElement' };
const firstRow = { noun: 'columns', setting: 'api.page.columns' };

const kindOf = (root: DocumentRoot) => (root.startsWith(columns) ? firstRow : rootElement);

/** The root without its prefix `columns`. */
const nameOf = (root: DocumentRoot): string => (kindOf(root) === firstRow ? root.slice(columns.length) : root);

/** For messages: `root element reports`, `columns id,text`. */
export const describeRoot = (root: DocumentRoot, name = nameOf(root)): string => `${kindOf(root).noun} ${name}`;

interface ExpectedRoot {
  readonly root: DocumentRoot;
  /** Why it is expected: a clause. */
  readonly reason: string;
  /** The advice if this root is the wrong one: a sentence. */
  readonly remedy?: string;
}

/** The facts of a run when its pages are to be requested. */
interface KnownPages extends Pick<Run, 'run' | 'documentRoot'> {
  /** The root of a page that is logged. */
  readonly logged: DocumentRoot | null;
}

/**
 * The root that the first page of a chain must have, from the settings, the completed runs of the export, or this run.
 * Undefined: any root may be right, and the first page that arrives decides.
 * @throws ConfigurationError if the settings name another root than the run's pages have: the settings may have changed
 *   since the run began
 */
export function expectedRoot(
  definition: Pick<ExportDefinition, 'documentRoot'>,
  completed: Pick<ExportState, 'documentRoot'> | undefined,
  run?: KnownPages,
): ExpectedRoot | undefined {
  const { logged = null } = run ?? {};
  if (run !== undefined) assertRootOfSettings(definition, { run: run.run, documentRoot: logged });
  const named = definition.documentRoot;
  if (named !== undefined) return { root: named, reason: `${kindOf(named).setting} names it` };
  if (completed?.documentRoot !== undefined) return rootOfCompletedRuns(completed.documentRoot);
  if (run?.documentRoot !== undefined) {
    return { root: run.documentRoot, reason: 'the run had it before it started over' };
  }
  return logged === null ? undefined : rootOfOtherSlice(logged);
}

type DocumentOfResponse = Pick<ReceivedPage, 'documentRoot' | 'documentRootText' | 'excerpt'>;
type StoredDocument = Pick<PageEntry, 'page' | 'run' | 'documentRoot'>;

export type RootCheck = ReturnType<typeof createRootCheck>;

/**
 * Compares the documents that one invocation receives. A page must have the root of the page before it, `previous`. A
 * first page must have the `expected` root. If that is not known, the root of the first compared document becomes the
 * expected one. With `learns: false`, each chain may have a root of its own.
 */
export function createRootCheck(expected: ExpectedRoot | undefined, { learns = true } = {}) {
  let expectedFirst = expected;
  const expectedAfter = (previous: PageEntry | undefined): ExpectedRoot | undefined => {
    if (previous === undefined) return expectedFirst;
    const { documentRoot: root, page } = previous;
    return root === null ? undefined : { root, reason: `page ${page} has it` };
  };
  const learn = (root: DocumentRoot | null, toExpectation: (root: DocumentRoot) => ExpectedRoot): void => {
    if (root !== null && learns) expectedFirst ??= toExpectation(root);
  };
  return {
    /**
     * @throws ContractError if the response to the request `label`, which is no page of the run, has another root
     * than expected
     */
    assertProbe(label: string, received: DocumentOfResponse): void {
      assertRootOfResponse(label, received, expectedFirst);
      learn(received.documentRoot, rootOfEarlierResponse);
    },
    /** @throws ContractError if the response has another root than expected, so that it must not be stored */
    assertResponse(label: string, received: DocumentOfResponse, previous: PageEntry | undefined): void {
      assertRootOfResponse(label, received, expectedAfter(previous));
      learn(received.documentRoot, rootOfOtherSlice);
    },
    /** @throws ContractError if the page, which may be an earlier attempt's, has another root than expected */
    assertStored(page: StoredDocument, previous: PageEntry | undefined): void {
      assertRootOfStored(page, expectedAfter(previous));
      learn(page.documentRoot, rootOfOtherSlice);
    },
  };
}

function assertRootOfResponse(
  label: string,
  { documentRoot, documentRootText, excerpt }: DocumentOfResponse,
  expected: ExpectedRoot | undefined,
): void {
  const other = findOther(documentRoot, expected);
  if (other === undefined) return;
  const shown = excerpt();
  throw rootError(
    `Report service sent a document with the ${describeRoot(other.found, documentRootText())} for ${label}`,
    other,
    'It was not stored',
    shown === '' ? '' : `. Response: ${shown}`,
  );
}

function assertRootOfStored(
  { page, run, documentRoot: root }: StoredDocument,
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

function assertRootOfSettings(
  { documentRoot: named }: Pick<ExportDefinition, 'documentRoot'>,
  { run, documentRoot: root }: Pick<LogEntry, 'run' | 'documentRoot'>,
): void {
  if (named === undefined || root === null || root === named) return;
  throw new ExportError(
    'ConfigurationError',
    `The pages of run ${run} have the ${describeRoot(root)}, but ${kindOf(named).setting} is ${nameOf(named)}. ` +
      'Correct the setting to finish the run, or start with --restart to abandon it and begin a new one',
  );
}

/**
 * Records a root in the state of the export: that of the pages of a run that is about to be published.
 * @throws ContractError if completed runs have another root, unless the settings name that of this run
 * @throws ConfigurationError if the settings name another root
 */
export function withRootOf(
  pages: Pick<LogEntry, 'run' | 'documentRoot'>,
  state: ExportState,
  definition: ExportDefinition,
): ExportState {
  const { run, documentRoot: root } = pages;
  const { documentRoot: recorded } = state;
  assertRootOfSettings(definition, pages);
  if (root === null || root === recorded) return state;
  if (recorded !== undefined && definition.documentRoot === undefined) {
    const other = { found: root, expected: rootOfCompletedRuns(recorded) };
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
  return new ExportError('ContractError', `${sentences.join('. ')}${end}`, { isOtherRoot: true });
}

const rootOfCompletedRuns = (root: DocumentRoot): ExpectedRoot => ({
  root,
  reason: 'the export has had it so far',
  remedy: `If a completed run took a document with ${nameOf(root)} for a page by mistake, also add --since, with the since of that run`,
});

const rootOfOtherSlice = (root: DocumentRoot): ExpectedRoot => ({
  root,
  reason: 'another slice has it',
  remedy:
    'If that slice has an error document, start again: while no slice has a second page, a start exports all slices again',
});

const rootOfEarlierResponse = (root: DocumentRoot): ExpectedRoot => ({
  root,
  reason: 'an earlier response has it',
  remedy: 'If that one was an error document, try again',
});
