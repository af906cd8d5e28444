/**
 * A page of 2 GiB that takes no room: the same bytes each time, made block by block as they are asked for, so that
 * whoever sends it and whoever judges what arrived need not hand it to one another.
 *
 * Most of it is reports with all that XML has; the middle is one report whose attachment is a gigabyte of text without a
 * single tag. Each block bears its number, so that blocks lost, doubled or swapped show in the hash.
 */

import { createHash } from 'node:crypto';

const blockBytes = 1024 * 1024;
const blocks = 2_048;

/** One more than a signed 32-bit number holds. */
export const largePageBytes = blocks * blockBytes;

const attachment = { first: 512, last: 1_535 };

interface Block {
  readonly bytes: Buffer;
  /** Where the block's number goes. */
  readonly numberAt: number;
  readonly reports: number;
}

const digits = 12;
const number = '0'.repeat(digits);

const plain = reportsBlock('', '');
const head = reportsBlock('<?xml version="1.0" encoding="UTF-8"?>\n<reports>\n', '');
const tail = reportsBlock('', '</reports>\n');
const text = textBlock('', '');
const attachmentHead = textBlock('<report id="attached"><attachment>', '');
const attachmentTail = textBlock('', '</attachment></report>\n');

const blockAt = (index: number): Block => {
  if (index === 0) return head;
  if (index === blocks - 1) return tail;
  if (index < attachment.first || index > attachment.last) return plain;
  if (index === attachment.first) return attachmentHead;
  return index === attachment.last ? attachmentTail : text;
};

/** Child elements of the root. */
export const reportsInLargePage = Array.from({ length: blocks }, (_, index) => blockAt(index).reports).reduce(
  (sum, reports) => sum + reports,
);

/** The page's bytes, in order; each block is the receiver's own. */
export function* largePage(): Generator<Buffer> {
  for (let index = 0; index < blocks; index += 1) {
    const { bytes, numberAt } = blockAt(index);
    const block = Buffer.from(bytes);
    block.write(String(index).padStart(digits, '0'), numberAt, 'latin1');
    yield block;
  }
}

export interface LargePageDigest {
  readonly sha256: string;
  /** Of the page cut into pieces of the sizes asked for. */
  readonly pieces: readonly string[];
}

/** The hashes of the page, and of its pieces of `sizes` bytes, which must add up to it. */
export function digestLargePage(sizes: readonly number[]): LargePageDigest {
  const whole = createHash('sha256');
  const pieces: string[] = [];
  let piece = createHash('sha256');
  let missing = sizes[0] ?? 0;
  for (const block of largePage()) {
    whole.update(block);
    for (let position = 0; position < block.length && pieces.length < sizes.length; ) {
      const taken = block.subarray(position, position + missing);
      piece.update(taken);
      position += taken.length;
      missing -= taken.length;
      if (missing > 0) continue;
      pieces.push(piece.digest('hex'));
      piece = createHash('sha256');
      missing = sizes[pieces.length] ?? 0;
    }
  }
  return { sha256: whole.digest('hex'), pieces };
}

function reportsBlock(before: string, after: string): Block {
  const room = blockBytes - after.length;
  const opening = `${before}<report id="`;
  let content = `${opening}${number}"/>\n`;
  let bytes = Buffer.byteLength(content);
  let reports = 1;
  for (;;) {
    const report = reportXml(reports);
    const length = Buffer.byteLength(report);
    if (bytes + length > room) break;
    content += report;
    bytes += length;
    reports += 1;
  }
  return { bytes: Buffer.from(content + ' '.repeat(room - bytes) + after), numberAt: opening.length, reports };
}

/** Some 200 bytes to 2 kB, with something of everything. */
function reportXml(nth: number): string {
  const words = 'Grüße aus Zürich &amp; 北京 &#x1F701; – '.repeat(1 + ((nth * 7) % 40));
  return (
    `<report id="${nth}" kind='a&lt;b'><?note to self?><title>Report ${nth}</title><!-- ${nth} of many -->` +
    `<body>${words}<![CDATA[ <not> & markup ]]></body><empty/></report>\n`
  );
}

function textBlock(before: string, after: string): Block {
  const filling = 'UmVwb3J0cw0K'.repeat(blockBytes / 12 + 1);
  const content = `${before}${number}`;
  const bytes = Buffer.from(content + filling.slice(0, blockBytes - content.length - after.length) + after);
  return { bytes, numberAt: before.length, reports: before === '' ? 0 : 1 };
}
