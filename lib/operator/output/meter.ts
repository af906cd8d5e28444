/** Shows that long work moves: on a terminal one line, elsewhere nothing, as its end says all that counts. */

import { bytes, plural } from './format.ts';
import type { Terminal } from './progress.ts';

export interface Meter {
  readonly page: (bytes: number) => void;
  readonly end: () => void;
}

const paceMs = 100;

export function createMeter(stream: Terminal, verb: string): Meter {
  let pages = 0;
  let sum = 0;
  let shownAt = 0;
  return {
    page(size) {
      pages += 1;
      sum += size;
      if (stream.isTTY !== true || performance.now() - shownAt < paceMs) return;
      shownAt = performance.now();
      stream.write(`\r\x1b[K${verb} ${plural(pages, 'page')} · ${bytes(sum)}`);
    },
    end() {
      if (shownAt > 0) stream.write('\r\x1b[K');
    },
  };
}
