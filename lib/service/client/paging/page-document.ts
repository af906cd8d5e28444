/** What a complete document says of itself: whether it is a page, and whether there are any reports. */

import type { Api } from '../../../settings/api-settings.ts';
import type { AnyOf } from '../../../settings/fields.ts';
import type { PageContent, PathValue } from '../../formats/format-check.ts';
import { textIn } from '../../formats/formats.ts';
import { containsKey, presentable } from '../../redaction/redact.ts';
import { contractError, type ErrorContext, failure } from '../errors.ts';
import type { Headers } from '../response-headers.ts';

export interface RequestedPage {
  readonly context: ErrorContext;
  readonly api: Api;
  /** The address that was requested. */
  readonly requested: URL;
  readonly isFirst: boolean;
  /** The cursor that was sent; for the first page, what was sent in its place. */
  readonly sent: string | undefined;
}

/** A response that has been read to its end. `isEmpty`: it says that there are no reports. */
export interface PageParts {
  readonly content: PageContent;
  readonly isEmpty: boolean;
  readonly headers: Headers;
}

/** What a response has at `next.at`. Without `text`: nothing. */
export interface Found {
  readonly text: string | undefined;
  /** What it is called in messages. */
  readonly what: string;
  /** In JSON. */
  readonly type?: PathValue['type'];
}

/**
 * True: there are no reports. Only the first page may say so: after that, reports that a page had announced would be missing.
 * @throws ContractError if it is no page, CursorRejectedError if it says that the cursor is not valid any more
 */
export function saysEmpty({ context, api, isFirst }: RequestedPage, document: PageContent): boolean {
  const { format, reports, error: errorPath, empty }: AnyOf<Api['page']> = api.page;
  const { rejected }: AnyOf<Api['next']> = api.next;
  const isAt = ({ at, is }: { readonly at: string; readonly is: string }) =>
    textIn(api.page, document.value(at)) === is;
  // The name is stored with the page.
  if (containsKey(document.rootName ?? '', context.keys)) {
    const what = format === 'csv' ? 'first row' : 'name of the root element';
    throw contractError(context, `the ${what} contains the API key`);
  }
  // Before anything else: such a document is no page.
  if (!isFirst && rejected !== undefined && isAt(rejected)) {
    const reason = `its response for ${context.label} has ${rejected.is} at ${rejected.at}`;
    const message = `${context.server.name} no longer accepts the cursor: ${reason}`;
    throw failure(context, 'CursorRejectedError', message);
  }
  if (isFirst && empty !== undefined && 'at' in empty && isAt(empty)) {
    const count = reports === undefined ? null : document.reports;
    if (count === null || count === 0) return true;
    throw contractError(context, `it says that there are no reports, at ${empty.at}, but has ${count}`);
  }
  const error = errorPath === undefined ? undefined : document.value(errorPath);
  if (error?.type !== undefined && error.type !== 'null') {
    const quoted = error.text === undefined ? '' : `: ${presentable(error.text, context.keys, 150)}`;
    throw contractError(context, `it reports an error at ${errorPath}${quoted}`);
  }
  if (reports !== undefined && document.reports === null) {
    throw contractError(context, `it has nothing that contains reports: ${reports}`);
  }
  return false;
}
