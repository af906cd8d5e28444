/**
 * Maps errors of the connection to errors of the export. Nearly always a retry helps; but a response that is not HTTP,
 * or whose headers are too large, breaks the contract; a service that cannot be reached may have another address; and
 * credentials of a proxy or a client certificate may be wrong.
 */

import { codeOf, type ErrorName, ExportError } from '../../core/errors.ts';
import type { Timeouts } from '../network/network.ts';
import { ProxyError } from '../network/tunnel.ts';
import { type ErrorContext, failure, type Server } from './errors.ts';

export const maxResponseHeaderBytes = 16 * 1024;

interface Circumstances {
  readonly isLate: boolean;
  readonly timeouts: Timeouts;
  /** How much of the body was received; undefined before the headers. */
  readonly bytesRead: number | undefined;
}

/** The parts of `Report service refused the connection (ECONNREFUSED) for page 1. Check …`. */
interface Explanation {
  /** Default: ServiceUnavailableError. */
  readonly name?: ErrorName;
  /** Default: the server. */
  readonly who?: string;
  readonly problem: string;
  readonly remedy?: string;
}

/**
 * The error to throw for an error of undici. A truncated response may raise an error without a code, so anything
 * unknown counts as a broken connection.
 */
export function connectionError(context: ErrorContext, error: unknown, circumstances: Circumstances): unknown {
  const { isLate, timeouts, bytesRead } = circumstances;
  // The request cannot be built.
  if (error instanceof ExportError) return error;
  const code = transportCode(error, bytesRead);
  // Not caused by the service, and not helped by a retry: the client was closed, or called undici wrongly.
  if (/^UND_ERR_(DESTROYED|CLOSED|INVALID_ARG)$/.test(code)) return error;
  const { name, who, problem, remedy }: Explanation = isLate
    ? { problem: `took longer than ${timeouts.totalTimeout} ms in total` }
    : explain(error, code, context.server, circumstances);
  const place = bytesRead === undefined ? `for ${context.label}` : `after ${bytesRead} bytes of ${context.label}`;
  const message = `${who ?? context.server.name} ${problem} ${place}${remedy === undefined ? '' : `. ${remedy}`}`;
  return failure(context, name ?? 'ServiceUnavailableError', message, { cause: error });
}

const closedConnection = /^(ECONNRESET|EPIPE|UND_ERR_SOCKET)$/;
const handshakeFailure = /^ERR_SSL_.+_ALERT_HANDSHAKE_FAILURE$/;
/**
 * The alerts with which a server rejects a client certificate, or the lack of one, by OpenSSL's names. Others, such as
 * `handshake_failure`, have other causes, too.
 */
const clientCertificateAlerts =
  /^ERR_SSL_.+_ALERT_(ACCESS_DENIED|BAD_CERTIFICATE|CERTIFICATE_(EXPIRED|REQUIRED|REVOKED|UNKNOWN)|UNKNOWN_CA|UNSUPPORTED_CERTIFICATE)$/;

/** Whether other credentials of the connection might be accepted. */
export const rejectsCredentials = (error: unknown): boolean =>
  clientCertificateAlerts.test(codeOf(error)) || (error instanceof ProxyError && error.status === 407);

/**
 * Whether the error may mean that a client certificate was rejected: some servers, such as those of Node.js, send no
 * alert, or it is lost because the request is being sent already.
 */
export const mayRejectCredentials = (error: unknown): boolean =>
  handshakeFailure.test(codeOf(error)) || closedConnection.test(codeOf(error));

