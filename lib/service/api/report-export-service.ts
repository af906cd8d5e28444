/** The description of the Report Export Service (docs/service-contract.md, sections 2.1 and 4.1). */

import type { Auth } from './auth/kinds.ts';
import type { Send } from './auth/send.ts';
import type { Description } from './description.ts';

export const defaultVendor = 'SERVICE';

/** The header names for a vendor: the request's as documented, the response's in lower case, as undici returns it. */
const headerNames = (vendor = defaultVendor): { readonly apiKey: string; readonly cursor: string } => ({
  apiKey: `X-${vendor}-API-KEY`,
  cursor: `x-${vendor.toLowerCase()}-cursor`,
});

export interface ReportExportSettings {
  readonly vendor?: string | undefined;
  readonly send?: Send | undefined;
  readonly cursorIn?: 'query' | 'body' | undefined;
  readonly filterUntil?: string | undefined;
  readonly format?: string | undefined;
  readonly container?: string | undefined;
}

/** `send` names other headers, such as that of a gateway, or fields of a secret in JSON. */
export const authOfReportExport = ({ vendor, send }: Pick<ReportExportSettings, 'vendor' | 'send'>): Auth => ({
  kind: 'key',
  send: send ?? { [headerNames(vendor).apiKey]: '{secret}' },
});

/** The contract names no status of a page, so any success is one, except 206: a part that was not requested. */
const success = Array.from({ length: 100 }, (_, index) => 200 + index).filter((status) => status !== 206);

/** The cursor is sent in one place only, and with it, the body of every page is the same. */
export function reportExportService(settings: ReportExportSettings): Description {
  const { vendor, send, cursorIn, filterUntil, format = 'XML', container = 'NONE' } = settings;
  const body = { filter: '{filter}', format: '{format}', container: '{container}', size: '{size}' };
  const isXml = format === 'XML' && container === 'NONE';
  const status = success as (200 | 201)[];
  return {
    request: { method: 'POST', path: '/v1/report/export', body },
    headers: {},
    dates: 'iso',
    auth: authOfReportExport({ vendor, send }),
    next: {
      from: 'header',
      at: headerNames(vendor).cursor,
      to: cursorIn === 'body' ? { body: '/cursor' } : { query: 'cursor' },
    },
    page: isXml ? { format: 'xml', types: ['application/xml'], status } : { format: 'bytes', types: [], status },
    filterUntil,
    settings: { address: 'baseUrl', fields: 'filter and size', cursorSettings: 'cursorIn' },
  };
}
