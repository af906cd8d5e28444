import { describe, expect, it } from 'vitest';
import { openManifest } from '../../../lib/core/storage/manifest-reader.ts';

/** A file with `text`, which counts how often it was closed. */
function aFile(text: string) {
  const file = {
    closed: 0,
    async *chunks() {
      try {
        yield new TextEncoder().encode(text);
        // An open file has more to read.
        yield new Uint8Array();
      } finally {
        file.closed += 1;
      }
    },
  };
  return file;
}

describe('a damaged manifest', () => {
  it.each([
    ['header', '{\n  "manifestVersion": 99,\n  "pages": [\n', 'manifestVersion'],
    ['JSON', '{\n  "manifestVersion": \n  "pages": [\n', 'it is not JSON'],
    ['beginning', `${'{ "filter": "a" },\n'.repeat(250_000)}`, 'it has no pages'],
    ['end', '{\n  "manifestVersion": 1,\n', 'it ends before its pages'],
  ])('is closed when its %s is rejected', async (_, text, reason) => {
    const file = aFile(text);
    await expect(openManifest('a/manifest.json', file.chunks())).rejects.toThrow(reason);
    expect(file.closed).toBe(1);
  });
});
