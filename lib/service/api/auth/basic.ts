/**
 * HTTP Basic (RFC 7617). The secret is `user:password`, or JSON with these two fields. Either may be empty: of many
 * APIs, the key is the user, and there is no password. `{token}` is their Base64.
 */

import type * as z from 'zod/mini';
import { object } from '../../../core/schema/fields.ts';
import { type AuthKind, kindField } from './kind.ts';
import { secretField, SecretProblem, wholeSecret } from './secret.ts';
import { optionalSend } from './send.ts';

const send = { Authorization: 'Basic {token}' };
export const basicSchema = object({ kind: kindField('basic'), send: optionalSend(send) });

const secretName = 'user and password, as user:password';

export const basicKind: AuthKind<z.infer<typeof basicSchema>> = {
  send,
  secretName: (_, isJson) => (isJson ? 'user and password' : secretName),
  read(_, secret) {
    const [user, password] = readPair();
    if (!/^[\x20-\x7e]*$/.test(user + password)) throw new SecretProblem('contains characters that it cannot have');
    if (user.includes(':')) throw new SecretProblem('has a colon in its field "user", which HTTP Basic cannot send');
    return { user, password, pair: `${user}:${password}` };

    function readPair(): readonly [user: string, password: string] {
      if (secret.fields !== undefined)
        return [secretField(secret, 'user'), secretField(secret, 'password', { mayBeEmpty: true })];
      const pair = wholeSecret(secret, secretName);
      const colon = pair.indexOf(':');
      if (colon < 0)
        throw new SecretProblem(
          'must be a user and a password: user:password. If the vendor gives only a key, it is usually the user, without a password: set KEY:',
        );
      return [pair.slice(0, colon), pair.slice(colon + 1)];
    }
  },
  derive: ({ pair = '' }) => Buffer.from(pair).toString('base64'),
  rejected: 'the pair of user and password was rejected',
};
