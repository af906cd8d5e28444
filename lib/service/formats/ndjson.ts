/**
 * Checks that each line of a page is a JSON object or array (https://github.com/ndjson/ndjson-spec). For example
 *
 *     {"id": 1}
 *     {"id": 2}
 *
 * has two reports. Blank lines are none, and the last line break may be missing. A page without any is empty. There
 * are no paths.
 *
 * A page that is cut off between two lines looks complete: only its length or its transfer encoding shows that.
 */

import { checkText, type CreateCheck } from './format-check.ts';
import { createJsonReader } from './json-reader.ts';

export const createNdjsonCheck: CreateCheck = () => {
  const reader = createJsonReader({ many: true });
  let line = 1;
  let documentsBefore = 0;

  const endLine = (): string | undefined => {
    if (reader.depth() > 0) return 'a line break inside a document';
    if (reader.documents() > documentsBefore + 1) return 'more than one document';
    documentsBefore = reader.documents();
    return undefined;
  };
  return checkText({
    mayBeEmpty: true,
    read(text) {
      for (let start = 0; start < text.length;) {
        const lineBreak = text.indexOf('\n', start);
        const end = lineBreak < 0 ? text.length : lineBreak + 1;
        const problem = reader.read(text.slice(start, end)) ?? (lineBreak < 0 ? undefined : endLine());
        if (problem !== undefined) return `line ${line}: ${problem}`;
        if (lineBreak >= 0) line += 1;
        start = end;
      }
      return undefined;
    },
    end() {
      const problem = reader.end() ?? endLine();
      return problem === undefined ? { reports: reader.documents() } : `line ${line}: ${problem}`;
    },
  });
};
