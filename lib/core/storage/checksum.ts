/**
 * Tells a value that somebody has edited where it is kept from the value that was written there.
 *
 * A seal is kept beside the value: made on every write, compared on every read. So a slip of the hand in a console or an
 * editor, a partial restore or a mixed-up copy is noticed, however plausible the value looks. It is no defence against
 * somebody who makes the seal anew: whoever may write to the store may do that.
 */

import { hash } from 'node:crypto';

/** The SHA-256, in lower-case hexadecimal, of the canonical JSON of `value`; the same for a value from every store. */
export function sealOf(value: unknown): string {
  return hash('sha256', JSON.stringify(inOrder(value)));
}

/** `value` with the names of every object in one order, as stores do not keep theirs. What is undefined is left out. */
function inOrder(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(inOrder);
  const ordered: Record<string, unknown> = {};
  for (const name of Object.keys(value).sort()) {
    const field = inOrder((value as Record<string, unknown>)[name]);
    // The one name that, assigned to, would not become a field.
    if (name === '__proto__') Object.defineProperty(ordered, name, { value: field, enumerable: true });
    else ordered[name] = field;
  }
  return ordered;
}
