/**
 * How requests reach the service: through a proxy, with other certificate authorities than the public ones, with a
 * client certificate, with further headers. The settings name secrets, files and environment variables; they contain no
 * secret.
 */

import * as z from 'zod/mini';
import {
  checkedText,
  findBroken,
  object,
  optionalField,
  text,
  validEntries,
  variableName,
  withoutProblems,
} from '../core/schema/fields.ts';
import {
  headerValuePattern,
  headerValueProblem,
  problemIfRepeated,
  problemOfHeaderName,
} from '../service/api/header-names.ts';

// Without its suffix, an ARN is accepted by Secrets Manager, but never matches the ARN in a policy.
export const secretIdPattern =
  /^(arn:[a-z-]+:secretsmanager:[a-z0-9-]+:\d{12}:secret:[A-Za-z0-9/_+=.@-]{1,505}-[A-Za-z0-9]{6}|[A-Za-z0-9/_+=.@-]{1,512})$/;
export const secretIdProblem =
  'must be the name of a secret, or its complete ARN, which ends with a hyphen and six random characters';
const secretIdSchema = text(secretIdPattern, secretIdProblem);

const proxyUrlSchema = checkedText((address) => {
  const url = URL.parse(address);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    return 'must be the URL of an HTTP proxy, such as http://proxy.example.com:3128';
  }
  if (url.username !== '' || url.password !== '') {
    return 'must not contain a user or password: on AWS, set proxyCredentialsSecret; on this machine, the variable HTTPS_PROXY';
  }
  const isOrigin = url.pathname === '/' && url.search === '' && url.hash === '';
  return isOrigin ? undefined : 'must not contain a path, query or fragment';
});

const maxFurtherHeaderBytes = 4_096;

const problemOfHeader = (name: string, value: string, headers: object): string | undefined =>
  problemIfRepeated(name, headers) ??
  problemOfHeaderName(name) ??
  (headerValuePattern.test(value) ? undefined : headerValueProblem);

const isSmall = (headers: Readonly<Record<string, string>>): boolean =>
  Object.entries(headers).reduce((sum, [name, value]) => sum + name.length + value.length + 4, 0) <=
  maxFurtherHeaderBytes;

const headersSchema = z
  .record(z.string(), z.string())
  .check(validEntries(problemOfHeader), z.refine(isSmall, `must be at most ${maxFurtherHeaderBytes} bytes in total`));

/** Whether the text is a certificate or a key itself, instead of the path of a file. */
export const isPem = (text: string): boolean => text.includes('-----BEGIN');
const isPath = (text: string) => text.length <= 4_096 && /^[^\0\r\n]+$/.test(text) && !isPem(text);

const caSchema = checkedText((ca) =>
  isPath(ca) || (isPem(ca) && ca.length <= 65_536) ? undefined : 'must be PEM text, or the path of a PEM file',
);
const pathSchema = checkedText((path) =>
  isPath(path) ? undefined : 'must be the path of a PEM file, not its content',
);

const tlsSchema = object({
  ca: optionalField(
    'The only trusted certificate authorities: PEM text, or the path of a PEM file, relative to the settings file. Without it, the public ones.',
    caSchema,
    { example: 'certificates/ca.pem' },
  ),
  clientCertificateSecret: optionalField(
    'On AWS: the name or complete ARN of a secret with the JSON fields `cert`, `key` and, for an encrypted key, `passphrase`.',
    secretIdSchema,
    { example: 'acme/client-certificate' },
  ),
  clientCertificate: optionalField(
    'On this machine: the PEM file of the client certificate, relative to the settings file.',
    pathSchema,
    { example: 'certificates/client.pem' },
  ),
  clientKey: optionalField('On this machine: the PEM file of its key.', pathSchema, {
    example: 'certificates/client.key',
  }),
  clientKeyPassphraseEnv: optionalField(
    'On this machine: the environment variable with the passphrase of the key.',
    variableName('passphrase'),
    { example: 'ACME_KEY_PASSPHRASE' },
  ),
}).check(
  withoutProblems(({ clientCertificate, clientKey, clientKeyPassphraseEnv }) =>
    findBroken([
      [['clientCertificate'], !clientCertificate && Boolean(clientKey), 'is required with clientKey'],
      [
        ['clientKey'],
        !clientKey && Boolean(clientCertificate ?? clientKeyPassphraseEnv),
        'is required with clientCertificate',
      ],
    ]),
  ),
);

/** Fields of a service that say how its requests are sent. */
export const networkFields = {
  proxyUrl: optionalField(
    'The HTTP proxy (http or https) in front of the service, without credentials.',
    proxyUrlSchema,
    {
      example: 'http://proxy.example.com:3128',
      page: 'aws.md#a-proxy',
    },
  ),
  proxyCredentialsSecret: optionalField(
    'On AWS: the name or complete ARN of a secret with the JSON fields `username` and `password`.',
    secretIdSchema,
    { example: 'acme/proxy', page: 'aws.md#a-proxy' },
  ),
  tls: optionalField('Certificates of the connection to the service.', tlsSchema, { page: 'aws.md#a-private-ca' }),
  headers: optionalField(
    'Further headers of every request, at most 4096 bytes. They must not be secret.',
    headersSchema,
    { example: { 'X-Tenant': 'acme' } },
  ),
  userAgent: optionalField(
    'The header `User-Agent` of every request, at most 256 characters. Without it, `report-exporter`.',
    text(headerValuePattern, headerValueProblem).check(z.maxLength(256, 'must have at most 256 characters')),
    { example: 'report-exporter (team-finance@example.com)' },
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
