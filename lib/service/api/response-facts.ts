/**
 * Facts of a response, which conditions and kinds of next pages ask for. Nothing here knows how a response is received.
 */

/** A value at a path of a document. */
export interface PathValue {
  /** Whether the document has the object, array or element in which the value may stand. */
  readonly parent: boolean;
  /** undefined: not found. In XML, everything is a string. */
  readonly type?: 'string' | 'number' | 'boolean' | 'null' | 'object' | 'array';
  /** Decoded once; of a JSON number, its characters as received. undefined: not found, null, an object or an array. */
  readonly text?: string;
  /** Whether there is nothing inside: of an object or an array, and of an element of XML that has no text. */
  readonly isEmpty?: boolean;
  /** The JSON of an object or an array, if the check of the page was asked for it. */
  readonly json?: string;
}

/** Facts that are known before the body is read. */
export interface HeadFacts {
  readonly status: number;
  /** The statuses of a page: a part of a condition without `status` is asked only of responses with one of them. */
  readonly statuses: readonly number[];
  /** The value of a header, or several joined by commas. */
  readonly header: (name: string) => string | undefined;
  /** The parameters of the link to the next page, by lower-case name. undefined: there is no link. */
  readonly link: () => ReadonlyMap<string, string> | undefined;
  /** Whether a text is the cursor that was sent; on the first page, what was sent in its place. */
  readonly isSent: (text: string) => boolean;
}

/** Facts of a response whose body has been read to its end. */
export interface ResponseFacts extends HeadFacts {
  /** null: reports are not counted, or the list is missing. */
  readonly reports: number | null;
  readonly value: (path: string) => PathValue;
}

/** Something is all but nothing: missing, null, an empty text, `[]` and `{}`. */
export const isSomething = ({ type, text, isEmpty }: PathValue): boolean =>
  type !== undefined && type !== 'null' && (text === undefined || text === '' ? isEmpty === false : true);
