/**
 * Checks that a page is a single JSON document (RFC 8259) whose root is an object or an array. For example
 *
 *     {"data": [{"id": 1}, {"id": 2}], "meta": {"next": "c2Vjb25k", "more": true}}
 *
 * has two reports at `/data/*`, its next cursor at `/meta/next` and an end flag at `/meta/more`. Paths are JSON
 * Pointers (RFC 6901). `reports` is the pointer of an array, followed by `/*`; without it, reports are not counted.
 * A path may select the item of an array by a field: `/link[rel=next]/url`.
 *
 * A byte order mark is accepted, as RFC 8259 allows. So are duplicate keys and halves of surrogate pairs (`\ud800`),
 * except at the paths: their meaning depends on who reads them.
 */

import type { PathValue } from '../api/response-facts.ts';
import { createDigest } from './digest.ts';
import { checkText, type CreateCheck } from './format-check.ts';
import { createFieldNotes } from './json-fields.ts';
import { addPart, type Found, type OpenValue, type Part, partAt, pathOf } from './json-parts.ts';
import { createJsonReader } from './json-reader.ts';

export const createJsonCheck: CreateCheck = ({ paths, reports, inLastReport, whole = [], single = false }) => {
  const root: Part = { path: '', name: '', parts: [] };
  for (const path of paths) partAt(root, path).isWhole = whole.includes(path);
  const list = reports === undefined ? undefined : partAt(root, reports.slice(0, -'/*'.length));
  const last = inLastReport === undefined ? undefined : list && addPart(list, '[last]', 'last');
  const inLast = last && partAt(last, inLastReport ?? '');
  const fields = createFieldNotes();
  const reader = createJsonReader({
    root,
    holds: whole.length > 0 ? 'text' : undefined,
    list,
    fields,
    onValue: problemOfText,
  });
  const digest = list && createDigest(reader);
  const at = (part: Part | undefined): Found | undefined =>
    part?.parent === undefined ? part && reader.document() : at(part.parent)?.parts.get(part.name);

  /** Whether the container of the part exists. Parts of a selected item have their place, even without such an item. */
  const hasPlace = (part: Part): boolean => {
    let selected: Part | undefined = part;
    while (selected !== undefined && selected.item === undefined) selected = selected.parent;
    const type = at((selected ?? part).parent)?.type;
    // PHP writes `[]` for an object without fields.
    if (type === 'array') return selected !== undefined || /^\d+$/.test(part.name) || at(part.parent)?.items === 0;
    return part === root || (type === 'object' && selected === undefined);
  };
  return checkText({
    read: (text) => (digest ?? reader).read(text),
    end() {
      const problem = reader.end();
      if (problem !== undefined) return problem;
      const found = at(list);
      const isSingle = single && found?.type === 'object' && found.items > 0;
      return {
        reports: found?.type === 'array' ? found.items : isSingle ? 1 : null,
        fields: fields.all(),
        reportsDigest: digest?.value(),
        value(path) {
          const part = partAt(root, path);
          return valueOf(at(part), hasPlace(part));
        },
        inLastReport: valueOf(at(inLast), at(last)?.type === 'object'),
      };
    },
  });
};

const problemOfText = (value: OpenValue): string | undefined =>
  value.found.text?.isWellFormed() === false ? `half a surrogate pair in the value at ${pathOf(value)}` : undefined;

const valueOf = (found: Found | undefined, parent: boolean): PathValue => ({
  parent,
  type: found?.type,
  text: found?.text,
  ...(found?.json !== undefined && { json: found.json }),
  ...((found?.type === 'object' || found?.type === 'array') && { isEmpty: found.items === 0 }),
});
