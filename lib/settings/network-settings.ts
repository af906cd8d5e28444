/**
 * How requests reach the service: through a proxy, with other certificate authorities than the public ones, with a client
 * certificate, with further headers. The settings name secrets, files and environment variables; they contain no secret.
 */

import * as z from 'zod/mini';
import { checkedText, optionalField, text, variableName } from './fields.ts';

// Without its suffix, an ARN is accepted by Secrets Manager, but never matches the ARN in a policy.
export const secretIdPattern =
  /^(arn:[a-z-]+:secretsmanager:[a-z0-9-]+:\d{12}:secret:[A-Za-z0-9/_+=.@-]{1,505}-[A-Za-z0-9]{6}|[A-Za-z0-9/_+=.@-]{1,512})$/;
export const secretIdProblem =
  'must be the name of a secret, or its complete ARN, which ends with a hyphen and six random characters';
const secretIdSchema = text(secretIdPattern, secretIdProblem);

const proxyUrlSchema = checkedText((text) => {
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol)) {
    return 'must be the URL of an HTTP proxy, such as http://proxy.example.com:3128';
  }
  const url = new URL(text);
  if (url.username !== '' || url.password !== '') {
    return 'must not contain a user or password: on AWS, set proxyCredentialsSecret; on this machine, the variable HTTPS_PROXY';
  }
  return url.pathname === '/' && url.search === '' && url.hash === ''
    ? undefined
    : 'must not contain a path, query or fragment';
});

const maxHeaderBytes = 4_096;

/** Names that the exporter or the connection sets, and those that change which response is returned. */
const reservedHeader =
  /^(accept(-encoding)?|connection|content-.*|date|expect|host|if-.*|keep-alive|proxy-.*|range|te|trailer|transfer-encoding|upgrade|user-agent|x-.*-cursor)$/;
/** Their values are secrets, but settings are stored in the template. */
const credentialHeader = /^(authorization|cookie|proxy-authorization|x-(.*-)?api-key)$/;

export const headerNamePattern = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/;

/** Whether the exporter or the connection sets the header. A vendor's own, such as `X-…-Cursor`, is not among them. */
export const isConnectionHeader = (name: string): boolean =>
  reservedHeader.test(name.toLowerCase()) && !/^x-/i.test(name);

/** Whether the header is for a secret. */
export const isCredentialHeader = (name: string): boolean => credentialHeader.test(name.toLowerCase());

function findHeaderProblem(name: string, value: string): string | undefined {
  if (!headerNamePattern.test(name)) return 'is not a valid header name';
  const lowerName = name.toLowerCase();
  if (credentialHeader.test(lowerName))
    return 'must not be set: it holds a credential, and these headers are not secret';
  if (reservedHeader.test(lowerName)) return 'must not be set: the exporter or the connection sets it';
  return headerValue.test(value) ? undefined : headerValueProblem;
}

const headerValue = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/;
const headerValueProblem = 'must be printable ASCII characters, without white space at the beginning or end';

const headersSchema = z.record(z.string(), z.string()).check(
  z.superRefine((headers, context) => {
    const names = new Set<string>();
    for (const [name, value] of Object.entries(headers)) {
      const message = names.has(name.toLowerCase())
        ? 'is already set in another spelling'
        : findHeaderProblem(name, value);
      if (message !== undefined) context.addIssue({ code: 'custom', path: [name], message });
      names.add(name.toLowerCase());
    }
    const bytes = Object.entries(headers).reduce((sum, [name, value]) => sum + name.length + value.length + 4, 0);
    if (bytes > maxHeaderBytes) {
      context.addIssue({ code: 'custom', message: `must be at most ${maxHeaderBytes} bytes in total` });
    }
  }),
);

const maxCaCharacters = 65_536;

/** Whether the text is a certificate or a key itself, instead of the path of a file. */
export const isPem = (text: string): boolean => text.includes('-----BEGIN');

