/** Explains errors of proxies and certificates, and says which setting helps. */

import { codeOf, type ErrorName } from '../../core/errors.ts';
import { ProxyError } from './tunnel.ts';
import { explainUnreachable, type Server } from './unreachable.ts';

export interface NetworkProblem {
  readonly name: ErrorName;
  /** A sentence about the request `label` to `server`. */
  readonly message: (label: string, server: Server) => string;
}

/**
 * The alerts with which a server rejects a client certificate, or the lack of one, by OpenSSL's names. Others, such as
 * `handshake_failure`, have other causes, too.
 */
const clientCertificateAlerts =
  /^ERR_SSL_.+_ALERT_(ACCESS_DENIED|BAD_CERTIFICATE|CERTIFICATE_(EXPIRED|REQUIRED|REVOKED|UNKNOWN)|UNKNOWN_CA|UNSUPPORTED_CERTIFICATE)$/;
const handshakeFailure = /^ERR_SSL_.+_ALERT_HANDSHAKE_FAILURE$/;
/** Closed or reset by the other side. */
const closedConnection: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET']);
const certificateSettings =
  'On AWS, check the secret in tls.clientCertificateSecret; on this machine, the files in tls.clientCertificate and tls.clientKey';

/** Whether other credentials of the connection might be accepted. */
export const rejectsCredentials = (error: unknown): boolean =>
  clientCertificateAlerts.test(codeOf(error)) || (error instanceof ProxyError && error.status === 407);

/**
 * Whether the error may mean that a client certificate was rejected: some servers, such as those of Node.js, send no alert,
 * or it is lost because the request is being sent already.
 */
export const mayRejectCredentials = (error: unknown): boolean =>
  handshakeFailure.test(codeOf(error)) || closedConnection.has(codeOf(error));

/**
 * A TLS connection that was closed before it brought any data; undefined for other errors. In TLS 1.3, a server rejects a
 * client certificate when the client has completed its side of the handshake, and has begun to send the request.
 */
export function explainClosedHandshake(
  error: unknown,
): { readonly problem: string; readonly remedy: string } | undefined {
  const code = codeOf(error);
  if (!closedConnection.has(code) || bytesReceived(error) > 0) return undefined;
  return {
    problem: `closed the connection during or right after the TLS handshake (${code})`,
    remedy:
      `It probably requires a client certificate, or does not accept the one that was sent. ${certificateSettings}. ` +
      'If it requires none, it may be down, or a load balancer before it',
  };
}

/** Of the response, on the connection that failed, as undici and the connection pool note it; 0 without a connection. */
function bytesReceived(error: unknown): number {
  const { socket } = error as { readonly socket?: { readonly bytesRead?: number } | null };
  return socket?.bytesRead ?? 0;
}

/** Undefined for an error that has nothing to do with a proxy or a client certificate. */
export function explainNetworkError(error: unknown): NetworkProblem | undefined {
  if (error instanceof ProxyError) return explainProxyError(error);
  const code = codeOf(error);
  if (!clientCertificateAlerts.test(code)) return undefined;
  return {
    name: 'ConfigurationError',
    message: (label, { name }) =>
      `${name} did not accept the client certificate, or requires one, for ${label} (${code}). ${certificateSettings}`,
  };
}

function explainProxyError({ origin, code, status, hadCredentials }: ProxyError): NetworkProblem {
  const proxy = `Proxy ${origin}`;
  if (code.startsWith('HPE_')) {
    return {
      name: 'ServiceUnreachableError',
      message: (label) =>
        `${origin} is not an HTTP proxy: it did not answer CONNECT for ${label} with HTTP (${code}). Check proxyUrl`,
    };
  }
  if (status === undefined) {
    return {
      name: explainUnreachable(code) === undefined ? 'ServiceUnavailableError' : 'ServiceUnreachableError',
      message: (label) =>
        `${proxy} cannot be reached for ${label} (${code}). Check proxyUrl, or the variable HTTPS_PROXY, and that the proxy is running`,
    };
  }
  const responded = (label: string) => `${proxy} responded with ${status} to CONNECT for ${label}`;
  if (status === 407) {
    const credentials = 'proxyCredentialsSecret; on this machine, in the variable HTTPS_PROXY';
    const remedy = hadCredentials
      ? `it rejected the credentials. On AWS, correct the secret in ${credentials}`
      : `it requires credentials. On AWS, set ${credentials}`;
    return { name: 'ConfigurationError', message: (label) => `${responded(label)}: ${remedy}` };
  }
  // What proxies answer if they cannot reach the service.
  if (status === 502 || status === 503 || status === 504) {
    return {
      name: 'ServiceUnreachableError',
      message: (label, { setting }) =>
        `${responded(label)}: it could not connect to the service. Check the host name and the port in ${setting}, and that the proxy can reach it`,
    };
  }
  const isTemporary = status >= 500 || status === 408 || status === 429;
  return isTemporary
    ? {
        name: 'ServiceUnavailableError',
        message: (label) => `${responded(label)}: it has no connection to the service`,
      }
    : {
        name: 'ConfigurationError',
        message: (label) =>
          `${responded(label)}: it does not allow connections to the service. Have the service's host and port allowed there, or check proxyUrl`,
      };
}

/** What to do about a certificate of the service that is not trusted, or a failed handshake; empty for other errors. */
export function certificateRemedy(error: unknown): string {
  const code = codeOf(error);
  if (handshakeFailure.test(code)) {
    return `. It may require a client certificate, or support other TLS versions only. ${certificateSettings}`;
  }
  return untrustedIssuer.has(code)
    ? '. If a private certificate authority issued its certificate, set tls.ca to that authority'
    : '';
}

const untrustedIssuer: ReadonlySet<string> = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);
