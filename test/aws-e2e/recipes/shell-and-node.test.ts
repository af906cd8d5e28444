/** The recipes for the shell and for Node.js, on a stack, with exactly the permissions in the consumer guide. */

import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, inject, it } from 'vitest';
import { recipe } from '../../support/docs/recipes.ts';
import type { Manifest } from '../../support/export/export-bench.ts';
import { pythonEnvironment } from '../emulators/python.ts';
import { addAbandonedRun, type ConsumedExport, exportInBucket, reportNow } from '../support/consumed-export.ts';

const hasJq = await promisify(execFile)('jq', ['--version']).then(
  () => true,
  () => false,
);

describe('a copy of the runs of a stack', () => {
  let consumed: ConsumedExport;
  let first: Manifest;
  beforeAll(async () => {
    consumed = await exportInBucket('copied');
    first = await consumed.publish(['r1', 'r2', 'r3'].map((id) => reportNow(id)));
    await addAbandonedRun(consumed, first);
    await consumed.publish([]);
  });

  const programs = [
    ['shell/catch-up.sh', 'bash'],
    ['node/catch-up.ts', process.execPath],
  ] as const;
  it.each(programs.slice(hasJq ? 0 : 1))('is made by %s', async (file, command) => {
    const copy = await mkdtemp(join(inject('workDirectory'), 'copy-'));
    // For the AWS CLI.
    const env = { PATH: [dirname(await pythonEnvironment()), dirname(process.execPath), process.env.PATH].join(':') };
    const copyRuns = (exportName = consumed.name) =>
      consumed.run(command, [recipe(file), `${consumed.source}/`, exportName, copy], { env });
    // An interrupted start has left a page with other content of the same size.
    const { key = '', storedBytes = 0 } = first.pages[1] ?? {};
    const staged = join(copy, command === 'bash' ? '.incoming' : '.incoming-node', key);
    await mkdir(dirname(staged), { recursive: true });
    await writeFile(staged, Buffer.alloc(storedBytes));
    // The AWS CLI compares only the size of a file that is not newer than the object.
    await utimes(staged, 0, 0);
    const output = (await copyRuns().catch(String)) + (await copyRuns());
    // The AWS CLI kept the page, so the shell program has to delete it.
    expect(output.includes(`${key}: FAILED`)).toBe(command === 'bash');
    expect(output).toMatch(/run \S+: 2 pages\nrun \S+: 1 pages\n$/);
    expect(await copyRuns()).toBe('');

    const latest = await readFile(join(copy, `${consumed.name}/latest.json`), 'utf8');
    expect(JSON.parse(latest)).toEqual(JSON.parse(await consumed.read(`${consumed.name}/latest.json`)));
    const { manifest } = JSON.parse(latest) as { manifest: string };
    expect(await readFile(join(copy, manifest), 'utf8')).toBe(await consumed.read(manifest));
    // Readers of one export are denied access to another, which must not look like an export without runs.
    await expect(copyRuns('daily')).rejects.toThrow(/AccessDenied|Access Denied/);
  });
});
