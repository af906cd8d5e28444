/** Reads README.md and the pages in docs: their text, headings, tables and code blocks. */

import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../../..');

/** README.md and every page in `docs`, by path in the repository. */
export const pages: readonly string[] = ['README.md', ...globSync('docs/**/*.md', { cwd: root }).sort()];

export const textOf = (page: string): string => readFileSync(join(root, page), 'utf8');

/** The text from a heading of `page` to the next heading of the same or a higher level. @throws where it is missing */
export function sectionOf(page: string, level: number, title: string): string {
  const [, after] = textOf(page).split(new RegExp(`^${'#'.repeat(level)} ${title.replaceAll('.', '\\.')}$`, 'm'));
  if (after === undefined) throw new Error(`${page} has no section ${JSON.stringify(title)}`);
  return after.split(new RegExp(`^#{1,${level}} `, 'm'))[0] ?? '';
}

interface Block {
  readonly language: string;
  /** The word after the language, such as `catch-up.sh`; empty for most blocks. */
  readonly name: string;
  readonly text: string;
}

export function blocksOf(page: string): Block[] {
  const found = textOf(page).matchAll(/^( *)```(\w+)(?: (\S+))?\n([\s\S]*?)^\1```$/gm);
  return [...found].map(([, , language = '', name = '', text = '']) => ({ language, name, text }));
}

/** The text of the code block with that name. @throws unless the page has exactly one */
export function exampleIn(page: string, name: string): string {
  const found = blocksOf(page).filter((block) => block.name === name);
  const [only] = found;
  if (only === undefined || found.length > 1) throw new Error(`${page} has ${found.length} examples named ${name}`);
  return only.text;
}

/** The page without its code blocks: what remains holds the headings and links. */
export const proseOf = (page: string): string => textOf(page).replaceAll(/^( *)```[\s\S]*?^\1```$/gm, '');

/** The anchors of the page: those that GitHub derives from its headings, and explicit ones. */
export function anchorsOf(page: string): string[] {
  const headings = [...proseOf(page).matchAll(/^#{1,6} (.+)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
  return [...headings, ...[...proseOf(page).matchAll(/<a id="([^"]+)">/g)].map(([, id = '']) => id)];
}

/** What the page links to or shows: of Markdown and of HTML, such as an image that differs in a dark theme. */
export function linksOf(page: string): string[] {
  const found = proseOf(page).matchAll(/\]\(([^)\s]+)\)|^\[[^\]^]+\]: (\S+)|\b(?:href|src|srcset)="([^"]+)"/gm);
  return [...found].map(([, ...targets]) => targets.find((target) => target !== undefined) ?? '');
}
