import { createHash } from 'node:crypto';
import { expect } from 'vitest';
import type { JsonObject } from '../../../lib/core/model.ts';
import { renderExportIndex, renderOverview } from '../../../lib/operator/run-report/list-pages.ts';
import { type RunContext, renderRunReport } from '../../../lib/operator/run-report/run-report.ts';
import { at } from '../../support/builders.ts';
import { fc, it } from '../../support/property.ts';
import { collectExample, type ExampleRun, pageEntries, someRunFacts } from './example-runs.ts';
import { aHistory, aHistoryRun, anExportIndex, origin } from './example-histories.ts';
import { elementsOf } from './html-elements.ts';

const renderExample = async (example: ExampleRun, context?: RunContext) =>
  renderRunReport(await collectExample(example), context);

it.prop([hostileText(), hostileText(), hostileText()])(
  'treats everything from outside as text',
  async (name, text, path) => {
    const expected = structureOf(
      await renderExample(exampleWith('plain', 'plain', 'plain'), contextWith('plain', 'plain')),
    );
    const file = await renderExample(exampleWith(name, text, path), contextWith(name, text));
    expect(structureOf(file)).toEqual(expected);
    const [data] = elementsOf(file, 'script').filter(({ whole }) => whole.startsWith('<script type='));
    expect(JSON.parse(data?.text ?? '')).toMatchObject({ firstPage: [1, 2, 3], attempts: [expect.any(Number)] });
    expect(data?.text).not.toMatch(/[<>\u2028\u2029]/);
  },
);

it.prop([hostileText(), hostileText()])('treats everything from outside as text in the indexes', (name, text) => {
  const render = (name: string, text: string) => [
    renderExportIndex(
      anExportIndex(contextWith(name, text).history ?? aHistory(), {
        export: name,
        unreadable: new Map([[someRunFacts().run, { name, message: text }]]),
      }),
      { addressOf: () => 'run.html', origin: { ...origin, deployment: text } },
    ),
    renderOverview([{ entry: { export: name, service: text, error: { name, message: text } }, index: null }], origin),
  ];
  expect(render(name, text).map(structureOf)).toEqual(render('plain', 'plain').map(structureOf));
});

const contextWith = (name: string, text: string): RunContext => {
  const error = { name, message: text };
  return { history: aHistory({ runs: [aHistoryRun(1)], error }) };
};

const delays = (page: number) => (page === 2 ? { failedAttempts: 1 } : {});

/** Inserts the values everywhere the run report shows something from outside. */
function exampleWith(name: string, text: string, path: string): ExampleRun {
  const run = someRunFacts({
    export: name,
    state: 'failed',
    completedAt: null,
    lastIncident: { kind: 'failed-run', at: at('2026-11-20T02:00:09Z'), error: text, message: name },
    manifest: path,
    folder: path,
    request: { source: path, filter: { [name]: text, nested: [path] } as JsonObject, format: text, container: name },
  });
  const entries = [...pageEntries(run, { pages: 3, bytes: (page) => page * 100, delays })].map((entry) => ({
    ...entry,
    key: path,
  }));
  return { run, entries, origin: { deployment: path, deploymentOption: text } };
}

/** The tags of the file without attribute values, and the hashes of its styles and scripts. */
function structureOf(file: string): unknown {
  const code = ['style', 'script']
    .flatMap((name) => elementsOf(file, name))
    .filter(({ whole }) => !whole.startsWith('<script type='));
  const markup = code.reduce((rest, { text }) => rest.replace(text, () => ''), file);
  const tags = [...markup.matchAll(/<[^>]*>/g)].map(([tag]) => tag.replaceAll(/"[^"]*"/g, '""'));
  return { tags, code: code.map(({ text }) => createHash('sha256').update(text).digest('hex')) };
}

function hostileText() {
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
