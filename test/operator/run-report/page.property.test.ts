import { createHash } from 'node:crypto';
import { fc, it } from '@fast-check/vitest';
import { expect } from 'vitest';
import type { JsonObject } from '../../../lib/core/model.ts';
import type { Incident } from '../../../lib/core/operations/deployment.ts';
import { runReportHtml } from '../../../lib/operator/run-report/page.ts';
import { at } from '../../support/builders.ts';
import { aReportedRun, type ExampleRun, reportOn, walk } from './example-runs.ts';
import { elementsOf } from './file-parts.ts';

const fileOn = async (example: ExampleRun) => runReportHtml(await reportOn(example));

it.prop([hostile(), hostile(), hostile()])('takes whatever comes from outside for text', async (name, words, place) => {
  const harmless = skeletonOf(await fileOn(exampleWith('plain', 'plain', 'plain')));
  const file = await fileOn(exampleWith(name, words, place));
  expect(skeletonOf(file)).toEqual(harmless);
  const [data] = elementsOf(file, 'script').filter(({ whole }) => whole.startsWith('<script type='));
  expect(JSON.parse(data?.text ?? '')).toMatchObject({ firstPage: [1, 2, 3], attempts: [[expect.any(Number), 1]] });
  expect(data?.text).not.toMatch(/[<>\u2028\u2029]/);
});

/** Every place in the report that shows what comes from outside. */
function exampleWith(name: string, words: string, place: string): ExampleRun {
  const incidents: Incident[] = [
    { kind: 'failed-attempt', at: at('2026-11-20T02:00:01Z'), page: 2, error: name, message: words },
    { kind: 'failed-run', at: at('2026-11-20T02:00:09Z'), page: 3, error: words, message: name },
  ];
  const run = aReportedRun({
    export: name,
    state: 'failed',
    completedAt: null,
    manifest: place,
    folder: place,
    filter: { [name]: words, nested: [place] } as JsonObject,
    format: words,
    container: name,
  });
  const entries = [...walk(run, { pages: 3, bytes: (page) => page * 100 })].map((entry) => ({ ...entry, key: place }));
  return { run, entries, incidents, occasion: { place, option: words } };
}

/** The file's elements and attributes' names, and all that runs and styles in it. */
function skeletonOf(file: string): unknown {
  const code = ['style', 'script']
    .flatMap((name) => elementsOf(file, name))
    .filter(({ whole }) => !whole.startsWith('<script type='));
  const markup = code.reduce((rest, { text }) => rest.replace(text, () => ''), file);
  const tags = [...markup.matchAll(/<[^>]*>/g)].map(([tag]) => tag.replaceAll(/"[^"]*"/g, '""'));
  return { tags, code: code.map(({ text }) => createHash('sha256').update(text).digest('hex')) };
}

function hostile() {
  const fragments = [
    '</script>',
    '<script>alert(1)</script>',
    '<!--',
    '-->',
    ']]>',
    '<img src=x onerror=alert(1)>',
    '"',
    "'",
    '`',
    '${',
    '&lt;',
    '&#39;',
    '<',
    '>',
    '&',
    '\u2028',
    '\u2029',
    '\u202e',
    '\0',
    '\n',
    '\\',
    '\\u003c',
    ' onload=alert(1) ',
    'javascript:alert(1)',
    '$&',
    "$'",
    '$`',
    '\ud800',
    '</style>',
    '</title>',
    '</noscript>',
    '/*',
    '*/',
  ];
  const fragment = fc.oneof(fc.constantFrom(...fragments), fc.string({ unit: 'binary', maxLength: 5 }));
  return fc.array(fragment, { minLength: 1, maxLength: 8 }).map((parts) => parts.join(''));
}
