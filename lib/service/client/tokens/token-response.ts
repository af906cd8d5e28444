/** Reads the response to a request for a token. */

import type { ExportError } from '../../../core/errors.ts';
import type { Clock } from '../../../core/ports.ts';
import type { IssuedToken, TokenKind, TokenProblem } from '../../api/auth/kind.ts';
import type { Auth } from '../../api/auth/kinds.ts';
import { readDocument } from '../../formats/formats.ts';
import { presentable } from '../../redaction/redact.ts';
import { contractError } from '../errors.ts';
import type { Exchange, Response } from '../exchange.ts';
import { readWait } from '../response/reaction.ts';
import { allValues } from '../response/response-headers.ts';

const maxResponseBytes = 64 * 1024;

interface Reading {
  readonly kind: TokenKind<Auth>;
  readonly auth: Auth;
  readonly now: Clock['now'];
}

export async function readTokenResponse(
  exchange: Exchange,
  response: Response,
  { kind, auth, now }: Reading,
): Promise<IssuedToken | TokenProblem> {
  const bytes = await readBytes(exchange, response);
  const content = bytes && (await readDocument(bytes, kind.paths(auth)));
  if (content === undefined) return { problem: 'it is no JSON document' };
  const { value } = content;
  const header = headerOf(response);
  return kind.read(auth, { value, seconds: (path) => readWait(value(path).text, { header }, now) });
}

export const headerOf =
  ({ headers }: Response) =>
  (name: string): string | undefined => {
    const value = headers[name];
    return value === undefined ? undefined : allValues(value);
  };

export function problemError({ context }: Exchange, { problem, code }: TokenProblem): ExportError {
  const isCode = code !== undefined && /^[a-z_]{1,40}$/.test(code);
  return contractError(context, isCode ? `${problem}, but the error ${presentable(code, context.keys, 40)}` : problem);
}

/** undefined if there are too many. */
async function readBytes(exchange: Exchange, { body }: Response): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      length += chunk.length;
      if (length > maxResponseBytes) return undefined;
    }
  } catch (error) {
    throw exchange.explain(error, length);
  }
  return Buffer.concat(chunks);
}
