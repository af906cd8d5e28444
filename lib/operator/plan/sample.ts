/** The values of a page besides its reports, for advice on its description. */

import { createHash } from 'node:crypto';
import type { JsonValue } from '../../core/model.ts';
import type { Description } from '../../service/api/description.ts';
import { listPath } from '../../service/api/paths.ts';

type Scalar = string | number | boolean;

export interface PageSample {
  readonly sha256: string;
  /** The texts, numbers and booleans outside the reports, by their paths. None if it is no JSON, or too large. */
  readonly values: ReadonlyMap<string, Scalar>;
}

/** A larger page is not held. */
const maxBytes = 32 * 1024 * 1024;
const maxDepth = 4;

/** Collects the chunks of a page. */
export function createSampler({ page }: Pick<Description, 'page'>) {
  const chunks: Uint8Array[] = [];
  const digest = createHash('sha256');
  let bytes = 0;
  return {
    add(chunk: Uint8Array): void {
      digest.update(chunk);
      bytes += chunk.length;
      if (page.format === 'json' && bytes <= maxBytes) chunks.push(chunk);
    },
    read(): PageSample {
      const sha256 = digest.digest('hex');
      if (page.format !== 'json' || bytes > maxBytes || bytes === 0) return { sha256, values: new Map() };
      // It has been checked.
      const document = JSON.parse(new TextDecoder().decode(Buffer.concat(chunks))) as JsonValue;
      return { sha256, values: new Map(scalarsIn(document, '', listPath(page) ?? '')) };
    },
  };
}

function* scalarsIn(value: JsonValue, path: string, list: string): Generator<readonly [string, Scalar]> {
  if (value === null || path === list || path.split('/').length > maxDepth + 1) return;
  if (typeof value !== 'object') return yield [path, value];
  for (const [key, each] of Object.entries(value as Readonly<Record<string, JsonValue>>)) {
    yield* scalarsIn(each, `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`, list);
  }
}
