/**
 * The report on a run as one HTML file that needs nothing else: styles, charts and numbers stand in it, and its policy
 * keeps it from asking any network for anything. All that comes from outside stands in it as text.
 */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { chartData, chartsSection } from './charts.ts';
import type { RunReportData } from './data.ts';
import { filesSection, footer, header, requestSection } from './facts.ts';
import { incidentsSection } from './incidents-section.ts';
import { type Html, html, nothing, scriptSafeJson } from './markup.ts';

export function runReportHtml(data: RunReportData): string {
  const { run, points } = data;
  const styles = [uPlotFile('uPlot.min.css'), ownFile('report.css')];
  const scripts = points.length === 0 ? [] : [uPlotFile('uPlot.iife.min.js'), ownFile('charts.js')];
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy(styles, scripts)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>${run.export} · run ${run.run} · ${run.state}</title>
<link rel="icon" href="data:,">
${styles.map((style) => element('style', style))}
</head>
<body>
<main>
${header(data)}
${points.length === 0 ? nothing : chartsSection(data)}
${incidentsSection(data)}
${requestSection(data)}
${filesSection(data)}
</main>
${footer(data)}
${points.length === 0 ? nothing : dataBlock(chartData(data))}
${scripts.map((script) => element('script', script))}
</body>
</html>
`.html;
}

/** Only what stands in this file may style it or run in it. */
function policy(styles: readonly string[], scripts: readonly string[]): string {
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

const dataBlock = (value: unknown): Html => ({
  html: `<script type="application/json" id="run-data">${scriptSafeJson(value)}</script>`,
});

const ownFile = (name: string): string => readFileSync(join(import.meta.dirname, name), 'utf8');

const require = createRequire(import.meta.url);

/** As published; its program with its licence. */
function uPlotFile(name: string): string {
  const folder = dirname(require.resolve('uplot'));
  const text = readFileSync(join(folder, name), 'utf8').trim();
  const licence = readFileSync(join(folder, '../LICENSE'), 'utf8').trim();
  return text.startsWith('/*!') ? text.replace('*/', `\n\n${licence} */`) : text;
}
