/** Builds HTML from templates. Every inserted string is escaped, so text from outside cannot become markup. */

import { toPrintable } from '../../core/sanitize.ts';

/** Markup that can be inserted into a page without escaping. */
export interface Html {
  readonly html: string;
}

type Content = string | number | Html | readonly Html[];

/** @example html`<td title="${name}">${name}</td>` */
export function html(literals: TemplateStringsArray, ...contents: readonly Content[]): Html {
  const parts = literals.map((literal, index) => {
    const content = contents[index];
    return content === undefined ? literal : literal + toMarkup(content);
  });
  return { html: parts.join('') };
}

export const empty: Html = { html: '' };

function toMarkup(content: Content): string {
  if (typeof content !== 'object') return escapeText(String(content));
  return 'html' in content ? content.html : content.map((part) => part.html).join('');
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

const escapeText = (text: string): string =>
  toPrintable(text).replace(/[&<>"']/g, (character) => entities[character] ?? '');

/** JSON that cannot end the script element that contains it. */
export function scriptSafeJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[<>&\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
