/**
 * A page of 2 GiB that is never in memory: its blocks are generated when they are needed, and are the same each time. So the
 * process that sends the page and the one that checks it need not share it.
 *
 * Most of it is reports with all kinds of markup. In the middle is one report whose attachment is a gigabyte of text without a
 * tag. Each block contains its number, so that lost, repeated or exchanged blocks change the hash.
 */

import { createHash } from 'node:crypto';

const blockBytes = 1024 * 1024;
const blockCount = 2_048;

/** More than a signed 32-bit integer can hold. */
export const largePageBytes = blockCount * blockBytes;

const attachment = { first: 512, last: 1_535 };

interface Block {
  readonly bytes: Buffer;
  /** Where the block's number is written. */
  readonly numberOffset: number;
  readonly reports: number;
}

const digits = 12;
const numberPlaceholder = '0'.repeat(digits);

const blocks = {
  first: reportsBlock('<?xml version="1.0" encoding="UTF-8"?>\n<reports>\n', ''),
  reports: reportsBlock('', ''),
  attachmentStart: textBlock('<report id="attached"><attachment>', ''),
  attachment: textBlock('', ''),
  attachmentEnd: textBlock('', '</attachment></report>\n'),
  last: reportsBlock('', '</reports>\n'),
} as const;

const blockAt = (index: number): Block => {
  if (index === 0) return blocks.first;
  if (index === blockCount - 1) return blocks.last;
  if (index < attachment.first || index > attachment.last) return blocks.reports;
  if (index === attachment.first) return blocks.attachmentStart;
  return index === attachment.last ? blocks.attachmentEnd : blocks.attachment;
};

/** The child elements of the root. */
export const reportsInLargePage = Array.from({ length: blockCount }, (_, index) => blockAt(index).reports).reduce(
  (sum, reports) => sum + reports,
);

/** The bytes of the page in order; each block is a copy. */
export function* largePage(): Generator<Buffer> {
  for (let index = 0; index < blockCount; index += 1) {
    const { bytes, numberOffset } = blockAt(index);
    const block = Buffer.from(bytes);
    block.write(String(index).padStart(digits, '0'), numberOffset, 'latin1');
    yield block;
  }
}

export interface LargePageDigest {
  readonly sha256: string;
  /** The SHA-256 of each part. */
  readonly parts: readonly string[];
}

/** The hashes of the page and of its parts, whose sizes must add up to that of the page. */
export function digestLargePage(partSizes: readonly number[]): LargePageDigest {
  const whole = createHash('sha256');
  const parts: string[] = [];
  let part = createHash('sha256');
  let missing = partSizes[0] ?? 0;
  for (const block of largePage()) {
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

/** `before`, as many reports as fit, blanks, and `after`. */
function reportsBlock(before: string, after: string): Block {
  const capacity = blockBytes - after.length;
  const opening = `${before}<report id="`;
  let content = `${opening}${numberPlaceholder}"/>\n`;
  let bytes = Buffer.byteLength(content);
  let reports = 1;
  for (;;) {
    const report = reportXml(reports);
    const length = Buffer.byteLength(report);
    if (bytes + length > capacity) break;
    content += report;
    bytes += length;
    reports += 1;
  }
  return {
    bytes: Buffer.from(content + ' '.repeat(capacity - bytes) + after),
    numberOffset: opening.length,
    reports,
  };
}

/** 200 bytes to 2 kB with every kind of markup. */
function reportXml(index: number): string {
  const text = 'Grüße aus Zürich &amp; 北京 &#x1F701; – '.repeat(1 + ((index * 7) % 40));
  return (
    `<report id="${index}" kind='a&lt;b'><?note to self?><title>Report ${index}</title><!-- ${index} of many -->` +
    `<body>${text}<![CDATA[ <not> & markup ]]></body><empty/></report>\n`
  );
}

function textBlock(before: string, after: string): Block {
  const filler = 'UmVwb3J0cw0K'.repeat(blockBytes / 12 + 1);
  const content = `${before}${numberPlaceholder}`;
  const bytes = Buffer.from(content + filler.slice(0, blockBytes - content.length - after.length) + after);
  return { bytes, numberOffset: before.length, reports: before === '' ? 0 : 1 };
}
