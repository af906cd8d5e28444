/**
 * The layout of every page. A page is a self-contained HTML file: its content security policy forbids all network requests,
 * and everything that comes from outside appears as text only.
 */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Instant, RunId } from '../../core/model.ts';
import { formatInstant, formatInstantWithoutZone } from './format.ts';
import { empty, type Html, html, scriptSafeJson } from './markup.ts';

export interface Page {
  readonly title: string;
  readonly links?: readonly Html[];
  /** Above the heading. */
  readonly eyebrow: string;
  readonly heading: string;
  readonly state?: State | undefined;
  readonly run?: RunId;
  /** The most important sentences, and what is wrong. */
  readonly lead: string;
  readonly problems?: readonly Html[];
  readonly figures?: readonly Fact[];
  readonly facts?: readonly Fact[];
  readonly sections?: readonly Html[];
  /** The values that the charts draw. Absent: the page has no charts, and no scripts. */
  readonly charts?: unknown;
  readonly origin: Origin;
}

/** Where and when the page is created. */
export interface Origin {
  /** `Deployment.name` and `Deployment.option`. */
  readonly deployment: string;
  readonly deploymentOption: string;
  readonly createdAt: Instant;
}

export function renderPage(page: Page): string {
  const { title, links = [], eyebrow, heading, state, run, lead, problems = [], figures, facts, sections = [] } = page;
  const { charts, origin } = page;
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
${links.length === 0 ? empty : html`<nav>${links}</nav>`}
<header>
<p class="quiet">${eyebrow}</p>
<h1>${heading} ${state === undefined ? empty : stateLabel(state)}</h1>
${run === undefined ? empty : html`<p class="quiet">Run <code>${run}</code></p>`}
<p class="lead">${lead}</p>
${problems.map((problem) => html`<p class="problem">${problem}</p>`)}
${figures === undefined ? empty : factList('figures', figures)}
${facts === undefined ? empty : factList('facts', facts)}
</header>
${sections}
</main>
<footer>
<p>Created from the page log of ${origin.deployment} at ${time(origin.createdAt)}. Times are in UTC, by the clock of the
exporter. This file is self-contained and makes no network requests.</p>
</footer>
${hasCharts ? element('script', scriptSafeJson(charts), ' type="application/json" id="run-data"') : empty}
${scripts.map((script) => element('script', script))}
</body>
</html>
`.html;
}

/** Allows only the styles and scripts of this file, identified by their hashes. */
function contentSecurityPolicy(styles: readonly string[], scripts: readonly string[]): string {
  const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
  return [
    `default-src 'none'`,
    `style-src ${styles.map(hashOf).join(' ')}`,
    `script-src ${scripts.length === 0 ? `'none'` : scripts.map(hashOf).join(' ')}`,
    'img-src data:',
    `base-uri 'none'`,
    `form-action 'none'`,
  ].join('; ');
}

const element = (name: 'style' | 'script', text: string, attributes = ''): Html => ({
  html: `<${name}${attributes}>${text}</${name}>\n`,
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

/** CSS classes of the states of runs and exports. */
const tones = {
  completed: 'good',
  empty: 'good',
  running: 'busy',
  failed: 'bad',
  damaged: 'bad',
  stale: 'bad',
  unreadable: 'bad',
  interrupted: 'idle',
  abandoned: 'idle',
  never: 'idle',
} as const;
export type State = keyof typeof tones;

export const stateLabel = (state: State): Html =>
  html`<span class="state ${tones[state]}">${state === 'never' ? 'never completed' : state}</span>`;

export type Fact = readonly [term: string, value: string | Html];

/** `figures` are large numbers; `wide` facts have a line each. */
export const factList = (classes: 'figures' | 'facts' | 'facts wide', facts: readonly Fact[]): Html =>
  html`<dl class="${classes}">
${facts.map(([term, value]) => html`<div><dt>${term}</dt><dd>${value}</dd></div>\n`)}</dl>`;

export const unknown = 'unknown';

export const time = (instant: Instant): Html => html`<time datetime="${instant}">${formatInstant(instant)}</time>`;

export const timeWithoutZone = (instant: Instant): Html =>
  html`<time datetime="${instant}">${formatInstantWithoutZone(instant)}</time>`;

/** Explains a color or a sign of a chart. `name` is that of a rule in the styles. */
export const mark = (name: string): Html => html`<span class="mark ${name}"></span>`;

export interface Column {
  readonly title: string;
  /** In a narrow window, the title precedes a `number` and a `value`, and a `text` has lines of its own. */
  readonly kind: 'name' | 'value' | 'number' | 'text';
}

export interface Row {
  readonly id?: string;
  readonly isCurrent?: boolean;
  /** The first cell is the row's header. */
  readonly cells: readonly (string | Html)[];
  /** A row of its own below. */
  readonly remark?: Html | undefined;
}

/** Where the window is narrow, each row becomes a paragraph. */
export function table(label: string, columns: readonly Column[], rows: readonly Row[]): Html {
  const [first, ...others] = columns;
  return html`<table aria-label="${label}">
<thead><tr>${columns.map(({ title, kind }) => html`<th scope="col" class="${kind}">${title}</th>`)}</tr></thead>
<tbody>
${rows.map(
  ({
    id,
    isCurrent = false,
    cells: [header = '', ...cells],
    remark,
  }) => html`<tr${id === undefined ? empty : html` id="${id}"`}${
    isCurrent ? html` aria-current="page"` : empty
  }><th scope="row" class="${first?.kind ?? 'text'}">${header}</th>${others.map(
    ({ title, kind }, index) => html`<td class="${kind}" data-title="${title}">${cells[index] ?? ''}</td>`,
  )}</tr>
${remark === undefined ? empty : html`<tr><td colspan="${columns.length}"><p class="problem">${remark}</p></td></tr>\n`}`,
)}
</tbody>
</table>`;
}
