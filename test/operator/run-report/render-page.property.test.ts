import { createHash } from 'node:crypto';
import { describe, expect } from 'vitest';
import { renderPage } from '../../../lib/operator/run-report/render-page.ts';
import { anyCodePoint, fc, it } from '../../support/property.ts';
import { aRunView, eventfulRun, origin, pageEntries, readExample, someRequest, tinyRun } from './example-runs.ts';

const hostileFragments = [
  '</script>',
  '<script>alert(1)</script>',
  '<!--',
  '-->',
  '"',
  "'",
  '${',
  '&lt;',
  '\u2028',
  '\u202e',
  '\0',
  '\n',
  '\\',
  '\\u003c',
  '$&',
  "$'",
  '$`',
  '\ud800',
];
const fragment = fc.oneof(fc.constantFrom(...hostileFragments), fc.string({ unit: anyCodePoint, maxLength: 5 }));
const hostileText = fc.array(fragment, { minLength: 1, maxLength: 8 }).map((parts) => parts.join(''));

const dataElement = /<script type="application\/json" id="data">(.*?)<\/script>/s;

describe('a page of the run report', () => {
  it.prop([hostileText])('treats everything from outside as text', async (text) => {
    const status = aRunView({ export: text, folder: text });
    const request = { ...someRequest, service: text, filter: JSON.stringify({ [text]: text }) };
    const run = await readExample({ status, entries: pageEntries({ pages: 2 }) }, { request });
    const page = { ...origin, deployment: text, run };
    const html = renderPage(page);
    const json = dataElement.exec(html)?.[1] ?? '';
    expect(json).not.toMatch(/[<\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/u);
    expect(Object.keys(JSON.parse(json) as object)).toEqual(Object.keys(page));
    // Nothing else in the page depends on what comes from outside.
    const plain = renderPage({ ...origin, run: await readExample(tinyRun()) });
    expect(html.replace(json, () => '')).toBe(plain.replace(dataElement.exec(plain)?.[1] ?? '', () => ''));
  });

  it('allows only its own styles and scripts, and no network requests', async () => {
    const html = renderPage({ ...origin, run: await readExample(eventfulRun()) });
    const policy = /<meta\s+http-equiv="Content-Security-Policy"\s+content="([^"]*)"/.exec(html)?.[1] ?? '';
    const hashesOf = (name: string) =>
      [...html.matchAll(new RegExp(`<${name}>(.*?)</${name}>`, 'gs'))].map(
        ([, text = '']) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`,
      );
    expect(policy.split('; ')).toEqual([
      "default-src 'none'",
      `style-src ${hashesOf('style').join(' ')}`,
      `script-src ${hashesOf('script').join(' ')}`,
      'img-src data:',
      "base-uri 'none'",
      "form-action 'none'",
    ]);
    expect([hashesOf('style').length, hashesOf('script').length]).toEqual([2, 2]);
    // The policy applies only to what follows it.
    expect(html.indexOf('Content-Security-Policy')).toBeLessThan(html.search(/<(style|script|link)/));
    expect(html).not.toMatch(/<[^>]* (?:src|href)="(?!data:,")/);
  });

  it('includes the license of the charting library', async () => {
    const html = renderPage({ ...origin, run: await readExample(tinyRun()) });
    expect(html).toContain('/*! https://github.com/leeoniya/uPlot (v');
    expect(html).toContain('Permission is hereby granted, free of charge');
  });
});
