/** A small S3 over HTTP: conditional writes, uploads in parts, and listings. Independent servers are used, too. */

import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { listen } from '../service/loopback.ts';

interface Content {
  /** Empty if bodies are not kept. */
  readonly body: Buffer;
  readonly bytes: number;
  /** Lower-case hexadecimal. */
  readonly sha256: string;
}

interface StoredObject extends Pick<Content, 'body' | 'bytes'> {
  /** The headers of the request that are part of the object. */
  readonly headers: Readonly<Record<string, string>>;
  readonly etag: string;
  /** The parts of a multipart upload. */
  readonly parts?: readonly Content[];
}

interface Upload {
  readonly path: string;
  readonly headers: StoredObject['headers'];
  readonly parts: Map<number, Content>;
}

interface Answer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string | number>>;
  readonly body?: string | Buffer;
}

export interface LocalS3 {
  /** By `bucket/key`. */
  readonly objects: Map<string, StoredObject>;
  /** In order: operation and status, such as `UploadPart 200`. */
  readonly requests: string[];
  /** Uploads neither completed nor aborted. */
  readonly uploads: Map<string, Upload>;
  readonly respond: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
}

export function createS3({ keepsBodies = true } = {}): LocalS3 {
  const objects: LocalS3['objects'] = new Map();
  const uploads: LocalS3['uploads'] = new Map();
  const requests: string[] = [];

  /** undefined if the request states another checksum. Chunks of a signed stream are kept as they are. */
  async function receive(request: IncomingMessage): Promise<Content | undefined> {
    const hash = createHash('sha256');
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of request as AsyncIterable<Buffer>) {
      hash.update(chunk);
      bytes += chunk.length;
      if (keepsBodies) chunks.push(chunk);
    }
    const content = { body: Buffer.concat(chunks), bytes, sha256: hash.digest('hex') };
    const { 'x-amz-checksum-sha256': checksum = base64Of(content) } = request.headers;
    return checksum === base64Of(content) ? content : undefined;
  }

  function create(path: string, object: StoredObject, condition: IncomingHttpHeaders): Answer {
    const existing = objects.get(path);
    const isMet =
      condition['if-none-match'] === '*'
        ? existing === undefined
        : condition['if-match'] === undefined || existing?.etag === condition['if-match'];
    if (!isMet) return failure(412, 'PreconditionFailed');
    objects.set(path, object);
    return { headers: { etag: object.etag } };
  }

  function read(path: string, { headers }: IncomingMessage): Answer {
    const object = objects.get(path);
    if (object === undefined) return failure(404, 'NoSuchKey');
    const { 'x-amz-checksum-sha256': checksum, ...metadata } = object.headers;
    const isWanted = checksum !== undefined && headers['x-amz-checksum-mode'] === 'ENABLED';
    const checksums = { 'x-amz-checksum-sha256': checksum ?? '', 'x-amz-checksum-type': 'FULL_OBJECT' };
    return {
      headers: { ...metadata, ...(isWanted && checksums), etag: object.etag, 'content-length': object.bytes },
      body: object.body,
    };
  }

  /** In the order of the keys. The continuation token is the last key or folder. */
  function list(bucket: string, parameters: URLSearchParams): Answer {
    const prefix = parameters.get('prefix') ?? '';
    const delimiter = parameters.get('delimiter');
    const start = `${bucket}/${prefix}`;
    const entries = [...objects.keys()]
      .filter((path) => path.startsWith(start))
      .map((path) => {
        const end = delimiter === null ? -1 : path.indexOf(delimiter, start.length);
        return path.slice(bucket.length + 1, end === -1 ? undefined : end + 1);
      });
    const left = [...new Set(entries)].sort().filter((entry) => entry > (parameters.get('continuation-token') ?? ''));
    const listed = left.slice(0, Number(parameters.get('max-keys') ?? 1_000));
    const elements = listed.map((entry) => {
      const object = objects.get(`${bucket}/${entry}`);
      if (object === undefined) return `<CommonPrefixes><Prefix>${entry}</Prefix></CommonPrefixes>`;
      return `<Contents><Key>${entry}</Key><Size>${object.bytes}</Size><ETag>${object.etag}</ETag></Contents>`;
    });
    const isTruncated = listed.length < left.length;
    const next = isTruncated ? `<NextContinuationToken>${listed.at(-1)}</NextContinuationToken>` : '';
    return {
      body: `<ListBucketResult><IsTruncated>${isTruncated}</IsTruncated>${next}${elements.join('')}</ListBucketResult>`,
    };
  }

  type Operation = (path: string, request: IncomingMessage, query: URLSearchParams) => Answer | Promise<Answer>;
  const uploadOf = (query: URLSearchParams) => uploads.get(query.get('uploadId') ?? '');
  const operations: Readonly<Record<string, Operation>> = {
    HeadBucket: () => ({}),
    ListObjectsV2: (path, _, query) => list(path.replace(/\/$/, ''), query),
    HeadObject: read,
    GetObject: read,
    async PutObject(path, request) {
      const content = await receive(request);
      if (content === undefined) return failure(400, 'BadDigest');
      const { body, bytes } = content;
      const object = { body, bytes, headers: keptHeaders(request.headers), etag: etagOf(content) };
      return create(path, object, request.headers);
    },
    CreateMultipartUpload(path, { headers }) {
      const id = randomUUID();
      uploads.set(id, { path, headers: keptHeaders(headers), parts: new Map() });
      return { body: `<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>` };
    },
    async UploadPart(_, request, query) {
      const part = await receive(request);
      const upload = uploadOf(query);
      if (upload === undefined) return failure(404, 'NoSuchUpload');
      if (part === undefined) return failure(400, 'BadDigest');
      upload.parts.set(Number(query.get('partNumber')), part);
      return { headers: { etag: etagOf(part), 'x-amz-checksum-sha256': base64Of(part) } };
    },
    async CompleteMultipartUpload(_, request, query) {
      const upload = uploadOf(query);
      if (upload === undefined) return failure(404, 'NoSuchUpload');
      const listed = partsIn(await text(request));
      const parts = listed.flatMap(({ number }) => upload.parts.get(number) ?? []);
      const isMatch = listed.every(({ number, etag, checksum }, index) => {
        const part = parts[index];
        return part !== undefined && number === index + 1 && etag === etagOf(part) && checksum === base64Of(part);
      });
      if (!isMatch || listed.length === 0 || listed.length < upload.parts.size) return failure(400, 'InvalidPart');
      const bytes = parts.reduce((sum, part) => sum + part.bytes, 0);
      const etag = `"${createHash('md5').update(parts.map(etagOf).join()).digest('hex')}-${parts.length}"`;
      const object = {
        body: Buffer.concat(parts.map(({ body }) => body)),
        bytes,
        headers: upload.headers,
        etag,
        parts,
      };
      const created = create(upload.path, object, request.headers);
      if (created.status === undefined) uploads.delete(query.get('uploadId') ?? '');
      return {
        body: `<CompleteMultipartUploadResult><ETag>${etag}</ETag></CompleteMultipartUploadResult>`,
        ...created,
      };
    },
    AbortMultipartUpload: (_, __, query) =>
      uploads.delete(query.get('uploadId') ?? '') ? { status: 204 } : failure(404, 'NoSuchUpload'),
  };

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://s3');
    const path = decodeURIComponent(pathname.slice(1));
    const operation = operationOf(request.method, path, searchParams);
    const answer = await operations[operation]?.(path, request, searchParams);
    const { status = 200, headers, body } = answer ?? failure(501, 'NotImplemented');
    request.resume();
    requests.push(`${operation} ${status}`);
    const type = body === undefined || Buffer.isBuffer(body) ? {} : { 'content-type': 'application/xml' };
    // S3 sends this header for HEAD as well. Without any length, the connection would have to end.
    const framing = status >= 400 ? { 'transfer-encoding': 'chunked' } : {};
    response.writeHead(status, { ...type, ...framing, ...headers });
    response.end(request.method === 'HEAD' ? undefined : body);
  }
  return { objects, requests, uploads, respond };
}

