import { describe, expect, it } from 'vitest';
import { countLicenses, isAllowed, licenseProblems, licenseTexts } from '../../../bin/dependencies/licenses.ts';
import { type LockFile, packagesIn, readLockFile } from '../../../bin/dependencies/lock-file.ts';
import { billOfMaterials } from '../../../bin/dependencies/sbom.ts';

const project = { name: 'exporter', version: '2.0.0', license: 'MIT', dependencies: { a: '1.0.0' } };
const lock: LockFile = {
  packages: {
    '': { name: 'exporter', version: '2.0.0', dependencies: { a: '1.0.0' } },
    'node_modules/a': {
      version: '1.0.0',
      license: 'ISC',
      integrity: 'sha512-AAEC',
      dependencies: { '@s/b': '^1.0.0', absent: '^1.0.0' },
    },
    'node_modules/a/node_modules/@s/b': { version: '1.5.0', license: '(MIT OR GPL-3.0-or-later)' },
    'node_modules/@s/b': { version: '2.5.0', license: 'MIT', dev: true, dependencies: { a: '1.0.0' } },
    'node_modules/tool': { version: '3.0.0', license: 'MPL-2.0', dev: true },
  },
};
const packages = packagesIn(lock, ['node_modules/@s/b']);
const byFolder = Object.fromEntries(packages.map((each) => [each.folder, each]));

describe('the packages of a lock file', () => {
  it('are installed by users unless only development needs them, and depend on what Node.js would load', () => {
    expect(byFolder).toMatchObject({
      'node_modules/a': { name: 'a', isInstalled: true, dependsOn: ['node_modules/a/node_modules/@s/b'] },
      'node_modules/a/node_modules/@s/b': { name: '@s/b', version: '1.5.0', isInstalled: true, isBundled: false },
      'node_modules/@s/b': { version: '2.5.0', isInstalled: false, isBundled: true, dependsOn: ['node_modules/a'] },
      'node_modules/tool': { isInstalled: false, isBundled: false, isShipped: false },
    });
    expect(packages).toHaveLength(4);
  });

  it('must include what the functions contain', () => {
    expect(() => packagesIn(lock, ['node_modules/z'])).toThrow(
      'package-lock.json lacks node_modules/z. Run: npm install',
    );
  });
});

describe('the licenses', () => {
  const withLicense = (folder: string, license: string | undefined) =>
    packages.map((each) => (each.folder === folder ? { ...each, license } : each));

  it('are accepted if users may receive the package, or development use it', () => {
    expect(licenseProblems(packages)).toEqual([]);
  });

  it.each([
    ['node_modules/a', 'GPL-3.0-only', 'a@1.0.0 has the license GPL-3.0-only, which is not allowed for users'],
    ['node_modules/@s/b', 'MPL-2.0', '@s/b@2.5.0 has the license MPL-2.0, which is not allowed for users'],
    ['node_modules/tool', 'UNLICENSED', 'tool@3.0.0 has the license UNLICENSED, which is not allowed for development'],
    ['node_modules/tool', 'SEE LICENSE IN LICENSE', 'tool@3.0.0 has the license SEE LICENSE IN LICENSE'],
    ['node_modules/a', undefined, 'a@1.0.0 declares no license'],
  ])('are rejected: %s with %s', (folder, license, problem) => {
    expect(licenseProblems(withLicense(folder, license))).toEqual([expect.stringContaining(problem)]);
  });

  it.each([
    ['MIT', true],
    ['(MIT OR GPL-2.0)', true],
    ['(GPL-2.0 OR MIT)', true],
    ['MIT AND ISC', true],
    ['(MIT AND GPL-2.0)', false],
    ['GPL-2.0 OR LGPL-2.0', false],
    ['(MIT OR (ISC AND GPL-2.0))', false],
    ['mit', false],
    ['', false],
  ])('can be expressions: %j is allowed: %j', (expression, allowed) => {
    expect(isAllowed(expression, new Set(['MIT', 'ISC']))).toBe(allowed);
  });

  it('are counted, the most frequent first', () => {
    const [first, ...rest] = countLicenses([...packages, ...packages.filter(({ license }) => license === 'MPL-2.0')]);
    expect(first).toEqual(['MPL-2.0', 2]);
    expect(rest).toHaveLength(3);
  });

  const bundle = (folder: string) => licenseTexts(packagesIn(readLockFile(), [folder]));

  it('of bundled packages are in one file, with the text of each', () => {
    expect(bundle('node_modules/zod')).toMatch(
      /^The functions and the command line contain code [^]*\nzod 4\S+ \(MIT\)\n\n[^]*Permission is hereby/,
    );
  });

  it('have a text of our own if the package lacks the one that it asks to pass on', () => {
    expect(bundle('node_modules/saxes')).toContain('Isaac Z. Schlueter');
    expect(bundle('node_modules/@aws-lambda-powertools/logger')).toContain('License: MIT-0');
  });

  it('of a bundled package without any text are an error that says what to do', () => {
    const [saxes] = packagesIn(readLockFile(), ['node_modules/saxes']).filter(({ name }) => name === 'saxes');
    expect(() => licenseTexts(saxes === undefined ? [] : [{ ...saxes, name: 'other' }])).toThrow(
      /^node_modules\/saxes has no license text\. Add that of its repository as .*other\.txt$/,
    );
  });
});

