/**
 * What can be made to go wrong, for tests. A fault changes one answer; each field changes exactly what it says and
 * nothing else, and fields combine. `fault-scripts.ts` has the usual ones by name, and says when they strike.
 */

import type { Answer, Headers } from './response.ts';

export interface Fault {
  /** Milliseconds between choosing the page and the first byte of the answer; its date header is of the later moment. */
  readonly delayMs?: number;
  /** The page holds no reports; its cursor, if any report remains, is a new one and loses none of them. */
  readonly emptyPage?: boolean;
  readonly status?: number;
  /** Replaces the body, which is held whole in memory for it; content-length is that of the result. */
  readonly body?: (original: Buffer) => string | Uint8Array;
  /** Headers to put in place of those of the same name (in any case), written as they are here; null leaves them out. */
  readonly headers?: Readonly<Record<string, string | readonly string[] | null>>;
  /** The values of the cursor header, one header line for each, in UTF-8. The genuine one is undefined on the last page. */
  readonly cursor?: (genuine: string | undefined) => readonly string[];
  /** The name of the cursor header, as it goes on the wire. */
  readonly cursorHeader?: string;
  /** Sends no content-length: the body's end is marked by an empty chunk, or by the end of the connection alone. */
  readonly framing?: 'chunked' | 'close';
  /** Sends the body in pieces of so many bytes, with a pause after each. */
  readonly drip?: { readonly bytes: number; readonly everyMs: number };
  /**
   * Ends the connection: `start` before anything is sent, a number after so many bytes of the body (0: after the headers).
   * `end` closes it in good order (FIN), `reset` breaks it (RST). What was promised stays promised.
   */
  readonly cut?: { readonly at: 'start' | number; readonly by: 'end' | 'reset' };
}

/** Makes one fault of several; where two set the same field, the later one does, but `headers` add up. */
export function combined(...faults: readonly Fault[]): Fault {
  return Object.assign({}, ...faults, { headers: Object.assign({}, ...faults.map((fault) => fault.headers)) });
}

/** The answer as `fault` leaves it; `cursorHeader` is the genuine header's name. What concerns the wire is left to delivery. */
export async function withFault(answer: Answer, fault: Fault, cursorHeader: string): Promise<Answer> {
  const { body } = fault;
  const edited = body && Buffer.from(body(await wholeBody(answer)));
  const genuine = answer.headers.find(([name]) => name === cursorHeader)?.[1];
  const cursors = fault.cursor?.(genuine) ?? (genuine === undefined ? [] : [genuine]);
  const headers = replaced(answer.headers, {
    [cursorHeader]: null,
    ...(cursors.length > 0 && { [fault.cursorHeader ?? cursorHeader]: cursors }),
    ...(edited && { 'content-length': String(edited.length) }),
    ...(fault.framing && { 'content-length': null }),
  });
  return {
    ...answer,
    status: fault.status ?? answer.status,
    // The fault's own headers have the last word.
    headers: replaced(headers, fault.headers ?? {}),
    ...(edited && { body: () => [edited] }),
  };
}

function replaced(headers: Headers, changes: NonNullable<Fault['headers']>): Headers {
  const changed = new Set(Object.keys(changes).map((name) => name.toLowerCase()));
  const added = Object.entries(changes).flatMap(([name, values]) =>
    [values ?? []].flat().map((value) => [name, value] as const),
  );
  return [...headers.filter(([name]) => !changed.has(name.toLowerCase())), ...added];
}

async function wholeBody(answer: Answer): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of answer.body()) chunks.push(chunk);
  return Buffer.concat(chunks);
}
