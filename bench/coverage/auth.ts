/** Authenticators of manifests in our language, and which secret they need. */

import { customName, partOf, scopeWith } from './requests.ts';
import {
  evaluateAll,
  evaluateText,
  isPlain,
  Joined,
  type Plain,
  Ref,
  type Scope,
  textOf,
  Untranslatable,
} from './templates.ts';

export interface TranslatedAuth {
  /** The description, with further headers and parameters of the URL that have a secret. */
  readonly withParts: (headers?: Plain, query?: Plain) => Plain;
  readonly secret: Plain;
  /** Where the token is requested, if `withParts` lacks that. */
  readonly login?: URL;
}

/** `hidden` has Refs in the place of secrets, `open` has the secrets. */
export function translateAuth(nodes: readonly Plain[], hidden: Scope, open: Scope): TranslatedAuth {
  const all = nodes.map((node) => translateOne(authenticatorOf(node, hidden), hidden, open));
  if (new Set(all.map(({ withParts, secret, login }) => JSON.stringify([withParts(), secret, login]))).size > 1)
    throw new Untranslatable('parents with other credentials');
  return all[0] as TranslatedAuth;
}

/** Of several, the first that has the key in a header: a user may choose. */
export function authenticatorOf(stream: Plain, scope: Scope): Plain | undefined {
  const requester = partOf(stream.retriever, 'requester');
  const { authenticator } = requester;
  if (!isPlain(authenticator)) return undefined;
  if (authenticator.type !== 'SelectiveAuthenticator') return authenticator;
  const options = Object.values(authenticator.authenticators as Plain) as readonly Plain[];
  const fits = (option: Plain): boolean => {
    try {
      return !Object.hasOwn(translateOne(option, scope, scope).withParts(), 'query');
    } catch {
      return false;
    }
  };
  return options.find(fits) ?? options[0];
}

function translateOne(authenticator: Plain | undefined, hidden: Scope, open: Scope): TranslatedAuth {
  if (authenticator === undefined || authenticator.type === 'NoAuth') return keyAuth({}, {}, open);
  const custom = customName(authenticator);
  if (custom !== undefined) throw new Untranslatable(`custom Python component: ${custom}`);
  // Some connectors do not say that a setting is a secret.
  const scope = scopeWith(authenticator, { ...hidden, config: hideAll(hidden.config) });
  const text = (value: unknown) => secretText(evaluateAll(value, scope));
  switch (authenticator.type) {
    case 'BearerAuthenticator':
      return keyAuth({ Authorization: `Bearer ${text(authenticator.api_token)}` }, {}, open);
    case 'ApiKeyAuthenticator':
      return keyAuth(...placeOf(authenticator, scope, text(authenticator.api_token)), open);
    case 'BasicHttpAuthenticator': {
      const real = scopeWith(authenticator, open);
      const part = (value: unknown) => textOf(evaluateAll(value ?? '', real) ?? undefined);
      const secret = { user: part(authenticator.username), password: part(authenticator.password) };
      return fixedAuth({ kind: 'basic' }, secret);
    }
    case 'OAuthAuthenticator':
      return oauth(authenticator, scopeWith(authenticator, open));
    case 'SessionTokenAuthenticator':
      return login(authenticator, scope, open);
    default:
      throw new Untranslatable(`credentials: ${String(authenticator.type)}`);
  }
}

/** Refs in the place of all texts. */
function hideAll(config: unknown, name = ''): unknown {
  if (!isPlain(config)) return typeof config === 'string' ? new Ref('secret', [name]) : config;
  return Object.fromEntries(Object.entries(config).map(([each, value]) => [each, hideAll(value, each)]));
}

/** The headers with a key, or the query. */
function placeOf({ header, inject_into: option }: Plain, scope: Scope, key: string): [headers: Plain, query: Plain] {
  if (header !== undefined) return [{ [String(evaluateText(textOf(header), scope))]: key }, {}];
  const { inject_into: place, field_name: name } = (option ?? {}) as Plain;
  const sent = { [String(evaluateText(String(name), scope))]: key };
  if (place === 'request_parameter') return [{}, sent];
  if (place !== 'header') throw new Untranslatable('a secret in the body');
  return [sent, {}];
}

/** A text with placeholders for secrets. */
function secretText(value: unknown): string {
  if (value instanceof Joined) return value.parts.map(secretText).join('');
  if (value instanceof Ref) return `{secret.${String(value.path[0])}}`;
  return textOf(value ?? undefined);
}

function keyAuth(ownHeaders: Plain, ownQuery: Plain, { config }: Scope): TranslatedAuth {
  return {
    withParts: (headers, parameters) => {
      const [send, query] = [
        { ...ownHeaders, ...headers },
        { ...ownQuery, ...parameters },
      ];
      const all = [...Object.values(send), ...Object.values(query)];
      if (all.some((text) => !String(text).includes('{secret')))
        throw new Untranslatable('a key that the manifest has');
      const parts = Object.entries({ send, query }).filter(([, part]) => Object.keys(part).length > 0);
      return parts.length === 0 ? { kind: 'none' } : { kind: 'key', ...Object.fromEntries(parts) };
    },
    secret: flatten(config),
  };
}

/** Every setting that is a text, by its name. */
function flatten(config: unknown): Plain {
  if (!isPlain(config)) return {};
  return Object.entries(config).reduce<Plain>(
    (all, [name, value]) => (isPlain(value) ? { ...all, ...flatten(value) } : { ...all, [name]: textOf(value) }),
    {},
  );
}

function fixedAuth(auth: Plain, secret: Plain): TranslatedAuth {
  return {
    withParts: (headers, query) => {
      if (Object.keys({ ...headers, ...query }).length > 0) throw new Untranslatable('a secret beside a token');
      return auth;
    },
    secret,
  };
}

