/** Signature Version 4, as far as the tests' own requests need it: for services they have no SDK client for. */

import { createHash, createHmac } from 'node:crypto';
import { credentials, region } from '../emulators/ministack.ts';

export interface PlainRequest {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The headers of `request` to `url`, signed. Its query must be in alphabetical order and encoded. */
export function signed(service: string, url: URL, { method, headers, body }: PlainRequest): Record<string, string> {
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
