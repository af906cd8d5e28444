/** How the API of a manifest issues tokens, and which headers and parameters prove who asks. */

import type { VendorRequest, VendorResponse } from './vendor.ts';
import { evaluateAll, evaluateText, isPlain, type Plain, type Scope, textOf } from './templates.ts';
import { scopeWith } from './requests.ts';

const issued = 'a-token-that-the-vendor-issued';

const json = (status: number, document: unknown): VendorResponse => ({
  status,
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(document),
});

/** Where the server of this machine has a URL of another host than the API's. */
export const placeOfHost = ({ host, pathname, search }: URL): string => `/host/${host}${pathname}${search}`;

/** The response to a request for a token, or to one without credentials; undefined for others. */
export function tokenResponse(
  authenticator: Plain | undefined,
  request: VendorRequest,
  { scope: outer, apiHost }: { readonly scope: Scope; readonly apiHost: string },
): VendorResponse | undefined {
  if (authenticator === undefined) return undefined;
  const scope = scopeWith(authenticator, outer);
  const text = (value: unknown) => textOf(evaluateAll(value ?? '', scope) ?? undefined);
  if (authenticator.type === 'OAuthAuthenticator') {
    const url = new URL(text(authenticator.token_refresh_endpoint));
    if (request.target === placeOfHost(url) && request.method === 'POST') {
      const problem = problemOfGrant(authenticator, request, text);
      if (problem !== undefined) return json(401, { error: problem });
      return json(200, { access_token: issued, [text(authenticator.expires_in_name ?? 'expires_in')]: 3_600 });
    }
  }
  if (authenticator.type === 'SessionTokenAuthenticator') {
    const { login_requester: requester, session_token_path: place } = authenticator;
    const login = requester as Plain;
    const url = loginUrlOf(login, text);
    const target = url.host === apiHost ? `${url.pathname}${url.search}` : placeOfHost(url);
    if (request.target === target && request.method === login.http_method) {
      if (!isLogin(request, login, scope)) return json(401, { error: 'The login is another one' });
      return json(
        200,
        (place as readonly string[]).reduceRight<unknown>((inner, name) => ({ [name]: inner }), issued),
      );
    }
  }
  const key = keyInQuery(authenticator, outer);
  if (key !== undefined && new URL(request.target, 'http://vendor').searchParams.get(key.name) !== key.value)
    return json(401, { error: `The parameter ${key.name} is another one` });
  for (const [name, value] of Object.entries(headersOf(authenticator, scope, text))) {
    if (request.headers[name.toLowerCase()] !== value) return json(401, { error: `The header ${name} is another one` });
  }
  return undefined;
}

function loginUrlOf({ url_base: base, path }: Plain, text: (value: unknown) => string): URL {
  const end = text(path).replace(/^\/+/, '');
  return new URL(end === '' ? text(base) : `${text(base).replace(/\/+$/, '')}/${end}`);
}

/** Whether a request has the body and the key of the login. */
function isLogin({ body, headers, method }: VendorRequest, login: Plain, scope: Scope): boolean {
  const text = (value: unknown) => textOf(evaluateAll(value ?? '', scope) ?? undefined);
  const key = isPlain(login.authenticator) ? headersOf(login.authenticator, scope, text) : {};
  if (Object.entries(key).some(([name, value]) => headers[name.toLowerCase()] !== value)) return false;
  if (method !== 'POST') return true;
  const { request_body_json: document, request_body_data: form } = login;
  if (isPlain(document)) return body === JSON.stringify(evaluateAll(document, scope));
  const fields = Object.entries(evaluateAll(form ?? {}, scope) as Plain).map(([name, value]) => [name, textOf(value)]);
  return body === new URLSearchParams(Object.fromEntries(fields) as Record<string, string>).toString();
}

/** The parameter of the URL that has the key. */
export function keyInQuery(
  authenticator: Plain | undefined,
  outer: Scope,
): { readonly name: string; readonly value: string } | undefined {
  const { type, header, inject_into: option, api_token: token } = authenticator ?? {};
  const { inject_into: place, field_name: name } = (option ?? {}) as Plain;
  if (authenticator === undefined || type !== 'ApiKeyAuthenticator') return undefined;
  if (header !== undefined || place !== 'request_parameter') return undefined;
  const scope = scopeWith(authenticator, outer);
  return {
    name: String(evaluateText(String(name), scope)),
    value: textOf(evaluateAll(token ?? '', scope) ?? undefined),
  };
}

function problemOfGrant(
  authenticator: Plain,
  { body, headers }: VendorRequest,
  text: (value: unknown) => string,
): string | undefined {
  const form = new URLSearchParams(body);
  const isBasic =
    isPlain(authenticator.refresh_request_headers) &&
    Object.keys(authenticator.refresh_request_headers).some((name) => name.toLowerCase() === 'authorization');
  const grant = text(authenticator.grant_type ?? 'refresh_token');
  if (form.get('grant_type') !== grant) return 'The grant is another one';
  if (grant === 'refresh_token' && form.get('refresh_token') !== text(authenticator.refresh_token))
    return 'The refresh token is another one';
  const [id, secret] = [text(authenticator.client_id), text(authenticator.client_secret)];
  if (isBasic) return headers.authorization?.startsWith('Basic ') === true ? undefined : 'The client is another one';
  return form.get('client_id') === id && form.get('client_secret') === secret ? undefined : 'The client is another one';
}

function headersOf(authenticator: Plain, scope: Scope, text: (value: unknown) => string): Record<string, string> {
  switch (authenticator.type) {
    case 'BearerAuthenticator':
      return { authorization: `Bearer ${text(authenticator.api_token)}` };
    case 'OAuthAuthenticator':
      return { authorization: `Bearer ${issued}` };
    case 'BasicHttpAuthenticator':
      return {
        authorization: `Basic ${Buffer.from(`${text(authenticator.username)}:${text(authenticator.password)}`).toString('base64')}`,
      };
    case 'ApiKeyAuthenticator': {
      if (keyInQuery(authenticator, scope) !== undefined) return {};
      const option = (authenticator.inject_into ?? {}) as Plain;
      const name = String(evaluateText(String(authenticator.header ?? option.field_name), scope));
      return { [name]: text(authenticator.api_token) };
    }
    case 'SessionTokenAuthenticator': {
      const { type, inject_into: option } = authenticator.request_authentication as Plain;
      return type === 'Bearer'
        ? { authorization: `Bearer ${issued}` }
        : { [String((option as Plain).field_name)]: issued };
    }
    default:
      return {};
  }
}
