/** Signature Version 4, as far as requests without an SDK client need it. */

import { createHash, createHmac } from 'node:crypto';
import { credentials, region } from '../emulators/ministack.ts';

export interface PlainRequest {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The headers of `request`, with its signature. The query of `url` must be sorted and encoded. */
export function signedHeaders(
  service: string,
  url: URL,
  { method, headers, body }: PlainRequest,
): Record<string, string> {
  const now = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, '');
  const all: Record<string, string> = { ...headers, host: url.host, 'x-amz-date': now };
  const names = Object.keys(all).sort();
  const canonical = [
    method,
    url.pathname,
    url.search.slice(1),
    ...names.map((name) => `${name}:${all[name]}`),
    '',
    names.join(';'),
    sha256(body),
  ].join('\n');
  const scope = [now.slice(0, 8), region, service, 'aws4_request'];
  const key = scope.reduce<string | Buffer>((secret, part) => hmac(secret, part), `AWS4${credentials.secretAccessKey}`);
  const signature = hmac(key, ['AWS4-HMAC-SHA256', now, scope.join('/'), sha256(canonical)].join('\n')).toString('hex');
  const credential = `Credential=${credentials.accessKeyId}/${scope.join('/')}`;
  const authorization = `AWS4-HMAC-SHA256 ${credential}, SignedHeaders=${names.join(';')}, Signature=${signature}`;
  return { ...all, authorization };
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest();
