/**
 * What the checks of all page formats have in common. A check reads a page while it streams through, holds no more of
 * it than its limits allow, and says whether the page is complete and well-formed. Each format has a file; `bytes`
 * needs none.
 */

import type { ReportValues } from '../../core/ports.ts';
import type { PathValue } from '../api/response-facts.ts';

export interface FormatCheck {
  /** Reads on. Returns the first problem and where it is, otherwise undefined. */
  push(chunk: Uint8Array): string | undefined;
  /** The page is over. Returns the first problem, otherwise what the page contains. */
  end(): string | PageContent;
}

export interface PageContent {
  /** null: nothing says what a report is, or the page does not contain what `reports` names as their container. */
  readonly reports: number | null;
  /** The name of the root element, with its namespace; of CSV, the first row. null: the format has none. */
  readonly rootName: string | null;
  /** The value at one of the requested paths. */
  readonly value: (path: string) => PathValue;
  /** The value in the last report; `parent` says whether there is one. Absent: the format cannot tell. */
  readonly inLastReport?: PathValue;
  /** A digest of the reports without what is around them. Absent: the format has none. */
  readonly reportsDigest?: string | undefined;
  /** The first fields of the root and of the objects in it, for messages. Absent: the format has none. */
  readonly fields?: readonly Field[];
}

export interface Field {
  /** In the syntax of paths in JSON. */
  readonly path: string;
  /** undefined: an object, an array, or a long text. */
  readonly text?: string | null | undefined;
}

export interface CheckOptions {
  /** Where values stand that `value` returns, in the syntax that the file of the format describes. */
  readonly paths: readonly string[];
  /** Where the reports stand, in the same syntax. undefined: by the format's own rule. */
  readonly reports?: string;
  /** The path of a value in each report, of which `inLastReport` returns the last one. It needs `reports`. */
  readonly inLastReport?: string | undefined;
  /** The paths at which an object or an array is held as JSON. */
  readonly whole?: readonly string[];
  /** Whether an object in the place of the list is one report. */
  readonly single?: boolean;
  /** The character between the fields of a row. Without it, a comma. */
  readonly delimiter?: string | undefined;
  /** How a problem quotes a name from the page. */
  readonly present: (name: string) => string;
}

/** A check that needs more than the thread of its caller. The next chunk is pushed after the answer to the last one. */
export interface AsyncFormatCheck {
  push(chunk: Uint8Array): Promise<string | undefined>;
  end(): Promise<string | PageContent>;
}

export type CreateCheck = (options: CheckOptions) => FormatCheck;

/** The most that is held of a value at a path, in characters. A longer one is a problem. */
export const maxValueLength = 64 * 1024;

/**
 * Deflate compresses 1,032 times at most, but never reports that differ: at this ratio, each of 100 reports would have
 * 160 KB, and at most 330 bytes that are not in the others. A small body may have any ratio: it costs little, and
 * `maxPageBytes` limits it.
 */
export const maxRatio = 500;
const minBombBytes = 16 * 1024 * 1024;

/** Whether what was compressed to `compressed` bytes expands as only an attack does. */
export const isBomb = (bytes: number, compressed: number): boolean =>
  bytes > minBombBytes && bytes > maxRatio * compressed;

/** Reads the text of a page in one format. */
export interface TextReader {
  /** Returns a problem in the text, or undefined. */
  read(text: string): string | undefined;
  /** The text is over. Returns a problem of the whole text, or its contents; the format lacks absent fields. */
  end(): string | Partial<PageContent>;
  /** How many characters of the last text were read when the problem was found. Absent: none. */
  readonly charactersRead?: () => number;
  readonly mayBeEmpty?: boolean;
  readonly keepsByteOrderMark?: boolean;
}

/** Receives the values of each report of a page. */
export type OnReport = (values: ReportValues) => void;

/**
 * How much is decoded at a time. Text that is being parsed survives garbage collections, and V8 then grows its heap:
 * with the 64 KiB chunks of the connection, a page of 2 GB takes about 100 MB more.
 */
const pieceBytes = 8 * 1024;

/** Decodes UTF-8, with or without a byte order mark. Keeps the first problem, and where it is. */
export function checkText(reader: TextReader): FormatCheck {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: reader.keepsByteOrderMark === true });
  let problem: string | undefined;
  let bytes = 0;

  const decode = (piece?: Uint8Array): string | undefined => {
    try {
      return decoder.decode(piece, { stream: piece !== undefined });
    } catch {
      return undefined;
    }
  };
  const readPiece = (piece: Uint8Array): void => {
    const text = decode(piece);
    const found = text === undefined ? 'not UTF-8' : reader.read(text);
    if (found === undefined) return;
    const place = bytes + Buffer.byteLength(text?.slice(0, reader.charactersRead?.() ?? 0) ?? '');
    problem = `${found}, near byte ${place.toLocaleString('en')}`;
  };
  return {
    push(chunk) {
      for (let start = 0; start < chunk.length && problem === undefined; start += pieceBytes) {
        const piece = chunk.subarray(start, start + pieceBytes);
        readPiece(piece);
        bytes += piece.length;
      }
      return problem;
    },
    end() {
      if (problem !== undefined) return problem;
      if (bytes === 0 && reader.mayBeEmpty !== true) return 'the body is empty';
      if (decode() === undefined) return 'ends in the middle of a character';
      const content = reader.end();
      return typeof content === 'string'
        ? content
        : { reports: null, rootName: null, value: (path) => documentValue(path, bytes), ...content };
    },
  };
}

/** The whole document is the only value without a syntax of paths. */
export const documentValue = (path: string, bytes: number): PathValue =>
  path === '' ? { parent: true, type: 'string', text: '', isEmpty: bytes === 0 } : { parent: false };