const maxPathLength = 4_096;
const isPath = (text: string) => text.length <= maxPathLength && /^[^\0\r\n]+$/.test(text);

const pathSchema = checkedText((text) =>
  isPath(text) && !isPem(text) ? undefined : 'must be the path of a PEM file, not its content',
);

const tlsSchema = z
  .strictObject({
    ca: optionalField(
      'The only certificate authorities that are trusted: PEM text, or the path of a PEM file, relative to the settings file. Without it, the public ones.',
      checkedText((text) => {
        if (text.length > maxCaCharacters) return `must be at most ${maxCaCharacters} characters`;
        return isPem(text) || isPath(text) ? undefined : 'must be PEM text, or the path of a PEM file';
      }),
      { example: 'certificates/ca.pem' },
    ),
    clientCertificateSecret: optionalField(
      'On AWS: the name or the complete ARN of a secret, whose JSON has the fields `cert`, `key` and, for an encrypted key, `passphrase`.',
      secretIdSchema,
      { example: 'acme/client-certificate' },
    ),
    clientCertificate: optionalField(
      'On this machine: the path of a PEM file with the client certificate, relative to the settings file.',
      pathSchema,
      { example: 'certificates/client.pem' },
    ),
    clientKey: optionalField(
      'On this machine: the path of a PEM file with the key of the client certificate.',
      pathSchema,
      { example: 'certificates/client.key' },
    ),
    clientKeyPassphraseEnv: optionalField(
      'On this machine: the environment variable with the passphrase of the key. Never the passphrase itself.',
      variableName('passphrase'),
      { example: 'ACME_KEY_PASSPHRASE' },
    ),
  })
  .check(
    z.superRefine(({ clientCertificate, clientKey, clientKeyPassphraseEnv }, context) => {
      const addMissing = (field: string, other: string) =>
        context.addIssue({ code: 'custom', path: [field], message: `is required with ${other}` });
      if (clientCertificate !== undefined && clientKey === undefined) addMissing('clientKey', 'clientCertificate');
      if (clientKey !== undefined && clientCertificate === undefined) addMissing('clientCertificate', 'clientKey');
      if (clientKeyPassphraseEnv !== undefined && clientKey === undefined)
        addMissing('clientKey', 'clientKeyPassphraseEnv');
    }),
  );

export const networkFields = {
  proxyUrl: optionalField(
    'An HTTP proxy, http or https, through which the service is requested. It must not contain credentials.',
    proxyUrlSchema,
    {
      example: 'http://proxy.example.com:3128',
      page: 'network.md#a-proxy',
    },
  ),
  proxyCredentialsSecret: optionalField(
    'On AWS: the name or the complete ARN of a secret, whose JSON has the fields `username` and `password` for the proxy.',
    secretIdSchema,
    { example: 'acme/proxy', page: 'network.md#a-proxy' },
  ),
  tls: optionalField('Certificates of the connection to the service.', tlsSchema, { page: 'network.md#a-private-ca' }),
  headers: optionalField(
    'Further headers of every request, at most 4096 bytes. They are not secret: the template contains them.',
    headersSchema,
    { example: { 'X-Tenant': 'acme' }, page: 'network.md#headers' },
  ),
  userAgent: optionalField(
    'The header `User-Agent` of every request, at most 256 characters. Without it, `report-exporter`.',
    text(headerValue, headerValueProblem).check(z.maxLength(256, 'must have at most 256 characters')),
    { example: 'report-exporter (team-finance@example.com)', page: 'network.md#headers' },
  ),
};
export type TlsSettings = z.infer<typeof tlsSchema>;

export type HeaderSettings = Pick<NetworkSettings, 'headers' | 'userAgent'>;

/** The headers of every request that no request determines. */
export const commonHeaders = ({ headers, userAgent = 'report-exporter' }: HeaderSettings) => ({
  ...headers,
  'user-agent': userAgent,
});

export type NetworkSettings = {
  readonly [Field in keyof typeof networkFields]?: z.infer<(typeof networkFields)[Field]> | undefined;
};
