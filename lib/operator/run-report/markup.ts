/** Makes HTML in which whatever comes from outside is text, and nothing but text. */

import { toPrintable } from '../../core/sanitize.ts';

/** Markup that is fit to stand in a page as it is. */
export interface Html {
  readonly html: string;
}

type Content = string | number | Html | readonly Html[] | undefined;

/** @example html`<td title="${name}">${name}</td>` */
export function html(literal: TemplateStringsArray, ...contents: readonly Content[]): Html {
  return {
    html: literal.map((text, index) => text + (index < contents.length ? markupOf(contents[index]) : '')).join(''),
  };
}

export const nothing: Html = { html: '' };

function markupOf(content: Content): string {
  if (content === undefined) return '';
  if (typeof content === 'object') return 'html' in content ? content.html : content.map((each) => each.html).join('');
  return escaped(String(content));
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

const escaped = (text: string): string => toPrintable(text).replace(/[&<>"']/g, (character) => entities[character] ?? '');

/** JSON that neither ends the script element it stands in nor trips over line ends of JavaScript. */
export function scriptSafeJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[<>&\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
