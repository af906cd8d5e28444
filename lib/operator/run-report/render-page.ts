/**
 * Makes a page: `page.html` with its styles and scripts, and the data that `page.js` shows. A page is self-contained:
 * its content security policy allows only its own styles and scripts, and no network requests.
 */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Instant } from '../../core/model.ts';
import { toPrintable } from '../../core/sanitize.ts';
import type { RunData } from './run-data.ts';

export interface Origin {
  /** `Target.name` and `Target.option`. */
  readonly deployment: string;
  readonly deploymentOption: string;
  readonly createdAt: Instant;
}

export type RunPage = Origin & { readonly run: RunData };

/** Outside text cannot end the script element, has no control characters and keeps its direction. */
export function renderPage(data: RunPage): string {
  const json = JSON.stringify(data, (_, value) => (typeof value === 'string' ? toPrintable(value) : value));
  return shell().replace(/(?<= id="data">)(?=<)/, () => json.replaceAll('<', String.raw`\u003c`));
}

function shell(): string {
  const hashes: Record<'script' | 'style', string[]> = { script: [], style: [] };
  const element = (name: 'script' | 'style', file: string) => {
    const text = readAsset(file);
    hashes[name].push(`'sha256-${createHash('sha256').update(text).digest('base64')}'`);
    return `<${name}>${text}</${name}>`;
  };
  return readAsset('page.html')
    .replaceAll(/<link rel="stylesheet" href="(.*)" \/>/g, (_, file) => element('style', file))
    .replaceAll(/<script src="(.*)"><\/script>/g, (_, file) => element('script', file))
    .replaceAll(/(style|script)-src 'self'/g, (_, name: 'script' | 'style') => `${name}-src ${hashes[name].join(' ')}`);
}

function readAsset(file: string): string {
  if (file.startsWith('page.')) return readFileSync(join(import.meta.dirname, file), 'utf8');
  const folder = dirname(createRequire(import.meta.url).resolve('uplot'));
  const text = readFileSync(join(folder, file), 'utf8');
  // The banner of the script lacks the text of the license.
  return text.replace(
    /^\/\*!.*(?=\*\/)/,
    (banner) => `${banner}\n\n${readFileSync(join(folder, '../LICENSE'), 'utf8')}`,
  );
}