/** undici's code. Parser errors have none: `NOT_HTTP` stands for those that mean more than a lost connection. */
function transportCode(error: unknown, bytesRead: number | undefined): string {
  if (!(error instanceof Error)) return '';
  const code = codeOf(error);
  if (error.name === 'HTTPParserError') return error.message.includes('Invalid EOF state') ? '' : 'NOT_HTTP';
  // For some malformed responses, undici raises this before there is a body whose length could mismatch.
  if (code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH' && bytesRead === undefined) return 'NOT_HTTP';
  return code;
}

function explain(
  error: unknown,
  code: string,
  { base, setting }: Server,
  { timeouts, bytesRead }: Circumstances,
): Explanation {
  if (error instanceof ProxyError) return explainProxyError(error, setting);
  if (clientCertificateAlerts.test(code)) {
    const problem = `did not accept the client certificate, or requires one (${code})`;
    return { name: 'ConfigurationError', problem, remedy: certificateSettings };
  }
  switch (code) {
    case 'UND_ERR_CONNECT_TIMEOUT':
      return { problem: `did not accept a connection within ${timeouts.connectTimeout} ms` };
    case 'UND_ERR_HEADERS_TIMEOUT':
      return { problem: `sent no response within ${timeouts.headersTimeout} ms` };
    case 'UND_ERR_BODY_TIMEOUT':
      return { problem: `sent no data for ${timeouts.bodyTimeout} ms` };
    case 'UND_ERR_HEADERS_OVERFLOW':
      return invalid(`sent more than ${maxResponseHeaderBytes} bytes of headers`);
    case 'NOT_HTTP':
      return invalid(`sent a response that is not valid HTTP (${parserProblem(error)})`);
  }
  // TLS errors during the body mean a broken connection: its certificate was accepted.
  if (bytesRead !== undefined) return { problem: 'closed the connection' };
  // In TLS 1.3, a server rejects a client certificate when the client has completed its side of the handshake.
  const isHandshake = base.protocol === 'https:' && closedConnection.test(code) && bytesReceived(error) === 0;
  const cause = isHandshake ? closedHandshake : unreachable.find(({ codes }) => codes.test(code));
  if (cause === undefined) return { problem: `did not respond (${code || 'no error code'})` };
  const remedy = cause.remedy.replace('{setting}', setting);
  return { name: 'ServiceUnreachableError', problem: `${cause.problem} (${code})`, remedy };
}

const invalid = (problem: string): Explanation => ({
  name: 'ContractError',
  problem,
  remedy: 'Send this message to the operators of the service, or of a proxy or load balancer before it',
});

/** The parser's error, in its own words only. After a content-length, undici reports a mismatch of lengths instead. */
function parserProblem(error: unknown): string {
  const [, reason] = /\(([\w ,'/.-]+)\)$/.exec(error instanceof Error ? error.message : '') ?? [];
  return (
    reason ?? 'malformed headers, or more than one length: content-length twice, or together with transfer-encoding'
  );
}

/** Bytes of the response on the connection that failed, as undici and the pool note them; 0 without a connection. */
const bytesReceived = (error: unknown): number =>
  (error as { readonly socket?: { readonly bytesRead?: number } | null }).socket?.bytesRead ?? 0;

const certificateSettings =
  'On AWS, check the secret in tls.clientCertificateSecret; on this machine, the files in tls.clientCertificate and tls.clientKey';

const closedHandshake = {
  problem: 'closed the connection during or right after the TLS handshake',
  remedy:
    `It probably requires a client certificate, or does not accept the one that was sent. ${certificateSettings}. ` +
    'If it requires none, it may be down, or a load balancer before it',
};

const untrusted = {
  problem: 'presented a certificate that is not trusted',
  remedy:
    'Check the host name in {setting}, and the certificate of the service: its issuer, its names and its validity',
};
const noHandshake = {
  problem: 'did not complete the TLS handshake',
  remedy: 'Check that the port in {setting} expects https, and which TLS versions the service supports',
};
/** Errors that usually mean a wrong setting, although an outage may cause them, too. The first match counts. */
const unreachable: readonly { readonly codes: RegExp; readonly problem: string; readonly remedy: string }[] = [
  {
    // The name was looked up. `EAI_AGAIN` is none of them: the name server did not answer.
    codes: /^(ENOTFOUND|ENODATA|EAI_NODATA|EAI_NONAME)$/,
    problem: 'has a host name that does not exist',
    remedy: 'Check the host name in {setting}',
  },
  {
    codes: /^ECONNREFUSED$/,
    problem: 'refused the connection',
    remedy: 'Check the host name and the port in {setting}, and that the service is running',
  },
  // OpenSSL's results of a verification, as Node.js names them (nodejs.org/api/tls.html, "X509 certificate error
  // codes").
  {
    codes:
      /^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_GET_ISSUER_CERT(_LOCALLY)?|UNABLE_TO_VERIFY_LEAF_SIGNATURE)$/,
    problem: untrusted.problem,
    remedy: `${untrusted.remedy}. If a private certificate authority issued its certificate, set tls.ca to that authority`,
  },
  {
    codes:
      /^(CERT_(CHAIN_TOO_LONG|HAS_EXPIRED|NOT_YET_VALID|REJECTED|REVOKED|SIGNATURE_FAILURE|UNTRUSTED)|ERR_TLS_CERT_ALTNAME_(FORMAT|INVALID)|HOSTNAME_MISMATCH|INVALID_(CA|PURPOSE)|PATH_LENGTH_EXCEEDED)$/,
    ...untrusted,
  },
  {
    codes: handshakeFailure,
    problem: noHandshake.problem,
    remedy: `${noHandshake.remedy}. It may require a client certificate. ${certificateSettings}`,
  },
  // An internal error of the server's TLS implementation may be temporary.
  { codes: /^ERR_SSL_(?!TLSV1_ALERT_INTERNAL_ERROR$)/, ...noHandshake },
];

function explainProxyError({ origin, code, status, hadCredentials }: ProxyError, setting: string): Explanation {
  if (code === 'NOT_HTTP') {
    const problem = 'is not an HTTP proxy: it did not answer CONNECT with HTTP';
    return { name: 'ServiceUnreachableError', who: origin, problem, remedy: 'Check proxyUrl' };
  }
  const ofProxy = (name: ErrorName | undefined, problem: string, remedy: string): Explanation => ({
    name,
    who: `Proxy ${origin}`,
    problem,
    remedy,
  });
  if (status === undefined) {
    const name = unreachable.some(({ codes }) => codes.test(code)) ? 'ServiceUnreachableError' : undefined;
    const remedy = 'Check proxyUrl, or the variable HTTPS_PROXY, and that the proxy is running';
    return ofProxy(name, `cannot be reached (${code})`, remedy);
  }
  const responded = `responded with ${status} to CONNECT`;
  if (status === 407) {
    const advice = hadCredentials
      ? 'It rejected the credentials. On AWS, correct the secret in'
      : 'It requires credentials. On AWS, set';
    const place = 'proxyCredentialsSecret; on this machine, in the variable HTTPS_PROXY';
    return ofProxy('ConfigurationError', responded, `${advice} ${place}`);
  }
  // What proxies answer if they cannot reach the service.
  if (status === 502 || status === 503 || status === 504) {
    const remedy = `It could not connect to the service. Check the host name and the port in ${setting}, and that the proxy can reach it`;
    return ofProxy('ServiceUnreachableError', responded, remedy);
  }
  if (status >= 500 || status === 408 || status === 429) {
    return ofProxy(undefined, responded, 'It has no connection to the service');
  }
  const remedy =
    "It does not allow connections to the service. Have the service's host and port allowed there, or check proxyUrl";
  return ofProxy('ConfigurationError', responded, remedy);
}
