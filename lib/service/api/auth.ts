/** How requests are authenticated with the secret of the service. The secret itself is never in the settings. */

import * as z from 'zod/mini';
import {
  checkedText,
  field,
  httpsUrl,
  object,
  oneKindOf,
  optionalField,
  type Rule,
  text,
  withoutProblems,
} from '../../core/schema/fields.ts';
import { headerName } from './header-names.ts';
import { noKeyInUrl } from './request.ts';

const printable = (max: number) => text(new RegExp(`^[\\x20-\\x7e]{1,${max}}$`), 'must be printable ASCII');

const tokenUrlSchema = checkedText((address) => httpsUrl(address, 'https://login.example.com/oauth2/token', ['hash']));

const authKind = <Kind extends string>(kind: Kind) =>
  field(
    'How requests are authenticated with the secret of the service: `header` sends it in a header of its own, `basic` as `user:password`, `bearer` as a token; `oauth2` exchanges it, a client secret or a refresh token, for tokens; `jwt` signs an assertion with it, a private key, and exchanges that for tokens.',
    z.literal(kind),
  );
const tokenUrl = field('Where tokens are requested.', tokenUrlSchema, {
  example: 'https://login.example.com/oauth2/token',
});
const scope = optionalField(
  'The scopes of the tokens, separated by spaces. Without it, those that the server chooses.',
  printable(2000),
  { example: 'reports.read' },
);
const parameters = optionalField(
  'Further fields of the request for a token, such as `audience` or `resource`. They are not secret.',
  z.record(z.string(), printable(2000)).check(
    withoutProblems((fields) =>
      Object.keys(fields)
        .filter((name) => /secret|password|token$|assertion/i.test(name))
        .map((name) => ({ path: [name], message: 'must not be set: it is a secret, which settings do not contain' })),
    ),
  ),
  { example: { audience: 'https://api.example.com' } },
);
export const authSchema = oneKindOf(
  'kind',
  [
    object({ kind: authKind('none') }),
    object({
      kind: authKind('header'),
      name: field('The name of the header.', headerName, { example: 'Authorization' }),
      prefix: optionalField('What precedes the key in the header.', printable(100), { example: 'SSWS ' }),
    }),
    object({ kind: authKind('basic') }),
    object({ kind: authKind('bearer') }),
    object({
      kind: authKind('oauth2'),
      tokenUrl,
      clientId: field('The ID of the client.', printable(500), { example: 'report-exporter' }),
      grant: optionalField(
        'What is exchanged for a token: the client secret, or a refresh token, which the exchange may replace. Without it, `client_credentials`.',
        z.enum(['client_credentials', 'refresh_token'], 'must be client_credentials or refresh_token'),
        { page: 'apis.md#refresh-tokens' },
      ),
      clientAuthentication: optionalField(
        'Whether the client ID and its secret are sent by HTTP Basic, or in the body; `none` for a client that has no secret. Without it, `basic`.',
        z.enum(['basic', 'body', 'none'], 'must be basic, body or none'),
      ),
      scope,
      parameters,
    }),
    object({
      kind: authKind('jwt'),
      tokenUrl,
      issuer: field('The claim `iss`: who signs.', printable(500), {
        example: 'exporter@project.iam.gserviceaccount.com',
      }),
      subject: optionalField('The claim `sub`: the user in whose name. Without it, none.', printable(500)),
      audience: optionalField('The claim `aud`. Without it, `tokenUrl`.', printable(500)),
      algorithm: optionalField(
        'How the assertion is signed. Without it, `RS256`.',
        z.enum(['RS256', 'PS256', 'ES256'], 'must be RS256, PS256 or ES256'),
      ),
      keyId: optionalField('The ID of the key, in the header `kid`. Without it, none.', printable(500)),
      scope,
      parameters,
    }),
  ],
  (kind) =>
    /query|url|param/i.test(kind)
      ? noKeyInUrl
      : /sigv4|signature|oci|hmac/i.test(kind)
        ? 'signatures of requests cannot be described'
        : undefined,
);
export type Auth = z.infer<typeof authSchema>;

/** What is wrong with fields that are valid by themselves. */
export const authRules = (auth: Auth): readonly Rule[] => [
  [
    ['clientAuthentication'],
    auth.kind === 'oauth2' && auth.clientAuthentication === 'none' && auth.grant !== 'refresh_token',
    'none requires "grant": "refresh_token"',
  ],
];

/** Whether requests to the service are authenticated: otherwise nothing needs its secret. */
export const needsSecret = ({ auth }: { readonly auth: Auth }): boolean => auth.kind !== 'none';

/** Whether the secret has a refresh token: a use may replace it, and the new one is stored. */
export const renewsSecret = ({ auth }: { readonly auth: Auth }): boolean =>
  auth.kind === 'oauth2' && auth.grant === 'refresh_token';
