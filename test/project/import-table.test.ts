/** Holds the house to its plan: which room may import what (docs/development.md, "The rooms"). */

import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');

interface Room {
  /** Other rooms, by their folder. A room may always import itself. */
  readonly rooms: readonly string[];
  /** Packages, by name or by a prefix that ends in a slash; node: built-ins are open to all. */
  readonly packages: readonly string[];
  /** Built-ins that only this room may use. */
  readonly builtins?: readonly string[];
}

const plan: Readonly<Record<string, Room>> = {
  'lib/core': { rooms: [], packages: ['zod'] },
  'lib/report-service': { rooms: ['lib/core'], packages: ['undici', 'saxes'] },
  'lib/local': {
    rooms: ['lib/core', 'lib/report-service'],
    packages: ['aws-local-stepfunctions', 'zod'],
    builtins: ['node:sqlite'],
  },
  'lib/operator': {
    rooms: ['lib/core', 'lib/report-service', 'lib/local', 'lib/aws'],
    packages: ['zod', 'uplot', 'open'],
  },
  'lib/aws': {
    rooms: ['lib/core', 'lib/report-service'],
    packages: ['@aws-sdk/', '@aws-lambda-powertools/', 'aws-lambda', 'croner', 'zod'],
  },
  functions: { rooms: ['lib/aws', 'lib/core', 'lib/report-service'], packages: ['@aws-sdk/'] },
  'lib/cdk': { rooms: ['lib/core'], packages: ['aws-cdk-lib', 'constructs', 'zod'] },
  bin: {
    rooms: ['lib/operator', 'lib/cdk'],
    packages: ['commander', 'aws-cdk-lib', 'constructs', 'cdk-nag'],
  },
};

const guarded = new Set(Object.values(plan).flatMap(({ builtins = [] }) => builtins));

interface Import {
  readonly file: string;
  readonly target: string;
}

function sourcesOf(room: string): string[] {
  return globSync(`${room}/**/*.ts`, { cwd: root });
}

/** Every static and dynamic import, and every re-export, of `file`. */
function importsOf(file: string): Import[] {
  const text = readFileSync(join(root, file), 'utf8');
  const found = text.matchAll(/(?:\bfrom\s+|\bimport\s+|\bimport\(\s*|\brequire\(\s*)(['"])([^'"\n]+)\1/g);
  return [...found].map(([, , target]) => ({ file, target: target ?? '' }));
}

/** What is wrong with an import of `room`, or undefined. */
function strangerIn(
  room: string,
  { rooms, packages, builtins = [] }: Room,
  { file, target }: Import,
): string | undefined {
  if (target.startsWith('.')) {
    const path = relative(root, join(root, dirname(file), target));
    return [room, ...rooms].some((open) => path.startsWith(`${open}/`)) ? undefined : `${file} imports ${path}`;
  }
  if (target.startsWith('node:')) {
    return guarded.has(target) && !builtins.includes(target) ? `${file} imports ${target}` : undefined;
  }
  return packages.some((open) => target === open || target.startsWith(`${open.replace(/\/$/, '')}/`))
    ? undefined
    : `${file} imports ${target}`;
}

describe('the import table', () => {
  it('names every room of the house', () => {
    const rooms = new Set(
      [...sourcesOf('lib'), ...sourcesOf('bin'), ...sourcesOf('functions')].map((file) =>
        file.startsWith('lib/') ? file.split('/').slice(0, 2).join('/') : (file.split('/')[0] ?? ''),
      ),
    );
    expect([...rooms].sort()).toEqual(Object.keys(plan).sort());
  });

  it.each(Object.entries(plan))('holds for %s', (room, allowed) => {
    const imports = sourcesOf(room).flatMap(importsOf);
    expect(imports.length).toBeGreaterThan(0);
    expect(imports.map((each) => strangerIn(room, allowed, each)).filter(Boolean)).toEqual([]);
  });

  it('lets the environment in by the front door only', () => {
    const readers = [...sourcesOf('lib')].filter((file) =>
      /\bprocess\.(env|argv)\b/.test(readFileSync(join(root, file), 'utf8')),
    );
    expect(readers).toEqual([]);
  });

  it('would notice a stranger', () => {
    const core = plan['lib/core'] as Room;
    const notice = (target: string) => strangerIn('lib/core', core, { file: 'lib/core/model.ts', target });
    expect(notice('@aws-sdk/client-s3')).toBeDefined();
    expect(notice('../operator/progress.ts')).toBeDefined();
    expect(notice('node:sqlite')).toBeDefined();
    expect(notice('zod')).toBeUndefined();
    expect(notice('./errors.ts')).toBeUndefined();
  });
});
