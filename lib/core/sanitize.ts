/**
 * Makes text from outside fit to be shown: in an error, a log or on a terminal it must neither take up more room than a
 * person reads, nor move the cursor, begin a line of its own or turn the writing round.
 */

/** `text` on one line, without any character that is not seen. */
export function toPrintable(text: string): string {
  return text.replace(/[\s\p{Zl}\p{Zp}]+/gu, ' ').replace(/\p{C}/gu, '');
}

/** The first `most` characters of `text`, or one less where a character that takes two would be cut in half. */
export function truncate(text: string, most: number): string {
  return text.length <= most ? text : text.slice(0, most).replace(/[\ud800-\udbff]$/, '');
}
