/** On an unsupported Node.js, every command ends with one line that says what to do. */

import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');

interface PackageJson {
  readonly bin: Readonly<Record<string, string>>;
  readonly scripts: Readonly<Record<string, string>>;
}

const { bin, scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as PackageJson;

/** Runs `script` of `bin` in a checkout that requires the given version, with an empty command line. */
function runIn({ requiredNode }: { readonly requiredNode: string }, script: string) {
  const copy = mkdtempSync(join(tmpdir(), 'require-node-'));
  try {
    mkdirSync(join(copy, 'bin'));
    for (const file of ['require-node.mjs', 'report-exporter.mjs']) {
      copyFileSync(join(root, 'bin', file), join(copy, 'bin', file));
    }
    writeFileSync(join(copy, 'bin/report-exporter.ts'), '');
    const devEngines = { runtime: { name: 'node', version: requiredNode } };
    writeFileSync(join(copy, 'package.json'), JSON.stringify({ type: 'module', devEngines }));
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(copy, 'bin', script)], { encoding: 'utf8' });
    return { status, stdout, stderr };
  } finally {
    rmSync(copy, { recursive: true });
  }
}

describe('the check of the Node.js version', () => {
  it.each(['require-node.mjs', 'report-exporter.mjs'])('stops %s with one line on an older version', (script) => {
    expect(runIn({ requiredNode: '>=999' }, script)).toEqual({
      status: 1,
      stdout: '',
      stderr:
        `Error: report-exporter needs Node.js 999 or later, but this is ${process.version}. Run "npm ci ` +
        '--ignore-scripts=false --include=dev", which installs a suitable Node.js here, or install Node.js 999 and try again.\n',
    });
  });

  it('passes silently on a supported version', () => {
    expect(runIn({ requiredNode: '>=24' }, 'require-node.mjs')).toEqual({ status: 0, stdout: '', stderr: '' });
  });

  it('comes before every command', () => {
    expect(Object.values(bin)).toEqual(['bin/report-exporter.mjs']);
    // `dependencies` runs on any version, `prepack` calls `build`, and `cdk` starts the app of cdk.json.
    const { dependencies, prepack, cdk, ...commands } = scripts;
    const { app } = JSON.parse(readFileSync(join(root, 'cdk.json'), 'utf8')) as { readonly app: string };
    const unchecked = Object.entries({ ...commands, app }).filter(
      ([, command]) => !/^node bin\/(require-node\.mjs && |report-exporter\.mjs )/.test(command),
    );
    expect({ unchecked, dependencies, prepack, cdk }).toEqual({
      unchecked: [],
      dependencies: expect.any(String),
      prepack: 'npm run build',
      cdk: 'cdk',
    });
  });
});
