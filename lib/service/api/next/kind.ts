/**
 * What every kind of `next` has: a kind is a file, and the table of kinds in `kinds.ts` is the only place that knows
 * them.
 */

import type { Cursor } from '../../../core/model.ts';
import type { Rule, SettingsProblem } from '../../../core/schema/fields.ts';
import type { Condition } from '../condition.ts';
import type { PageSettings } from '../page.ts';
import type { Request, RequestParts } from '../request.ts';
import type { PathValue, ResponseFacts } from '../response-facts.ts';

export type Next =
  | { readonly kind: 'page'; readonly cursor: Cursor }
  | { readonly kind: 'last' }
  /** The walk must start over. */
  | { readonly kind: 'expired'; readonly reason: string };

/** How a cursor is kept: the URL of the next page, parameters of a query, a JSON value, or a text. */
export type CursorForm = 'url' | 'parameters' | 'json' | 'text';

/** By lower-case name. */
type LinkParameters = ReadonlyMap<string, string>;

export const lastPage: Next = { kind: 'last' };

/** A page that contradicts its description. `message` completes the sentence about the response. */
export class InvalidPage extends Error {}
/** A page that shows that its description is wrong: no further attempt helps. */
export class InvalidDescription extends InvalidPage {}

/** Facts of a page. Before its body has been read, it has no values and no reports. */
export interface PageFacts extends ResponseFacts {
  readonly isFirst: boolean;
  /** Whether it is the first page of a parent, which may no longer exist. */
  readonly mayBeGone: boolean;
  /** The cursor that was sent, as a text. */
  readonly sent: string | undefined;
  /** Whether `when.empty` holds: there are no reports. */
  readonly isEmpty: boolean;
  /**
   * Whether it is the whole export even if `last` is silent, as what it asks for is missing: the first page, which is
   * empty and lacks its list.
   */
  readonly mayBeSilent: boolean;
  /** The value of a field in the last report; `parent` says whether there is one. */
  readonly inLastReport: PathValue;
  readonly isRepeated: (header: string) => boolean;
  readonly headerNames: readonly string[];
  readonly requested: URL;
  /** The `size` of the export. */
  readonly size: number | undefined;
  readonly quote: (text: string, maxLength: number) => string;
  readonly hasSecret: (text: string) => boolean;
  /** A URL without the parameters that carry credentials. */
  readonly withoutKeys: (url: string) => string;
}

/** A path in a description, and where it stands there. */
type PathOf = readonly [path: SettingsProblem['path'], value: string];

/** The parts of a description that a kind needs. */
export interface Described<NextSettings> {
  readonly request: Request;
  readonly next: NextSettings;
  readonly last?: Condition | undefined;
  readonly page: PageSettings;
  readonly when?: { readonly [Name in 'error' | 'empty']?: Condition | undefined } | undefined;
}

export interface NextKind<NextSettings> {
  /** Problems of settings that are valid by themselves. */
  readonly rules: (api: Described<NextSettings>) => readonly Rule[];
  /**
   * `count`: requests count pages or reports, which shift when data changes. Absent: further requests send a cursor,
   * which may be a number, or the URL of the next page.
   */
  readonly sends?: 'count' | 'nothing';
  /** The value of `{cursor}` in `request`, where `to` may be absent. Absent: only further requests have a cursor. */
  readonly valueInRequest?: (cursor: string | null, next: NextSettings) => number;
  /** Whether a cursor is that of the page after the last one, which must have no reports. Absent: there is none. */
  readonly isAfterLast?: (cursor: string) => boolean;
  /** Where each report has its ID, possibly in several parts, if two passes prove the pages. Absent: never. */
  readonly provedBy?: (next: NextSettings) => readonly string[] | undefined;
  /** How a cursor is kept. Absent: as `to` says, or else as text. */
  readonly form?: (api: Pick<Described<NextSettings>, 'next' | 'page'>) => CursorForm;
  /** The place for people. Absent: the name of the kind and `at`. */
  readonly place?: (next: NextSettings) => string;
  /** Where it finds values in the body, besides those of conditions. */
  readonly paths: (next: NextSettings) => readonly PathOf[];
  /**
   * The header that has the next page, unless `last` is about the body: `read` is called before the body is read, so it
   * must not refuse a first page without the header, which may be empty. Absent: `read` is called after the body.
   */
  readonly header?: (next: NextSettings) => string;
  /** The path of a value in each report. */
  readonly inReport?: (next: NextSettings) => string;
  /**
   * The parameters of the link to the next page, of which conditions may ask. Absent: the kind has no link. @throws
   * InvalidPage
   */
  readonly parameters?: (next: NextSettings, head: Pick<PageFacts, 'header' | 'quote'>) => LinkParameters | undefined;
  /** @throws InvalidPage */
  readonly read: (page: PageFacts, api: Described<NextSettings>) => Next;
  /** The request with this cursor, from its parts without. `form` is how the cursor is kept. */
  readonly write: (
    parts: RequestParts,
    cursor: string | null,
    api: Described<NextSettings> & { readonly form: CursorForm },
  ) => RequestParts;
}
