/**
 * Recognizes errors of a connection that usually mean a wrong setting: a host name that does not exist, a port that refuses
 * connections, or a certificate that is not trusted. During an outage, the same errors may occur.
 */

/** OpenSSL's results of a verification, as Node.js names them (nodejs.org/api/tls.html, "X509 certificate error codes"). */
const certificateErrors: ReadonlySet<string> = new Set([
  'CERT_CHAIN_TOO_LONG',
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'CERT_REJECTED',
  'CERT_REVOKED',
  'CERT_SIGNATURE_FAILURE',
  'CERT_UNTRUSTED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'ERR_TLS_CERT_ALTNAME_FORMAT',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'HOSTNAME_MISMATCH',
  'INVALID_CA',
  'INVALID_PURPOSE',
  'PATH_LENGTH_EXCEEDED',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

/** The name was looked up and does not exist. `EAI_AGAIN` is not one of them: the name server did not answer. */
const unknownHostErrors: ReadonlySet<string> = new Set(['ENOTFOUND', 'ENODATA', 'EAI_NODATA', 'EAI_NONAME']);

/** Who is connected to. */
export interface Server {
  /** The beginning of a sentence. */
  readonly name: string;
  /** The setting with its address. */
  readonly setting: string;
}

export const reportService: Server = { name: 'Report service', setting: 'baseUrl' };

/** What the error code of a failed connection means, and what to check; undefined for any other code. */
export function explainUnreachable(
  code: string,
  { setting } = reportService,
): { readonly problem: string; readonly remedy: string } | undefined {
  if (unknownHostErrors.has(code)) {
    return { problem: `has a host name that does not exist (${code})`, remedy: `Check the host name in ${setting}` };
  }
  if (code === 'ECONNREFUSED') {
    return {
      problem: `refused the connection (${code})`,
      remedy: `Check the host name and the port in ${setting}, and that the service is running`,
    };
  }
  if (certificateErrors.has(code)) {
    return {
      problem: `presented a certificate that is not trusted (${code})`,
      remedy: `Check the host name in ${setting}, and the certificate of the service: its issuer, its names and its validity`,
    };
  }
  // An internal error of the server's TLS implementation may be temporary.
  if (code.startsWith('ERR_SSL_') && code !== 'ERR_SSL_TLSV1_ALERT_INTERNAL_ERROR') {
    return {
      problem: `did not complete the TLS handshake (${code})`,
      remedy: `Check that the port in ${setting} expects https, and which TLS versions the service supports`,
    };
  }
  return undefined;
}
