/**
 * Keys in the query of a URL, for an API that takes them nowhere else:
 *
 *     {"kind": "key", "query": {"api_key": "{secret}"}}
 *
 * They are added when a request is sent, so that no URL that is stored or shown has them.
 */

import * as z from 'zod/mini';
import { optionalField, validEntries } from '../../../core/schema/fields.ts';
import { withoutParameters } from '../request.ts';
import { namesSecret, unknownPlaceholder } from './secret.ts';
import { hasFew, maxSent, type Send } from './send.ts';

function problemOfParameter(name: string, template: string): string | undefined {
  if (!/^[\x21-\x7e]{1,100}$/.test(name)) return 'must be printable ASCII, without spaces';
  const unknown = unknownPlaceholder(template);
  if (unknown !== undefined) return `${unknown} is unknown; there are {secret} and {secret.FIELD}`;
  return namesSecret(template) && !template.includes('{token}')
    ? undefined
    : 'must contain {secret} or {secret.FIELD}, and no {token}. A parameter without a secret belongs in request.query';
}

export const optionalQuery = optionalField(
  'The parameters of the URL with the credentials, if the API takes no header: as in `send`. The vendor may log them.',
  z
    .record(z.string(), z.string())
    .check(z.refine(hasFew, `must have 1 to ${maxSent} parameters`), validEntries(problemOfParameter)),
  { example: { api_key: '{secret}' } },
);

/** The path of a request with the keys in its query, in the place of what a URL of the service has there. */
export function withKeys(path: string, query: Send): string {
  const keys = Object.entries(query).map(([name, key]) => `${encodeURIComponent(name)}=${encodeURIComponent(key)}`);
  if (keys.length === 0) return path;
  const others = withoutParameters(path, Object.keys(query));
  return `${others}${others.includes('?') ? '&' : '?'}${keys.join('&')}`;
}
