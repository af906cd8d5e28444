/** How long the client waits and how much it takes, as settings have it. */

import type { ServiceSettings } from '../../core/settings/settings.ts';

export interface Limits {
  readonly connectTimeoutMs: number;
  /** From the request sent to the answer's headers. */
  readonly headersTimeoutMs: number;
  /** Between two chunks of the body. */
  readonly bodyTimeoutMs: number;
  /** Over the whole request, body included. */
  readonly totalTimeoutMs: number;
  readonly maxPageBytes: number;
}

export function limitsOf(settings: Omit<ServiceSettings, 'baseUrl' | 'vendor' | 'cursorIn'>): Limits {
  return {
    connectTimeoutMs: settings.connectTimeout,
    headersTimeoutMs: settings.headersTimeout,
    bodyTimeoutMs: settings.bodyTimeout,
    totalTimeoutMs: settings.totalTimeout,
    maxPageBytes: settings.maxPageBytes,
  };
}