describe('the software bill of materials', () => {
  const bom = JSON.parse(billOfMaterials(project, packages)) as {
    readonly serialNumber: string;
    readonly components: readonly {
      readonly purl: string;
      readonly properties: readonly { readonly name: string }[];
    }[];
    readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
  };

  it('has what users receive, and how, but no tools', () => {
    expect(
      bom.components.map(({ purl, properties }) => [purl, ...properties.map(({ name }) => name.split(':')[1])]),
    ).toEqual([
      ['pkg:npm/a@1.0.0', 'installed'],
      ['pkg:npm/%40s/b@1.5.0', 'installed'],
      ['pkg:npm/%40s/b@2.5.0', 'bundled'],
    ]);
    expect(bom.components[0]).toMatchObject({
      type: 'library',
      name: 'a',
      version: '1.0.0',
      licenses: [{ license: { id: 'ISC' } }],
      hashes: [{ alg: 'SHA-512', content: '000102' }],
    });
    expect(bom.components[1]).toMatchObject({
      group: '@s',
      name: 'b',
      licenses: [{ expression: '(MIT OR GPL-3.0-or-later)' }],
    });
  });

  it('has the dependencies of each, which are all components', () => {
    expect(bom.dependencies).toEqual([
      { ref: 'pkg:npm/exporter@2.0.0', dependsOn: ['pkg:npm/%40s/b@2.5.0', 'pkg:npm/a@1.0.0'] },
      { ref: 'pkg:npm/a@1.0.0', dependsOn: ['pkg:npm/%40s/b@1.5.0'] },
      { ref: 'pkg:npm/%40s/b@1.5.0', dependsOn: [] },
      { ref: 'pkg:npm/%40s/b@2.5.0', dependsOn: ['pkg:npm/a@1.0.0'] },
    ]);
  });

  it('is the same for the same packages, and has another serial number for others', () => {
    expect(bom.serialNumber).toMatch(/^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(billOfMaterials(project, packages)).toBe(billOfMaterials(project, packagesIn(lock, ['node_modules/@s/b'])));
    expect(JSON.parse(billOfMaterials(project, packages.slice(1))).serialNumber).not.toBe(bom.serialNumber);
  });

  it('of this project has every direct dependency, each component once', () => {
    const { components } = JSON.parse(billOfMaterials(project, packagesIn(readLockFile(), []))) as typeof bom;
    const purls = components.map(({ purl }) => purl);
    expect(new Set(purls).size).toBe(purls.length);
    const names = Object.keys(readLockFile().packages['']?.dependencies ?? {});
    expect(names.length).toBeGreaterThan(10);
    for (const name of names)
      expect(purls.some((purl) => purl.startsWith(`pkg:npm/${name.replace('@', '%40')}@`))).toBe(true);
  });
});
