/**
 * The secret itself is sent, in one header or several, or in the query:
 *
 *     {"kind": "key", "send": {"Authorization": "SSWS {secret}"}}
 *     {"kind": "key", "query": {"api_key": "{secret}"}}
 *     {"kind": "bearer"}                                             Authorization: Bearer s3cret
 */

import type * as z from 'zod/mini';
import { object } from '../../../core/schema/fields.ts';
import { type AuthKind, kindField } from './kind.ts';
import { optionalQuery } from './query.ts';
import { optionalSend, ownSend } from './send.ts';

export const keySchema = object({ kind: kindField('key'), send: ownSend, query: optionalQuery });

export const keyKind: AuthKind<z.infer<typeof keySchema>> = {
  rules: ({ send, query }) => [
    [['send'], send === undefined && query === undefined, 'is required, or query in its place'],
  ],
  secretName: () => 'API key',
  rejected: 'the API key was rejected',
};

const bearer = { Authorization: 'Bearer {secret}' };
export const bearerSchema = object({ kind: kindField('bearer'), send: optionalSend(bearer) });

export const bearerKind: AuthKind<z.infer<typeof bearerSchema>> = {
  send: bearer,
  secretName: () => 'token',
  rejected: 'the token was rejected',
};
