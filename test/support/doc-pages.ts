/** The pages that people read, and the code that stands in them: a block is called by what follows its language. */

import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');

interface Block {
  readonly language: string;
  /** `catch-up.sh`; empty for most. */
  readonly name: string;
  readonly text: string;
}

/** README.md and everything in `docs`, by their paths in the project. */
export const pages: readonly string[] = ['README.md', ...globSync('docs/**/*.md', { cwd: root }).sort()];

export const textOf = (page: string): string => readFileSync(join(root, page), 'utf8');

export function blocksOf(page: string): Block[] {
  const found = textOf(page).matchAll(/^( *)```(\w+)(?: (\S+))?\n([\s\S]*?)^\1```$/gm);
  return [...found].map(([, , language = '', name = '', text = '']) => ({ language, name, text }));
}

/** The example of that name. @throws where the page has none, or more than one */
export function exampleIn(page: string, name: string): string {
  const found = blocksOf(page).filter((block) => block.name === name);
  const [only] = found;
  if (only === undefined || found.length > 1) throw new Error(`${page} has ${found.length} examples called ${name}`);
  return only.text;
}

/** Lines of prose, where headings and links are: what stands in blocks is neither. */
export const proseOf = (page: string): string => textOf(page).replaceAll(/^( *)```[\s\S]*?^\1```$/gm, '');

/** The anchors of the page's headings, as the usual renderers make them. */
export function headingsOf(page: string): string[] {
  return [...proseOf(page).matchAll(/^#{1,6} (.+)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}
