/** Which module may import what, and that arrows only point down (docs/architecture.md, "Modules and imports"). */

import { globSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');

interface Module {
  /** Other modules, by folder. A module may always import itself. */
  readonly modules: readonly string[];
  /** Packages, by name or as `@scope/*`. Built-ins of Node.js are open to all, except those in `exclusiveBuiltins`. */
  readonly packages: readonly string[];
  /** Built-ins that only this module may import. */
  readonly builtins?: readonly string[];
}

/** Modules and entry points. */
const importTable: Readonly<Record<string, Module>> = {
  'lib/core': { modules: [], packages: ['zod'] },
  'lib/service/api': { modules: ['lib/core'], packages: ['zod'] },
  'lib/settings': { modules: ['lib/core', 'lib/service/api'], packages: ['zod', '@humanwhocodes/momoa'] },
  'lib/service': {
    modules: ['lib/core', 'lib/settings', 'lib/service/api'],
    packages: ['jose', 'undici', 'saxes', 'stream-json', 'stream-chain', 'zod'],
  },
  'lib/local': {
    modules: ['lib/core', 'lib/settings', 'lib/service'],
    packages: ['zod'],
    builtins: ['node:sqlite'],
  },
  'lib/aws': {
    modules: ['lib/core', 'lib/settings', 'lib/service'],
    packages: ['@aws-sdk/*', '@smithy/core', '@aws-lambda-powertools/*', 'aws-lambda', 'zod'],
  },
  'lib/operator': {
    modules: ['lib/core', 'lib/settings', 'lib/service', 'lib/local', 'lib/aws'],
    packages: ['zod', 'uplot'],
  },
  'lib/cdk': {
    modules: ['lib/core', 'lib/settings', 'lib/service/api'],
    packages: ['aws-cdk-lib', 'constructs', 'esbuild', 'zod'],
  },
  'lib/api': { modules: ['lib/core', 'lib/settings', 'lib/cdk'], packages: ['zod'] },
  functions: {
    modules: ['lib/aws', 'lib/core', 'lib/settings', 'lib/service'],
    packages: ['@aws-sdk/*'],
  },
  bin: {
    modules: ['lib/operator', 'lib/cdk'],
    packages: ['commander', 'esbuild', 'aws-cdk-lib', 'constructs', 'cdk-nag'],
  },
};

/**
 * The layers of each module, lowest first: a layer may import itself and those before it. A layer is a folder or a
 * file;
 * `.` is every file that no other layer names.
 */
const layers: Readonly<Record<string, readonly string[]>> = {
  'lib/core': ['.', 'schema', 'state-machine', 'storage', 'parents', 'slots', 'start', 'steps'],
  'lib/settings': ['.'],
  'lib/service/api': [
    'header-names.ts',
    'response-facts.ts',
    'paths.ts',
    'condition.ts',
    'request.ts',
    'page.ts',
    'next',
    '.',
  ],
  'lib/service': ['redaction', 'formats', 'network', 'client', 'simulator'],
  'lib/local': ['settings.ts', 'durable-fs.ts', 'sqlite', 'lock.ts', 'page-store.ts', '.'],
  'lib/aws': ['.', 'dynamodb', 's3', 'step-functions', 'lambda', 'stack'],
  'lib/operator': [
    'target.ts',
    'run-view.ts',
    'verify-run.ts',
    'bounded-start.ts',
    'plan-run.ts',
    'abandon-run.ts',
    'output',
    'plan',
    'run-report',
    '.',
    'commands',
  ],
  'lib/cdk': ['function-limits.ts', 'settings', 'code', '.'],
  'lib/api': ['.'],
};

const maxFilesPerFolder = 15;

const exclusiveBuiltins = new Set(Object.values(importTable).flatMap(({ builtins = [] }) => builtins));

interface Import {
  readonly file: string;
  /** As written: a package, a built-in or a relative path. */
  readonly specifier: string;
}

const exclude = ['**/node_modules'];
const filesIn = (folder: string): string[] => globSync(`${folder}/**/*.{ts,mjs}`, { cwd: root, exclude }).sort();
/** Without those of a module inside it. */
const sourceFiles = (folder: string): string[] =>
  filesIn(folder).filter((file) => moduleOf(file) === moduleOf(`${folder}/`));
/** The module of a file: the most specific one. */
const moduleOf = (file: string): string | undefined =>
  Object.keys(importTable)
    .filter((module) => file.startsWith(`${module}/`))
    .sort((one, other) => other.length - one.length)[0];
const allSourceFiles = (): string[] => ['lib', 'functions', 'bin'].flatMap(filesIn);

/** Every static, dynamic and type import of `file`, and every re-export. */
function importsOf(file: string): Import[] {
  const text = readFileSync(join(root, file), 'utf8');
  const found = text.matchAll(/(?:\bfrom\s+|\bimport\s+|\bimport\(\s*|\brequire\(\s*)(['"])([^'"\n]+)\1/g);
  return [...found].map(([, , specifier = '']) => ({ file, specifier }));
}

/** The imported file, by its path in the repository; undefined for packages and built-ins. */
function importedFile({ file, specifier }: Import): string | undefined {
  return specifier.startsWith('.') ? relative(root, join(root, dirname(file), specifier)) : undefined;
}

/** A description of the import if the table forbids it, otherwise undefined. */
function forbiddenByTable(module: string, allowed: Module, each: Import): string | undefined {
  const { file, specifier } = each;
  const target = importedFile(each);
  if (target !== undefined) {
    const isAllowed = [module, ...allowed.modules].some((folder) => target.startsWith(`${folder}/`));
    return isAllowed ? undefined : `${file} imports ${target}`;
  }
  const isAllowed = specifier.startsWith('node:')
    ? !exclusiveBuiltins.has(specifier) || allowed.builtins?.includes(specifier) === true
    : allowed.packages.some((name) => specifier === name || specifier.startsWith(`${name.replace(/\/\*$/, '')}/`));
  return isAllowed ? undefined : `${file} imports ${specifier}`;
}

/** The position of `file` among the layers of its module; the most specific name counts. */
function layerOf(module: string, file: string): number {
  const order = layers[module] ?? [];
  const path = file.slice(module.length + 1);
  const [mostSpecific = '.'] = order
    .filter((layer) => path === layer || path.startsWith(`${layer}/`))
    .sort((a, b) => b.length - a.length);
  return order.indexOf(mostSpecific);
}

/** A description of the import if it points to a higher layer of the same module, otherwise undefined. */
function forbiddenByLayers(module: string, each: Import): string | undefined {
  const target = importedFile(each);
  if (target === undefined || !target.startsWith(`${module}/`)) return undefined;
  return layerOf(module, target) > layerOf(module, each.file) ? `${each.file} imports ${target}` : undefined;
}

/** Each import cycle as `a → b → a`, found by a depth-first search. */
function cyclesIn(imports: ReadonlyMap<string, readonly string[]>): string[] {
  const cycles: string[] = [];
  const done = new Set<string>();
  const visit = (file: string, path: readonly string[]): void => {
    const start = path.indexOf(file);
    if (start >= 0) {
      cycles.push([...path.slice(start), file].join(' → '));
      return;
    }
    if (done.has(file)) return;
    for (const target of imports.get(file) ?? []) visit(target, [...path, file]);
    done.add(file);
  };
  for (const file of imports.keys()) visit(file, []);
  return cycles;
}

describe('the import table', () => {
  it('names every module and every folder of entry points', () => {
    const modules = new Set(allSourceFiles().map((file) => moduleOf(file) ?? file));
    expect([...modules].sort()).toEqual(Object.keys(importTable).sort());
  });

  it.each(Object.entries(importTable))('holds for %s', (module, allowed) => {
    const imports = sourceFiles(module).flatMap(importsOf);
    expect(imports.length).toBeGreaterThan(0);
    expect(imports.map((each) => forbiddenByTable(module, allowed, each)).filter(Boolean)).toEqual([]);
  });
});

describe('the layers of a module', () => {
  it('are defined for every module, and exist', () => {
    const modules = Object.keys(importTable).filter((module) => module.startsWith('lib/'));
    expect(Object.keys(layers).sort()).toEqual(modules.sort());
    for (const [module, order] of Object.entries(layers)) {
      const used = new Set(sourceFiles(module).map((file) => order[layerOf(module, file)]));
      expect(used, `${module}`).toEqual(new Set(order));
    }
  });

  it.each(Object.keys(layers))('are respected in %s', (module) => {
    const imports = sourceFiles(module).flatMap(importsOf);
    expect(imports.map((each) => forbiddenByLayers(module, each)).filter(Boolean)).toEqual([]);
  });
});

it('the rules find what they forbid', () => {
  const core = importTable['lib/core'] as Module;
  const file = 'lib/core/storage/keys.ts';
  const forbidden = ['@aws-sdk/client-s3', '../../operator/progress.ts', 'node:sqlite'];
  for (const specifier of forbidden) expect(forbiddenByTable('lib/core', core, { file, specifier })).toBeDefined();
  expect(forbiddenByTable('lib/core', core, { file, specifier: '../errors.ts' })).toBeUndefined();
  expect(forbiddenByLayers('lib/core', { file, specifier: '../steps/begin-run.ts' })).toBeDefined();
  expect(forbiddenByLayers('lib/core', { file, specifier: '../errors.ts' })).toBeUndefined();
  const imports = { a: ['b'], b: ['c', 'd'], c: ['b'], d: [] };
  expect(cyclesIn(new Map(Object.entries(imports)))).toEqual(['b → c → b']);
});

describe('the source files', () => {
  it('import each other without cycles, type imports included', () => {
    const imports = new Map(
      allSourceFiles().map((file) => [
        file,
        importsOf(file)
          .map(importedFile)
          .filter((target) => target !== undefined),
      ]),
    );
    expect(cyclesIn(imports)).toEqual([]);
  });

  it(`share a folder of lib with at most ${maxFilesPerFolder - 1} others`, () => {
    const folders = new Set(globSync('lib/**/*.*', { cwd: root, exclude }).map(dirname));
    const sizes = [...folders].map((folder) => ({
      folder,
      files: readdirSync(join(root, folder), { withFileTypes: true }).filter((entry) => entry.isFile()).length,
    }));
    expect(sizes.length).toBeGreaterThan(20);
    expect(sizes.filter(({ files }) => files > maxFilesPerFolder)).toEqual([]);
  });

  it('that status loads are neither the client of the service nor its simulator, which take long to load', () => {
    const loaded = new Set(['commands/status.ts', 'context.ts'].map((file) => `lib/operator/${file}`));
    loaded.add('lib/aws/stack/stack.ts').add('lib/local/directory.ts');
    const packages = new Set<string>();
    for (const file of loaded) {
      const text = readFileSync(join(root, file), 'utf8');
      for (const [, specifier = ''] of text.matchAll(/^(?:import|export) (?!type\b)[^;]*?from '([^']+)';/gm)) {
        const target = importedFile({ file, specifier });
        if (target === undefined) packages.add(specifier);
        else loaded.add(target);
      }
    }
    expect(loaded.size).toBeGreaterThan(50);
    expect([...packages].filter((name) => name.startsWith('undici'))).toEqual([]);
    expect([...loaded].filter((file) => /^lib\/service\/(client\/client|simulator|formats)/.test(file))).toEqual([]);
  });

  it('of lib read neither environment variables nor arguments: entry points pass them in', () => {
    const readers = filesIn('lib').filter((file) =>
      /\bprocess\.(env|argv)\b/.test(readFileSync(join(root, file), 'utf8')),
    );
    expect(readers).toEqual([]);
  });
});
