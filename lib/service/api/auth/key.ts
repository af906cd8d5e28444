/**
 * The secret itself is sent, in one header or several:
 *
 *     {"kind": "key", "send": {"Authorization": "SSWS {secret}"}}
 *     {"kind": "bearer"}                                             Authorization: Bearer s3cret
 */

import type * as z from 'zod/mini';
import { object } from '../../../core/schema/fields.ts';
import { type AuthKind, kindField } from './kind.ts';
import { optionalSend, requiredSend } from './send.ts';

export const keySchema = object({ kind: kindField('key'), send: requiredSend });

export const keyKind: AuthKind<z.infer<typeof keySchema>> = {
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
