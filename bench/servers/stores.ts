/**
 * A process: a local DynamoDB and S3 that hold one run, and know no more than the functions ask: its state, its
 * entries, its listing, the API key, and uploads, whose bytes are discarded. All pages of the run are logged and
 * stored; none is, if it has slices.
 */

import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { entryItem, listedPage, pageAtPosition, type SlicedRun, stateItem } from './run-of-pages.ts';

const { pages = 0, slicedRun } = JSON.parse(process.argv[2] ?? '{}') as {
  readonly pages?: number;
  readonly slicedRun?: SlicedRun;
};

/** A Query returns at most a megabyte, and a listing at most a thousand keys. */
const maxQueryBytes = 1_000_000;
const maxKeys = 1_000;

let state = stateItem(slicedRun);

interface DynamoRequest {
  readonly Item: typeof state;
  readonly ExclusiveStartKey?: { readonly sk: { readonly S: string } };
  readonly ScanIndexForward?: boolean;
  readonly Limit?: number;
}

async function respondAsDynamoDb(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const operation = String(request.headers['x-amz-target']).split('.')[1];
  const input = (await json(request)) as DynamoRequest;
  response.setHeader('content-type', 'application/x-amz-json-1.0');
  if (operation === 'Query') {
    response.end(pages === 0 ? '{"Items":[],"Count":0}' : queryResponse(input));
    return;
  }
  if (operation === 'GetSecretValue') {
    response.end(JSON.stringify({ SecretString: JSON.stringify({ apiKey: 'bench' }) }));
    return;
  }
  if (operation === 'PutItem' && input.Item.sk?.S === 'state') state = input.Item;
  response.end(JSON.stringify(operation === 'GetItem' ? { Item: state } : {}));
}

function queryResponse({
  ExclusiveStartKey,
  ScanIndexForward = true,
  Limit = Number.POSITIVE_INFINITY,
}: DynamoRequest): string {
  if (!ScanIndexForward) return `{"Items":[${JSON.stringify(entryItem(pages, pages))}]}`;
  const items: string[] = [];
  let page = Number(ExclusiveStartKey?.sk.S.slice(-12) ?? 0);
  for (let bytes = 0; page < pages && items.length < Limit && bytes < maxQueryBytes;) {
    page += 1;
    const item = JSON.stringify(entryItem(page, pages));
    bytes += item.length;
    items.push(item);
  }
  const { pk, sk } = entryItem(page, pages);
  const more = page < pages ? `,"LastEvaluatedKey":${JSON.stringify({ pk, sk })}` : '';
  return `{"Items":[${items.join(',')}],"Count":${items.length}${more}}`;
}

const xmlns = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"';
const declaration = '<?xml version="1.0" encoding="UTF-8"?>\n';

async function respondAsS3(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { searchParams } = new URL(request.url ?? '', 'http://s3');
  request.resume();
  await once(request, 'end');
  response.setHeader('content-type', 'application/xml');
  if (request.method === 'GET' && searchParams.has('list-type')) {
    response.end(listing(Number(searchParams.get('continuation-token') ?? 0)));
  } else if (request.method === 'GET' || request.method === 'HEAD') {
    response.writeHead(404).end(`${declaration}<Error><Code>NoSuchKey</Code></Error>`);
  } else if (request.method === 'PUT') {
    response.setHeader('etag', '"etag"').end();
  } else if (searchParams.has('uploads')) {
    const fields = '<Bucket>bucket</Bucket><Key>key</Key><UploadId>upload</UploadId>';
    response.end(`${declaration}<InitiateMultipartUploadResult ${xmlns}>${fields}</InitiateMultipartUploadResult>`);
  } else {
    const etag = '<ETag>&quot;etag&quot;</ETag>';
    response.end(`${declaration}<CompleteMultipartUploadResult ${xmlns}>${etag}</CompleteMultipartUploadResult>`);
  }
}

/** `start` is the position of the first key. */
function listing(start: number): string {
  const end = Math.min(pages, start + maxKeys);
  const contents = Array.from({ length: end - start }, (_, index) => listedPage(pageAtPosition(start + index, pages)));
  const next = end < pages ? `<NextContinuationToken>${end}</NextContinuationToken>` : '';
  const fields = `<IsTruncated>${end < pages}</IsTruncated>${next}<KeyCount>${end - start}</KeyCount>`;
  return `${declaration}<ListBucketResult ${xmlns}><Name>bucket</Name>${fields}${contents.join('')}</ListBucketResult>`;
}

// The parent may be killed.
process.on('disconnect', () => process.exit());

const server = createServer((request, response) => {
  const respond = request.headers['x-amz-target'] === undefined ? respondAsS3 : respondAsDynamoDb;
  respond(request, response).catch((error: unknown) => response.destroy(error as Error));
});
server.listen(0, '127.0.0.1', () => process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
