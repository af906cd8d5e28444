/** Requests have no credentials, and nothing needs a secret. */

import type * as z from 'zod/mini';
import { object } from '../../../core/schema/fields.ts';
import { type AuthKind, kindField } from './kind.ts';

export const noneSchema = object({ kind: kindField('none') });

export const noneKind: AuthKind<z.infer<typeof noneSchema>> = {
  hasNoSecret: true,
  send: {},
  secretName: () => '',
  rejected: 'it requires credentials. Describe them in api.auth',
};
