/**
 * An S3 endpoint that creates objects of any size, and keeps their lengths and hashes but no bytes. Prints its address and
 * serves until it is killed. `GET /` returns the requests it got and the objects it has.
 */

import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

interface PartRecord {
  readonly bytes: number;
  /** Lower-case hexadecimal. */
  readonly sha256: string;
}

interface ObjectRecord {
  readonly etag: string;
  /** One if it was not a multipart upload. */
  readonly parts: readonly PartRecord[];
  readonly bytes: number;
  /** Names without the prefix `x-amz-meta-`. */
  readonly metadata: Readonly<Record<string, string>>;
}

export interface S3Record {
  /** In order: operation and status, such as `UploadPart 200`. */
  readonly requests: readonly string[];
  /** By `bucket/key`. */
  readonly objects: Readonly<Record<string, ObjectRecord>>;
  /** Uploads neither completed nor aborted. */
  readonly unfinishedUploads: number;
}

interface Upload {
  readonly key: string;
  readonly metadata: ObjectRecord['metadata'];
  readonly parts: Map<number, PartRecord>;
}

interface S3Response {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

const requests: string[] = [];
const objects = new Map<string, ObjectRecord>();
const uploads = new Map<string, Upload>();

const operations: Readonly<Record<string, (request: IncomingMessage, url: URL) => S3Response | Promise<S3Response>>> = {
  HeadObject(_, url) {
    const object = objects.get(keyOf(url));
    if (object === undefined) return { status: 404 };
    const metadata = Object.entries(object.metadata).map(([name, value]) => [`x-amz-meta-${name}`, value]);
    const { etag, bytes } = object;
    return { status: 200, headers: { ...Object.fromEntries(metadata), etag, 'content-length': String(bytes) } };
  },

  async PutObject(request, url) {
    const part = await hashBody(request);
    if (part === undefined) return errorResponse(400, 'BadDigest');
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
    if (upload === undefined) return errorResponse(404, 'NoSuchUpload');
    const part = await hashBody(request);
    if (part === undefined) return errorResponse(400, 'BadDigest');
    upload.parts.set(Number(searchParams.get('partNumber')), part);
    return { status: 200, headers: { etag: etagOf(part), 'x-amz-checksum-sha256': base64Of(part) } };
  },

  async CompleteMultipartUpload(request, { searchParams }) {
    const id = searchParams.get('uploadId') ?? '';
    const upload = uploads.get(id);
    if (upload === undefined) return errorResponse(404, 'NoSuchUpload');
    const listed = partsIn(await text(request));
    const parts = listed.map(({ number }) => upload.parts.get(number));
    const stored = parts.filter((part) => part !== undefined);
    const isMatch = listed.every(({ number, etag, checksum }, index) => {
      const part = parts[index];
      return part !== undefined && number === index + 1 && etag === etagOf(part) && checksum === base64Of(part);
    });
    if (!isMatch || stored.length === 0 || stored.length < upload.parts.size) return errorResponse(400, 'InvalidPart');
    const bytes = stored.reduce((sum, part) => sum + part.bytes, 0);
    const created = create(request, upload.key, { parts: stored, bytes, metadata: upload.metadata });
    if (created.status === 200) uploads.delete(id);
    const etag = `<ETag>${created.headers?.etag}</ETag>`;
    return {
      ...created,
      body: created.body ?? `<CompleteMultipartUploadResult>${etag}</CompleteMultipartUploadResult>`,
    };
  },

  AbortMultipartUpload(_, { searchParams }) {
    return { status: uploads.delete(searchParams.get('uploadId') ?? '') ? 204 : 404 };
  },
};

/** Requires `If-None-Match: *`. */
function create({ headers }: IncomingMessage, key: string, content: Omit<ObjectRecord, 'etag'>): S3Response {
  if (headers['if-none-match'] !== '*') return errorResponse(400, 'InvalidRequest');
  if (objects.has(key)) return errorResponse(412, 'PreconditionFailed');
  const etag = `"${randomUUID()}"`;
  objects.set(key, { ...content, etag });
  return { status: 200, headers: { etag } };
}

/** Length and hash of the body; undefined unless the request states the same length and checksum. */
async function hashBody(request: IncomingMessage): Promise<PartRecord | undefined> {
  const { headers } = request;
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    hash.update(chunk);
    bytes += chunk.length;
  }
  const part = { bytes, sha256: hash.digest('hex') };
  const isPlain = !String(headers['content-encoding'] ?? '').includes('aws-chunked');
  const isMatch = Number(headers['content-length']) === bytes && headers['x-amz-checksum-sha256'] === base64Of(part);
  return isPlain && isMatch ? part : undefined;
}

const base64Of = ({ sha256 }: Pick<PartRecord, 'sha256'>) => Buffer.from(sha256, 'hex').toString('base64');
const etagOf = ({ sha256 }: Pick<PartRecord, 'sha256'>) => `"${sha256.slice(0, 32)}"`;

function metadataIn(headers: IncomingHttpHeaders): ObjectRecord['metadata'] {
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

const errorResponse = (status: number, code: string): S3Response => ({
  status,
  body: `<Error><Code>${code}</Code><Message>${code}</Message></Error>`,
});

function operationOf({ method }: IncomingMessage, { searchParams }: URL): string {
  if (method === 'HEAD') return 'HeadObject';
  if (method === 'POST') return searchParams.has('uploads') ? 'CreateMultipartUpload' : 'CompleteMultipartUpload';
  if (method === 'PUT') return searchParams.has('partNumber') ? 'UploadPart' : 'PutObject';
  return method === 'DELETE' ? 'AbortMultipartUpload' : String(method);
}

async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '', 'http://s3');
  if (request.method === 'GET' && url.pathname === '/') {
    const state: S3Record = { requests, objects: Object.fromEntries(objects), unfinishedUploads: uploads.size };
    response.end(JSON.stringify(state));
    return;
  }
  const operation = operationOf(request, url);
  const { status, headers, body } =
    (await operations[operation]?.(request, url)) ?? errorResponse(501, 'NotImplemented');
  request.resume();
  requests.push(`${operation} ${status}`);
  response.writeHead(status, { 'content-type': 'application/xml', ...headers });
  response.end(request.method === 'HEAD' ? undefined : body);
}

const server = createServer((request, response) => {
  respond(request, response).catch(() => response.destroy());
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
