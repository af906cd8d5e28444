/** How a request is authenticated with the secret of the service (docs/apis.md, "Authentication"). */

import { ExportError } from '../../core/errors.ts';
import type { Api } from '../../settings/api-settings.ts';

type Auth = Api['auth'];

/**
 * The headers that authenticate a request: `authorization: Bearer …` for a token, for example.
 * @throws ConfigurationError if the secret is not what the kind of authentication needs
 */
export function credentialHeaders({ kind, name = '', prefix = '' }: Auth, secret: string): Record<string, string> {
  switch (kind) {
    case 'none':
      return {};
    case 'header':
      return { [name]: `${prefix}${secret}` };
    case 'basic':
      if (!secret.includes(':')) {
        throw new ExportError(
          'ConfigurationError',
          'The secret of basic authentication must be a user and a password: user:password',
        );
      }
      return { authorization: `Basic ${Buffer.from(secret).toString('base64')}` };
    case 'bearer':
    case 'oauth2':
      return { authorization: `Bearer ${secret}` };
  }
}

/** The same headers for a person, with `source` in place of the secret. */
export const shownCredentials = (auth: Auth, source: string): Record<string, string> =>
  auth.kind === 'basic' ? { authorization: `Basic ${source}` } : credentialHeaders(auth, source);

/** What of the secret must not be shown: of basic authentication, also the password alone. */
export const partsOfSecret = ({ kind }: Auth, secret: string): readonly string[] =>
  kind === 'none' ? [] : kind === 'basic' ? [secret, secret.slice(secret.indexOf(':') + 1)] : [secret];
