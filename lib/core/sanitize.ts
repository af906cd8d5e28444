/**
 * Makes foreign text safe to show in errors, logs and terminals: it must not move the cursor, start a new line,
 * reverse the writing direction, or fill the screen.
 */

/** `text` on one line: whitespace collapses to single spaces, control and other invisible characters are removed. */
export function toPrintable(text: string): string {
  return text.replace(/[\s\p{Zl}\p{Zp}]+/gu, ' ').replace(/\p{C}/gu, '');
}

/** The first `maxLength` characters of `text`, or one fewer if the cut would split a surrogate pair. */
export function truncate(text: string, maxLength: number): string {
  return text.length <= maxLength ? text : text.slice(0, maxLength).replace(/[\ud800-\udbff]$/, '');
}

/** `text`, or its first words, in at most `maxLength` characters with an ellipsis. A long last word is cut. */
export function shorten(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  const end = text.lastIndexOf(' ', maxLength - 2);
  return end < maxLength / 2 ? `${truncate(text, maxLength - 1)}…` : `${text.slice(0, end)} …`;
}

const maxListedNames = 20;

/** The names in alphabetical order, at most 20 of them: `daily, nightly and 98 more`. */
export function listNames(names: readonly string[]): string {
  const more = names.length - maxListedNames;
  const listed = names.toSorted().slice(0, maxListedNames).join(', ');
  return more > 0 ? `${listed} and ${more} more` : listed;
}

/** Quotes `text` for a POSIX shell, if needed. */
export const shellQuote = (text: string): string =>
  /^[\w./:@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** The text as the beginning of a sentence. */
export const capitalize = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
