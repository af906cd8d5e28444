/**
 * The records of a ZIP archive (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, section 4.3): what each
 * says, and why an archive that has it is refused.
 */

import { crc32 } from 'node:zlib';

/** Why the archive is refused. */
export class InvalidArchive extends Error {}

/** The content of an entry, as it was read or as a record describes it. */
export interface Content {
  readonly method: number;
  readonly crc: number;
  readonly compressedBytes: number;
  readonly bytes: number;
}

export interface LocalHeader extends Content {
  /** Whether a record after the content describes it, instead of this one. */
  readonly hasDescriptor: boolean;
  /** The length of the name and of the extra fields, which follow. */
  readonly lengthOfNames: number;
}

export const signatures = {
  localHeader: 0x04034b50,
  descriptor: 0x08074b50,
  directory: 0x02014b50,
  zip64End: 0x06064b50,
  end: 0x06054b50,
} as const;

export const lengths = { signature: 4, localHeader: 26, descriptor: 12, directory: 42, end: 18 } as const;

const encrypted = 0x0001;
const describedLater = 0x0008;
const inZip64 = 0xffff_ffff;
const unchecked = 'The format bytes exports it unchecked';
export const zip64Problem = `it uses ZIP64, which is not supported. ${unchecked}`;

/** The local header after its signature. @throws InvalidArchive if the content cannot be checked */
export function readLocalHeader(record: Buffer, entry: string): LocalHeader {
  const flags = record.readUInt16LE(2);
  const content = readContent(record, 4, 10);
  const { method } = content;
  const hasDescriptor = (flags & describedLater) !== 0;
  if ((flags & encrypted) !== 0) throw new InvalidArchive(`${entry} is encrypted. ${unchecked}`);
  if (method !== 0 && method !== 8)
    throw new InvalidArchive(`${entry} is compressed by method ${method}; only Deflate is supported. ${unchecked}`);
  if (method === 0 && hasDescriptor)
    throw new InvalidArchive(`${entry} is not compressed, and its header does not have its length. ${unchecked}`);
  const lengthOfNames = record.readUInt16LE(22) + record.readUInt16LE(24);
  return { ...content, hasDescriptor, lengthOfNames };
}

/** The entry of the directory after its signature. */
export function readDirectoryEntry(record: Buffer) {
  const offset = record.readUInt32LE(38);
  const isEncrypted = (record.readUInt16LE(4) & encrypted) !== 0;
  if (isEncrypted) throw new InvalidArchive(`an entry of its directory is encrypted. ${unchecked}`);
  if (offset === inZip64) throw new InvalidArchive(zip64Problem);
  const lengthOfNames = record.readUInt16LE(24) + record.readUInt16LE(26) + record.readUInt16LE(28);
  return { ...readContent(record, 6, 12), offset, lengthOfNames };
}

/** The end record after its signature. */
export const readEnd = (record: Buffer) => ({
  disks: record.readUInt16LE(0) + record.readUInt16LE(2),
  entries: [record.readUInt16LE(4), record.readUInt16LE(6)],
  directoryBytes: record.readUInt32LE(8),
  directoryOffset: record.readUInt32LE(12),
  lengthOfComment: record.readUInt16LE(16),
});

function readContent(record: Buffer, methodAt: number, at: number): Content {
  const [crc = 0, compressedBytes = 0, bytes = 0] = [0, 4, 8].map((offset) => record.readUInt32LE(at + offset));
  if (compressedBytes === inZip64 || bytes === inZip64) throw new InvalidArchive(zip64Problem);
  return { method: record.readUInt16LE(methodAt), crc, compressedBytes, bytes };
}

/** Entries in any order, in as little memory as one: the directory need not have the order of the archive. */
export function createEntrySet() {
  let count = 0;
  let sum = 0;
  return {
    add({ method, crc, compressedBytes, bytes }: Content, offset: number): void {
      count += 1;
      sum = (sum + crc32(`${method} ${crc} ${compressedBytes} ${bytes} ${offset}`)) >>> 0;
    },
    count: () => count,
    digest: () => `${count} ${sum}`,
  };
}
