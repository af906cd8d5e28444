/**
 * S3, as far as creating an object is concerned, for objects of any size: it keeps lengths and hashes and never a byte.
 * Says its address and answers until it is killed; a GET of `/` tells what it was asked and what it holds.
 */

import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

interface SwallowedPart {
  readonly bytes: number;
  /** Lower-case hexadecimal. */
  readonly sha256: string;
}

interface SwallowedObject {
  readonly etag: string;
  /** One, where it was sent whole. */
  readonly parts: readonly SwallowedPart[];
  readonly bytes: number;
  /** Without their prefix. */
  readonly metadata: Readonly<Record<string, string>>;
}

export interface Swallowed {
  /** In order: the operation's name and how it was answered, such as `UploadPart 200`. */
  readonly asked: readonly string[];
  /** By `bucket/key`. */
  readonly objects: Readonly<Record<string, SwallowedObject>>;
  /** Uploads neither completed nor aborted. */
  readonly unfinished: number;
}

interface Unfinished {
  readonly key: string;
  readonly metadata: SwallowedObject['metadata'];
  readonly parts: Map<number, SwallowedPart>;
}

interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

const asked: string[] = [];
const objects = new Map<string, SwallowedObject>();
const uploads = new Map<string, Unfinished>();

const operations: Readonly<Record<string, (request: IncomingMessage, url: URL) => Answer | Promise<Answer>>> = {
  HeadObject(_, url) {
    const object = objects.get(keyOf(url));
    if (object === undefined) return { status: 404 };
    const metadata = Object.entries(object.metadata).map(([name, value]) => [`x-amz-meta-${name}`, value]);
    const { etag, bytes } = object;
    return { status: 200, headers: { ...Object.fromEntries(metadata), etag, 'content-length': String(bytes) } };
  },

  async PutObject(request, url) {
    const part = await swallow(request);
    if (part === undefined) return refusal(400, 'BadDigest');
    return create(request, keyOf(url), { parts: [part], bytes: part.bytes, metadata: metadataIn(request.headers) });
  },

  CreateMultipartUpload(request, url) {
    const id = randomUUID();
    uploads.set(id, { key: keyOf(url), metadata: metadataIn(request.headers), parts: new Map() });
    return {
      status: 200,
      body: `<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`,
    };
  },

  async UploadPart(request, { searchParams }) {
    const upload = uploads.get(searchParams.get('uploadId') ?? '');
    if (upload === undefined) return refusal(404, 'NoSuchUpload');
    const part = await swallow(request);
    if (part === undefined) return refusal(400, 'BadDigest');
    upload.parts.set(Number(searchParams.get('partNumber')), part);
    return { status: 200, headers: { etag: etagOf(part), 'x-amz-checksum-sha256': base64Of(part) } };
  },

  async CompleteMultipartUpload(request, { searchParams }) {
    const id = searchParams.get('uploadId') ?? '';
    const upload = uploads.get(id);
    if (upload === undefined) return refusal(404, 'NoSuchUpload');
    const named = partsIn(await text(request));
    const parts = named.map(({ number }) => upload.parts.get(number));
    const whole = parts.filter((part) => part !== undefined);
    const fits = named.every(({ number, etag, checksum }, index) => {
      const part = parts[index];
      return part !== undefined && number === index + 1 && etag === etagOf(part) && checksum === base64Of(part);
    });
    if (!fits || whole.length === 0 || whole.length < upload.parts.size) return refusal(400, 'InvalidPart');
    const bytes = whole.reduce((sum, part) => sum + part.bytes, 0);
    const answer = create(request, upload.key, { parts: whole, bytes, metadata: upload.metadata });
    if (answer.status === 200) uploads.delete(id);
    const etag = `<ETag>${answer.headers?.etag}</ETag>`;
    return { ...answer, body: answer.body ?? `<CompleteMultipartUploadResult>${etag}</CompleteMultipartUploadResult>` };
  },

  AbortMultipartUpload(_, { searchParams }) {
    return { status: uploads.delete(searchParams.get('uploadId') ?? '') ? 204 : 404 };
  },
};

/** If-None-Match is the one way an object comes into being here; whoever leaves it out is refused. */
function create({ headers }: IncomingMessage, key: string, made: Omit<SwallowedObject, 'etag'>): Answer {
  if (headers['if-none-match'] !== '*') return refusal(400, 'InvalidRequest');
  if (objects.has(key)) return refusal(412, 'PreconditionFailed');
  const etag = `"${randomUUID()}"`;
  objects.set(key, { ...made, etag });
  return { status: 200, headers: { etag } };
}

/** The body's length and hash; undefined where they are not what the request says of it, or where it says nothing. */
async function swallow(request: IncomingMessage): Promise<SwallowedPart | undefined> {
  const { headers } = request;
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    hash.update(chunk);
    bytes += chunk.length;
  }
  const part = { bytes, sha256: hash.digest('hex') };
  const isPlain = !String(headers['content-encoding'] ?? '').includes('aws-chunked');
  const fits = Number(headers['content-length']) === bytes && headers['x-amz-checksum-sha256'] === base64Of(part);
  return isPlain && fits ? part : undefined;
}

const base64Of = ({ sha256 }: Pick<SwallowedPart, 'sha256'>) => Buffer.from(sha256, 'hex').toString('base64');
const etagOf = ({ sha256 }: Pick<SwallowedPart, 'sha256'>) => `"${sha256.slice(0, 32)}"`;

function metadataIn(headers: IncomingHttpHeaders): SwallowedObject['metadata'] {
  const prefix = 'x-amz-meta-';
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      name.startsWith(prefix) ? [[name.slice(prefix.length), String(value)]] : [],
    ),
  );
}

function partsIn(xml: string) {
  const within = (part: string, tag: string) =>
    (new RegExp(`<${tag}>([^<]*)</${tag}>`).exec(part)?.[1] ?? '').replaceAll('&quot;', '"');
  return [...xml.matchAll(/<Part>(.*?)<\/Part>/gs)].map(([, part = '']) => ({
    number: Number(within(part, 'PartNumber')),
    etag: within(part, 'ETag'),
    checksum: within(part, 'ChecksumSHA256'),
  }));
}

/** The bucket's name, a slash, and the object's key. */
const keyOf = ({ pathname }: URL) => decodeURIComponent(pathname.slice(1));

const refusal = (status: number, code: string): Answer => ({
  status,
  body: `<Error><Code>${code}</Code><Message>${code}</Message></Error>`,
});

function operationOf({ method }: IncomingMessage, { searchParams }: URL): string {
  if (method === 'HEAD') return 'HeadObject';
  if (method === 'POST') return searchParams.has('uploads') ? 'CreateMultipartUpload' : 'CompleteMultipartUpload';
  if (method === 'PUT') return searchParams.has('partNumber') ? 'UploadPart' : 'PutObject';
  return method === 'DELETE' ? 'AbortMultipartUpload' : String(method);
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '', 'http://s3');
  if (request.method === 'GET' && url.pathname === '/') {
    const told: Swallowed = { asked, objects: Object.fromEntries(objects), unfinished: uploads.size };
    response.end(JSON.stringify(told));
    return;
  }
  const operation = operationOf(request, url);
  const { status, headers, body } = (await operations[operation]?.(request, url)) ?? refusal(501, 'NotImplemented');
  request.resume();
  asked.push(`${operation} ${status}`);
  response.writeHead(status, { 'content-type': 'application/xml', ...headers });
  response.end(request.method === 'HEAD' ? undefined : body);
}

const server = createServer((request, response) => {
  answer(request, response).catch(() => response.destroy());
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
