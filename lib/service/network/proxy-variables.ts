/**
 * The proxy in the standard variables HTTPS_PROXY and NO_PROXY, with the rules of curl: the lower-case name comes
 * first, and an empty variable means no proxy. HTTP_PROXY is for http, which only services on the loopback interface
 * have. As in Go, those are never requested through a proxy.
 *
 * Not with a library: proxy-from-env reads the variables of the process and does not apply `example.com` to subdomains,
 * and undici has the rule only inside an agent that opens its own tunnels.
 */

import { ExportError } from '../../core/errors.ts';
import type { Proxy } from './network.ts';
import { isLoopback } from '../../core/schema/fields.ts';

const variables = ['https_proxy', 'HTTPS_PROXY'] as const;

/** @throws ConfigurationError, without the value, which may contain a password */
export function proxyFromVariables(baseUrl: string, env: NodeJS.ProcessEnv): Proxy | undefined {
  const url = new URL(baseUrl);
  if (isLoopback(url.hostname) || url.hostname.endsWith('.localhost')) return undefined;
  const name = variables.find((each) => env[each] !== undefined);
  const value = name && env[name]?.trim();
  if (!name || !value || isExcluded(url, env.no_proxy ?? env.NO_PROXY ?? '')) return undefined;
  return parseProxy(value, name);
}

/** The credentials for `origin` in the variables, which can have them for a proxy that a setting names. */
export function proxyCredentialsFor(origin: string, env: NodeJS.ProcessEnv): Proxy['credentials'] {
  return variables
    .map((name) => ({ name, value: (env[name] ?? '').trim() }))
    .filter(({ value }) => parseUrl(value)?.origin === origin)
    .map(({ name, value }) => parseProxy(value, name).credentials)
    .find((credentials) => credentials !== undefined);
}

/** The scheme may be missing, as in curl. Without it, `user:` would pass for one. */
const parseUrl = (value: string): URL | null =>
  URL.parse(/^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? value : `http://${value}`);

function parseProxy(value: string, name: string): Proxy {
  const url = parseUrl(value);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new ExportError(
      'ConfigurationError',
      `The environment variable ${name} is not the URL of an HTTP proxy. Set it to one, such as http://proxy.example.com:3128, or remove it`,
    );
  }
  const { origin, username, password } = url;
  if (username === '' && password === '') return { origin };
  try {
    return {
      origin,
      credentials: { username: decodeURIComponent(username), password: decodeURIComponent(password) },
    };
  } catch {
    throw new ExportError(
      'ConfigurationError',
      `The environment variable ${name} has credentials that are not percent-encoded correctly. Encode each % in them as %25`,
    );
  }
}

/** Whether a list such as `localhost,.example.com,10.1.2.3:8443` excludes the host of `url`. */
function isExcluded(url: URL, list: string): boolean {
  const host = withoutBrackets(url.hostname).replace(/\.$/, '');
  const port = url.port || '443';
  return list
    .toLowerCase()
    .split(/[\s,]+/)
    .filter(Boolean)
    .some((entry) => {
      const [, name = entry, entryPort] = /^(\[.+\]|[^:]+):(\d+)$/.exec(entry) ?? [];
      if (entryPort !== undefined && entryPort !== port) return false;
      if (name === '*') return true;
      const isOnlySubdomains = name.startsWith('*.');
      const domain = withoutBrackets(name)
        .replace(/^\*?\./, '')
        .replace(/\.$/, '');
      return (!isOnlySubdomains && host === domain) || host.endsWith(`.${domain}`);
    });
}

const withoutBrackets = (host: string) => host.replace(/^\[(.+)\]$/, '$1');
