/**
 * Pages of 2 GiB, one of each format, that are never in memory: their blocks are generated when they are needed, and
 * are the same each time. So the process that sends a page and the one that checks it need not share it.
 *
 * Most of a page is reports with all kinds of markup. In the middle is one report whose attachment is a gigabyte of
 * text. Each block contains its number, so that lost, repeated or exchanged blocks change the hash.
 */

import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { listen } from '../support/service/loopback.ts';

const blockBytes = 1024 * 1024;
const blockCount = 2_048;

/** More than a signed 32-bit integer can hold. */
export const largePageBytes = blockCount * blockBytes;

const attachment = { first: 512, last: 1_535 };

export type Format = 'xml' | 'json';

interface Writer {
  readonly start: string;
  readonly end: string;
  readonly separator: string;
  /** `text` needs no escapes. */
  readonly report: (id: string, text: string) => string;
  /** A report of 200 bytes to 3 kB with everything that the format has. */
  readonly richReport: (index: number) => string;
}

const textOf = (index: number) => 'Grüße aus Zürich, 北京 – '.repeat(1 + ((index * 7) % 60));

const writers: Readonly<Record<Format, Writer>> = {
  xml: {
    start: '<?xml version="1.0" encoding="UTF-8"?>\n<reports>\n',
    end: '</reports>\n',
    separator: '',
    report: (id, text) => `<report id="${id}"><attachment>${text}</attachment></report>\n`,
    richReport: (index) =>
      `<report id="${index}" kind='a&lt;b'><?note to self?><title>Report ${index}</title><!-- ${index} of many -->` +
      `<body>${textOf(index)}&amp; &#x1F701;<![CDATA[ <not> & markup ]]></body><empty/></report>\n`,
  },
  json: {
    start: '{"data":[\n',
    end: ']}\n',
    separator: ',',
    report: (id, text) => `{"id":"${id}","attachment":"${text}"}\n`,
    richReport: (index) =>
      `{"id":"${index}","kind":"a\\u005cb\\"c\\n","body":"${textOf(index)}","values":[${index},-1.5e-3,null,true,{"":[]}]}\n`,
  },
};

interface Block {
  readonly bytes: Buffer;
  /** Where the block's number is written. */
  readonly numberOffset: number;
  readonly reports: number;
}

const digits = 12;
const numberPlaceholder = '0'.repeat(digits);

function createBlocks({ start, end, separator, report, richReport }: Writer) {
  const [beforeAttachment = '', afterAttachment = ''] = `${separator}${report('attached', '|')}`.split('|');

  /** `before`, reports, of which the first is as long as it takes, and `after`. */
  const ofReports = (before: string, after: string): Block => {
    const numbered = (text: string) => `${before}${report(numberPlaceholder, text)}`;
    const capacity = blockBytes - Buffer.byteLength(numbered('') + after);
    let content = '';
    let bytes = 0;
    let reports = 1;
    for (;;) {
      const next = `${separator}${richReport(reports)}`;
      const length = Buffer.byteLength(next);
      if (bytes + length > capacity) break;
      content += next;
      bytes += length;
      reports += 1;
    }
    const all = `${numbered('x'.repeat(capacity - bytes))}${content}${after}`;
    return { bytes: Buffer.from(all), numberOffset: all.indexOf(numberPlaceholder), reports };
  };
  const ofText = (before: string, after: string): Block => {
    const filler = 'UmVwb3J0cw0K'.repeat(blockBytes / 12 + 1);
    const content = `${before}${numberPlaceholder}`;
    const bytes = Buffer.from(content + filler.slice(0, blockBytes - content.length - after.length) + after);
    return { bytes, numberOffset: before.length, reports: before === '' ? 0 : 1 };
  };

  return {
    first: ofReports(start, ''),
    reports: ofReports(separator, ''),
    attachmentStart: ofText(beforeAttachment, ''),
    attachment: ofText('', ''),
    attachmentEnd: ofText('', afterAttachment),
    last: ofReports(separator, end),
  };
}

const created = new Map<Format, ReturnType<typeof createBlocks>>();

function blockAt(format: Format, index: number): Block {
  const blocks = created.get(format) ?? createBlocks(writers[format]);
  created.set(format, blocks);
  if (index === 0) return blocks.first;
  if (index === blockCount - 1) return blocks.last;
  if (index < attachment.first || index > attachment.last) return blocks.reports;
  if (index === attachment.first) return blocks.attachmentStart;
  return index === attachment.last ? blocks.attachmentEnd : blocks.attachment;
}

export const reportsInLargePage = (format: Format): number =>
  Array.from({ length: blockCount }, (_, index) => blockAt(format, index).reports).reduce((sum, each) => sum + each);

/** The bytes of the page in order; each block is a copy. */
function* largePage(format: Format): Generator<Buffer> {
  for (let index = 0; index < blockCount; index += 1) {
    const { bytes, numberOffset } = blockAt(format, index);
    const block = Buffer.from(bytes);
    block.write(String(index).padStart(digits, '0'), numberOffset, 'latin1');
    yield block;
  }
}

interface LargePageDigest {
  readonly sha256: string;
  /** The SHA-256 of each part. */
  readonly parts: readonly string[];
}

/** The hashes of the page and of its parts, whose sizes must add up to that of the page. */
export function digestLargePage(format: Format, partSizes: readonly number[]): LargePageDigest {
  const whole = createHash('sha256');
  const parts: string[] = [];
  let part = createHash('sha256');
  let missing = partSizes[0] ?? 0;
  for (const block of largePage(format)) {
    whole.update(block);
    for (let position = 0; position < block.length && parts.length < partSizes.length;) {
      const bytes = block.subarray(position, position + missing);
      part.update(bytes);
      position += bytes.length;
      missing -= bytes.length;
      if (missing > 0) continue;
      parts.push(part.digest('hex'));
      part = createHash('sha256');
      missing = partSizes[parts.length] ?? 0;
    }
  }
  return { sha256: whole.digest('hex'), parts };
}

const tinyPages: Readonly<Record<Format, readonly [contentType: string, body: string]>> = {
  xml: ['application/xml;charset=UTF-8', '<reports><report id="first"/></reports>'],
  json: ['application/json', '{"data":[{"id":"first"}],"next":"second"}'],
};

/** A service of runs with a tiny page and a large one; the path is the format. XML has a content-length. */
export async function startLargePageService() {
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://service');
    const format = pathname.slice(1).replace(/\/.*/, '') as Format;
    const [contentType, tinyPage] = tinyPages[format];
    request.resume();
    response.setHeader('content-type', contentType);
    if (!searchParams.has('cursor')) {
      response.setHeader('X-SERVICE-CURSOR', 'second').end(tinyPage);
      return;
    }
    if (format === 'xml') response.setHeader('content-length', largePageBytes);
    pipeline(Readable.from(largePage(format)), response).catch(() => response.destroy());
  });
  return await listen(server);
}
