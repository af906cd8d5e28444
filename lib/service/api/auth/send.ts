/**
 * Where credentials go: headers with `{secret}`, `{secret.app}`, and `{token}`, which is what the kind makes of the
 * secret.
 *
 *     {"DD-API-KEY": "{secret.api}", "DD-APPLICATION-KEY": "{secret.app}"}
 *     {"Authorization": "Bearer {token}", "developer-token": "{secret.developer}"}
 */

import * as z from 'zod/mini';
import { optionalField, validEntries } from '../../../core/schema/fields.ts';
import { headerName, headerValuePattern, headerValueProblem, problemIfRepeated } from '../header-names.ts';
import { fillText, namesSecret, SecretProblem, unknownPlaceholder } from './secret.ts';

export type Send = Readonly<Record<string, string>>;

export const maxSent = 10;

export const hasFew = (send: Send): boolean => Object.keys(send).length > 0 && Object.keys(send).length <= maxSent;

const problemOfHeader = (name: string, template: string, send: object): string | undefined =>
  problemIfRepeated(name, send) ?? headerName.safeParse(name).error?.issues[0]?.message ?? problemOfTemplate(template);

function problemOfTemplate(template: string): string | undefined {
  const unknown = unknownPlaceholder(template);
  if (unknown !== undefined) return `${unknown} is unknown; there are {secret}, {secret.FIELD} and {token}`;
  if (!namesSecret(template) && !template.includes('{token}'))
    return 'must contain {secret}, {secret.FIELD} or {token}. A header without a secret belongs in headers of the service';
  return headerValuePattern.test(template) ? undefined : headerValueProblem;
}

export const sendSchema = z
  .record(z.string(), z.string())
  .check(z.refine(hasFew, `must have 1 to ${maxSent} headers`), validEntries(problemOfHeader));

const sendField = {
  description: 'The headers with the credentials: `{secret}`, a field of its JSON (`{secret.app}`), or `{token}`.',
  example: { 'DD-API-KEY': '{secret.api}', 'DD-APPLICATION-KEY': '{secret.app}' },
};

/** The field `send` of a kind that sends `usual` otherwise. */
export const optionalSend = (usual: Send) =>
  optionalField(`${sendField.description} Without it, \`${JSON.stringify(usual)}\`.`, sendSchema, {
    example: sendField.example,
  });

/** The same field of a kind that sends no header otherwise. */
export const ownSend = optionalField(`${sendField.description} Without it, none.`, sendSchema, {
  example: sendField.example,
});

export const usesToken = (send: Send): boolean => Object.values(send).some((template) => template.includes('{token}'));

/** Headers, or parameters of a query. @throws SecretProblem if a value cannot be sent unchanged */
export const sentValues = (send: Send, valueOf: (field: string | undefined) => string, token?: string): Send =>
  Object.fromEntries(
    Object.entries(send).map(([name, template]) => [
      name,
      fillText(template, (field) => assertHeaderValue(valueOf(field)), token),
    ]),
  );

function assertHeaderValue(value: string): string {
  if (headerValuePattern.test(value)) return value;
  throw new SecretProblem('begins or ends with white space, or contains characters other than printable ASCII');
}
