/**
 * A self-contained HTML file. Its content security policy forbids all network requests, and everything that comes from
 * outside appears as text only.
 */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { empty, type Html, html, scriptSafeJson } from './markup.ts';

export interface Document {
  readonly title: string;
  readonly main: Html;
  readonly footer: Html;
  /** The values that the charts draw. Absent: the page has no charts, and no scripts. */
  readonly charts?: unknown;
}

export function renderDocument({ title, main, footer, charts }: Document): string {
  const hasCharts = charts !== undefined;
  const styles = [...(hasCharts ? [readUPlotFile('uPlot.min.css')] : []), readOwnFile('run-report.css')];
  const scripts = hasCharts ? [readUPlotFile('uPlot.iife.min.js'), readOwnFile('draw-charts.js')] : [];
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${contentSecurityPolicy(styles, scripts)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>${title}</title>
<link rel="icon" href="data:,">
${styles.map((style) => element('style', style))}
</head>
<body>
<main>
${main}
</main>
${footer}
${hasCharts ? dataElement(charts) : empty}
${scripts.map((script) => element('script', script))}
</body>
</html>
`.html;
}

/** Allows only the styles and scripts of this file, identified by their hashes. */
function contentSecurityPolicy(styles: readonly string[], scripts: readonly string[]): string {
  const hashes = (texts: readonly string[]) =>
    texts.length === 0
      ? `'none'`
      : texts.map((text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`).join(' ');
  return [
    `default-src 'none'`,
    `style-src ${hashes(styles)}`,
    `script-src ${hashes(scripts)}`,
    'img-src data:',
    `base-uri 'none'`,
    `form-action 'none'`,
  ].join('; ');
}

const element = (name: 'style' | 'script', text: string): Html => ({ html: `<${name}>${text}</${name}>\n` });

const dataElement = (value: unknown): Html => ({
  html: `<script type="application/json" id="run-data">${scriptSafeJson(value)}</script>`,
});

const readOwnFile = (name: string): string => readFileSync(join(import.meta.dirname, name), 'utf8');

const require = createRequire(import.meta.url);

/** As published; the script includes the license, which its minified form omits. */
function readUPlotFile(name: string): string {
  const folder = dirname(require.resolve('uplot'));
  const text = readFileSync(join(folder, name), 'utf8').trim();
  const license = readFileSync(join(folder, '../LICENSE'), 'utf8').trim();
  return text.startsWith('/*!') ? text.replace('*/', `\n\n${license} */`) : text;
}
