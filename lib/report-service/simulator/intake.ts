/** Receives a request and decides whether it may be answered with a page: key, path, method, media type and size, in this order. */

import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { Refusal } from './refusal.ts';
import { type ExportRequest, readExportRequest } from './request.ts';

const exportPath = '/v1/report/export';
const bodyLimit = 64 * 1_024;

export interface Incoming {
  readonly method: string;
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  /** undefined where it is over the limit; then it was read to its end and dropped, so that the client hears the answer. */
  readonly body: Buffer | undefined;
}

/** Reads the request whole. @throws if the client goes away meanwhile */
export async function receive(request: IncomingMessage): Promise<Incoming> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size <= bodyLimit) chunks.push(chunk);
  }
  const { method = '', url = '', headers } = request;
  return { method, target: url, headers, body: size > bodyLimit ? undefined : Buffer.concat(chunks) };
}

/**
 * What is asked for. `keyHeader` is in lower case: node:http has made all names so, and any case will do (contract, naming note).
 * @throws Refusal
 */
export function admit(incoming: Incoming, keyHeader: string, apiKey: string): ExportRequest {
  const key = incoming.headers[keyHeader];
  if (typeof key !== 'string' || !sameSecret(key, apiKey)) {
    throw new Refusal('unauthorized', `The header ${keyHeader} is missing or does not hold a valid key`);
  }
  const url = URL.parse(incoming.target, 'http://127.0.0.1');
  if (url?.pathname !== exportPath) throw new Refusal('not_found', `There is only ${exportPath} here`);
  if (incoming.method !== 'POST') throw new Refusal('method_not_allowed', 'Reports are exported by POST');
  if (incoming.body === undefined) throw new Refusal('body_too_large', `The body is over ${bodyLimit} bytes`);
  if (!/^application\/json *(;|$)/i.test(incoming.headers['content-type'] ?? '')) {
    throw new Refusal('unsupported_media_type', 'The content-type must be application/json');
  }
  return readExportRequest(url.searchParams, parsedJson(incoming.body));
}

/** The body as JSON where it is JSON, otherwise as text. */
export function shownBody({ body }: Incoming): unknown {
  try {
    return body && parsedJson(body);
  } catch {
    return body?.toString();
  }
}

function parsedJson(body: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch (cause) {
    throw new Refusal('invalid_json', 'The body is not JSON in UTF-8', { cause });
  }
}

/** Compares in constant time, whatever the lengths. */
function sameSecret(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
