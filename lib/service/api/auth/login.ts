/**
 * A request to the service itself or to another host, with fields of the secret, returns a token:
 *
 *     {"kind": "login", "path": "/auth", "body": {"user": "{secret.user}", "password": "{secret.password}"},
 *      "token": "/access_token", "expires": "/expires_in"}
 *     {"kind": "login", "url": "https://login.example.com/token", "headers": {"X-Api-Key": "{secret}"},
 *      "token": "/access_token"}
 */

import * as z from 'zod/mini';
import type { JsonValue } from '../../../core/model.ts';
import {
  checkedText,
  field,
  fieldsOf,
  jsonObject,
  object,
  optionalField,
  type SettingsProblem,
  text,
  withoutProblems,
} from '../../../core/schema/fields.ts';
import { jsonPath } from '../paths.ts';
import { type AuthKind, kindField } from './kind.ts';
import {
  fieldsNamed,
  fillJson,
  namesSecret,
  type Secret,
  secretField,
  unknownPlaceholder,
  wholeSecret,
} from './secret.ts';
import { optionalSend, sendSchema, sentValues, usesToken } from './send.ts';
import { bearerToken, problemOfToken, tokenUrlSchema } from './token-endpoint.ts';

const hasPlaceholders = 'must not have placeholders: URLs are logged. Put the secret into body, form or headers';
const pointer = text(jsonPath, 'must be a JSON Pointer, such as /access_token');
const secretName = /^(.*[-_])?(secret|pass(word|phrase)?|token|api[-_]?key)$/i;

function findProblems(value: JsonValue, path: SettingsProblem['path'] = []): readonly SettingsProblem[] {
  if (typeof value !== 'string')
    return Object.entries(Array.isArray(value) ? value : fieldsOf(value)).flatMap(([name, each]) =>
      findProblems(each as JsonValue, [...path, name]),
    );
  const unknown = unknownPlaceholder(value);
  if (unknown !== undefined || value.includes('{token}'))
    return [{ path, message: `${unknown ?? '{token}'} is unknown; there are {secret} and {secret.FIELD}` }];
  return secretName.test(String(path.at(-1))) && !namesSecret(value)
    ? [{ path, message: 'must be {secret} or {secret.FIELD}: it is a secret, which settings do not contain' }]
    : [];
}

export const loginSchema = object({
  kind: kindField('login'),
  path: optionalField(
    'The path of the request for a token, below `baseUrl`: a POST, or a GET without `body` and `form`.',
    checkedText((path) => {
      if (path.includes('{')) return hasPlaceholders;
      return /^\/[\x21-\x7e]*$/.test(path) && !path.includes('#') ? undefined : 'must be a path, such as /auth';
    }),
    { example: '/auth' },
  ),
  url: optionalField('In place of `path`: the URL of this request to another host.', tokenUrlSchema, {
    example: 'https://login.example.com/token',
  }),
  body: optionalField(
    'Its JSON body, with `{secret}` or fields of its JSON.',
    jsonObject((body) => findProblems(body)),
    { example: { user: '{secret.user}', password: '{secret.password}' } },
  ),
  form: optionalField(
    'In place of `body`: the fields of a form.',
    z.record(z.string(), z.string()).check(withoutProblems((form) => findProblems(form))),
    { example: { user: '{secret.user}', password: '{secret.password}' } },
  ),
  headers: optionalField('Its headers, with `{secret}` or fields of its JSON.', sendSchema, {
    example: { 'X-Api-Key': '{secret}' },
  }),
  token: field('Where the response has the token.', pointer, { example: '/access_token' }),
  expires: optionalField(
    'Where the response has the seconds until it expires, or the instant. Without it, the token is used until it is rejected.',
    pointer,
    { example: '/expires_in' },
  ),
  send: optionalSend(bearerToken),
});
type Login = z.infer<typeof loginSchema>;

/** What has fields of the secret. */
const templatesOf = ({ body, form, headers }: Login): string => JSON.stringify([body, form, headers]);

export const loginKind: AuthKind<Login> = {
  send: bearerToken,
  rules: (auth) => [
    [['path'], auth.path === undefined && auth.url === undefined, 'is required, or url for another host'],
    [['url'], auth.path !== undefined && auth.url !== undefined, 'takes the place of path: set only one of them'],
    [['url'], auth.url?.includes('{') === true, hasPlaceholders],
    [['form'], auth.body !== undefined && auth.form !== undefined, 'takes the place of body: set only one of them'],
    [[], !namesSecret(templatesOf(auth)), 'must have {secret} or {secret.FIELD} in body, form or headers'],
    [['headers'], usesToken(auth.headers ?? {}), 'must not have {token}, which this request is for'],
  ],
  secretName: (auth, isJson) => {
    const fields = fieldsNamed(templatesOf(auth));
    return fields.length === 0 ? 'secret' : `${fields.join(' and ')}${isJson ? '' : ', as JSON'}`;
  },
  read(auth, secret) {
    // A header carries fewer characters than a body.
    sentValues(auth.headers ?? {}, (name) => valueOf(secret, name));
    return Object.fromEntries(partsNamed(auth).map((name) => [name, valueOf(secret, name === '' ? undefined : name)]));
  },
  rejected: 'the token was rejected, and so was a new one. Check auth.send, and what the user may do',
  token: {
    server: ({ path = '', url }) =>
      url === undefined ? { path, setting: 'baseUrl and auth.path' } : { url, setting: 'auth.url' },
    request({ body, form, headers = {} }, parts) {
      const valueIn = (name = '') => parts[name] ?? '';
      const content = body ?? form;
      return {
        fields: content && fillJson(content, valueIn),
        encoding: body === undefined ? 'form' : 'json',
        headers: sentValues(headers, valueIn),
      };
    },
    paths: ({ token, expires }) => (expires === undefined ? [token] : [token, expires]),
    read({ token: at, expires }, { value, seconds }) {
      const token = value(at);
      const end = expires === undefined ? undefined : value(expires);
      const isEndless = end?.type === undefined || end.type === 'null';
      const left = isEndless ? undefined : seconds(expires ?? '');
      const problem =
        problemOfToken(token, `token at ${at}`) ??
        (isEndless || left !== undefined
          ? undefined
          : `its value at ${expires} is no number of seconds, and no instant`);
      return problem === undefined ? { token: token.text ?? '', seconds: left } : { problem };
    },
    misunderstood: 'auth.path or auth.url, and auth.body, auth.form or auth.headers',
    rejected: ({ body, form }) =>
      `it rejects the login. Check auth.${body ? 'body' : form ? 'form' : 'headers'} and the secret`,
  },
};

/** The fields of the secret in the request; an empty name is the whole. */
function partsNamed(auth: Login): readonly string[] {
  const content = templatesOf(auth);
  return [...new Set([...fieldsNamed(content), ...(content.includes('{secret}') ? [''] : [])])];
}

const valueOf = (secret: Secret, name: string | undefined): string =>
  name === undefined ? wholeSecret(secret, 'secret') : secretField(secret, name);
