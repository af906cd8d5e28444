/** The client's timeouts and size limit, taken from the settings. */

import type { ServiceSettings } from '../../settings/settings.ts';

export interface Limits {
  readonly connectTimeoutMs: number;
  /** From sending the request to receiving the response's headers. */
  readonly headersTimeoutMs: number;
  /** Between two chunks of the body. */
  readonly bodyTimeoutMs: number;
  /** For the whole request, including the body. */
  readonly totalTimeoutMs: number;
  readonly maxPageBytes: number;
}

export function limitsOf(settings: Omit<ServiceSettings, 'baseUrl'>): Limits {
  return {
    connectTimeoutMs: settings.connectTimeout,
    headersTimeoutMs: settings.headersTimeout,
    bodyTimeoutMs: settings.bodyTimeout,
    totalTimeoutMs: settings.totalTimeout,
    maxPageBytes: settings.maxPageBytes,
  };
}