function oauth(authenticator: Plain, scope: Scope): TranslatedAuth {
  const value = (name: string) => {
    const given = authenticator[name];
    return given === undefined ? undefined : evaluateAll(given, scope);
  };
  const grant = value('grant_type') ?? 'refresh_token';
  if (grant !== 'refresh_token' && grant !== 'client_credentials')
    throw new Untranslatable(`the OAuth grant ${textOf(grant)}`);
  const url = textOf(value('token_refresh_endpoint'));
  if (!url.startsWith('https:')) throw new Untranslatable('an OAuth token that is never renewed');
  if ((value('access_token_name') ?? 'access_token') !== 'access_token')
    throw new Untranslatable('an OAuth token under another name');
  const scopes = value('scopes');
  const given = value('refresh_request_body');
  // The fields of the grant take precedence over these.
  const own = new Set(['grant_type', 'client_id', 'client_secret', 'refresh_token', 'scopes']);
  const parameters = Object.fromEntries(Object.entries(isPlain(given) ? given : {}).filter(([name]) => !own.has(name)));
  const headers = value('refresh_request_headers');
  const isBasic = isPlain(headers) && Object.keys(headers).some((name) => name.toLowerCase() === 'authorization');
  const auth = {
    kind: 'oauth2',
    ...(grant === 'refresh_token' ? { grant } : {}),
    tokenUrl: url,
    clientId: textOf(value('client_id')),
    clientAuthentication: isBasic ? 'basic' : 'body',
    ...(Array.isArray(scopes) && scopes.length > 0 ? { scope: scopes.map(textOf).join(' ') } : {}),
    ...(Object.keys(parameters).length > 0 ? { parameters: texts(parameters) } : {}),
  };
  const secret = {
    client_secret: textOf(value('client_secret')),
    ...(grant === 'refresh_token' ? { refresh_token: textOf(value('refresh_token')) } : {}),
  };
  return fixedAuth(auth, secret);
}

const texts = (fields: Plain): Plain =>
  Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, textOf(value)]));

const text = (value: unknown, scope: Scope): string => textOf(evaluateAll(value ?? '', scope));

/** A token for a login, which is a request of its own. */
function login(authenticator: Plain, scope: Scope, open: Scope): TranslatedAuth {
  const { login_requester: requester, session_token_path: path, request_authentication: use } = authenticator;
  const {
    url_base: base,
    path: loginPath,
    request_body_json: body,
    request_body_data: form,
    http_method: method,
  } = requester as Plain;
  const real = scopeWith(requester as Plain, open);
  const end = text(loginPath, real).replace(/^\/+/, '');
  const full = end === '' ? text(base, real) : `${text(base, real).replace(/\/+$/, '')}/${end}`;
  if (!URL.canParse(full)) throw new Untranslatable('a URL that is none');
  const headers = loginHeaders(requester as Plain, scope);
  const { type, inject_into: option } = use as Plain;
  const { inject_into: place, field_name: name } = (option ?? {}) as Plain;
  if (type !== 'Bearer' && place !== 'header') throw new Untranslatable('a token in the URL');
  const send = type === 'Bearer' ? { Authorization: 'Bearer {token}' } : { [String(name)]: '{token}' };
  const fields = (given: unknown) =>
    Object.fromEntries(
      Object.entries(evaluateAll(given, scope) as Plain).map(([key, value]) => [key, secretText(value)]),
    );
  const auth = {
    kind: 'login',
    ...(method === 'POST' && isPlain(body) ? { body: fields(body) } : {}),
    ...(method === 'POST' && !isPlain(body) ? { form: fields(form ?? {}) } : {}),
    ...(Object.keys(headers).length > 0 ? { headers } : {}),
    token: `/${(path as readonly string[]).join('/')}`,
    send,
  };
  return {
    withParts: (others, query) => {
      if (Object.keys(query ?? {}).length > 0) throw new Untranslatable('a secret beside a token');
      return { ...auth, send: { ...send, ...others } };
    },
    secret: { ...flatten(open.config), ...basicOf(requester as Plain, real) },
    login: new URL(full),
  };
}

/** The headers of a login. Those without a secret are of the client. A user encodes a name and a password. */
function loginHeaders({ authenticator, request_headers: given }: Plain, scope: Scope): Plain {
  const texts = Object.entries(evaluateAll(given ?? {}, scope) as Plain).map(
    ([name, value]) => [name, secretText(value)] as const,
  );
  const own = Object.fromEntries(texts.filter(([, header]) => header.includes('{secret')));
  const { type } = (authenticator ?? {}) as Plain;
  if (type === 'BasicHttpAuthenticator') return { ...own, Authorization: 'Basic {secret.basic}' };
  if (type === 'ApiKeyAuthenticator') {
    const key = (authenticator as Plain).api_token;
    const [headers, query] = placeOf(authenticator as Plain, scope, secretText(evaluateAll(key, scope)));
    if (Object.keys(query).length > 0) throw new Untranslatable('a login with a key in its URL');
    return { ...own, ...headers };
  }
  if (type !== undefined && type !== 'NoAuth') throw new Untranslatable('a login with other credentials');
  return own;
}

/** The field `basic` of the secret, if a login has a name and a password in its header. */
function basicOf({ authenticator }: Plain, open: Scope): Plain {
  const { type, username, password } = (authenticator ?? {}) as Plain;
  const pair = `${text(username, open)}:${text(password, open)}`;
  return type === 'BasicHttpAuthenticator' ? { basic: Buffer.from(pair).toString('base64') } : {};
}