function operationOf(method = '', path: string, query: URLSearchParams): string {
  if (query.has('list-type')) return 'ListObjectsV2';
  if (!path.includes('/')) return 'HeadBucket';
  if (method === 'POST') return query.has('uploads') ? 'CreateMultipartUpload' : 'CompleteMultipartUpload';
  if (method === 'PUT') return query.has('partNumber') ? 'UploadPart' : 'PutObject';
  return { HEAD: 'HeadObject', GET: 'GetObject', DELETE: 'AbortMultipartUpload' }[method] ?? method;
}

const failure = (status: number, code: string): Answer => ({
  status,
  body: `<Error><Code>${code}</Code><Message>${code}</Message></Error>`,
});

const base64Of = ({ sha256 }: Content) => Buffer.from(sha256, 'hex').toString('base64');
const etagOf = ({ sha256 }: Content) => `"${sha256.slice(0, 32)}"`;

const keptHeaders = (headers: IncomingHttpHeaders) =>
  Object.fromEntries(
    Object.entries(headers).filter(([name]) =>
      /^(x-amz-meta-.*|content-type|x-amz-checksum-sha256|x-amz-storage-class|x-amz-tagging)$/.test(name),
    ),
  ) as Record<string, string>;

function partsIn(xml: string) {
  const within = (part: string, tag: string) =>
    (new RegExp(`<${tag}>([^<]*)</${tag}>`).exec(part)?.[1] ?? '').replaceAll('&quot;', '"');
  return [...xml.matchAll(/<Part>(.*?)<\/Part>/gs)].map(([, part = '']) => ({
    number: Number(within(part, 'PartNumber')),
    etag: within(part, 'ETag'),
    checksum: within(part, 'ChecksumSHA256'),
  }));
}

export async function startS3(options: Parameters<typeof createS3>[0] = {}) {
  const s3 = createS3(options);
  const server = await listen(createServer((request, response) => void s3.respond(request, response)));
  return { ...s3, ...server };
}
