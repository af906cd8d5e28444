/** `report-exporter local` and the program itself. As processes: processes.slow.test.ts. */

import { createHash } from 'node:crypto';
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { listen } from '../support/service/loopback.ts';
import { aDirectory, jsonOf, readManifest, runInProcess } from '../support/process/command-line.ts';

/** The address of a service that has ended. */
async function closedPort(): Promise<string> {
  const gone = await listen(createServer());
  await gone[Symbol.asyncDispose]();
  return gone.url;
}

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

describe('report-exporter local', () => {
  it('exports from the simulator to published XML, and summarizes the run', async () => {
    const out = await aDirectory();
    const ended = await runInProcess(['local', '--out', out]);
    expect(ended).toMatchObject({ status: 0 });
    expect(ended.stdout).toMatch(/^20\S+Z Completed: reports \(3 pages, 25\d reports, [\d.]+ kB in [\d.]+ s\)\n/);
    expect(ended.stdout).toContain(join(out, 'reports/date='));
    expect(ended.stderr).toMatch(/^20\S+Z Using a simulated service at http:\/\/127\.0\.0\.1:\d+\n/);
    expect(ended.stderr).toMatch(
      /^20\S+Z Run \d{8}T\d{6}Z-[0-9a-f]{12}: exporting "reports" since 1970-01-01T00:00:00Z$/m,
    );
    expect(ended.stderr).not.toContain('\x1b');

    const latest = JSON.parse(await readFile(join(out, 'reports/latest.json'), 'utf8'));
    const manifest = await readManifest(join(out, latest.manifest));
    expect(manifest.pages).toHaveLength(3);
    for (const { key, bytes, sha256: expected } of manifest.pages) {
      const body = await readFile(join(out, key));
      expect({ bytes: body.length, sha256: sha256(body) }).toEqual({ bytes, sha256: expected });
    }
    const folder = join(out, latest.manifest, '..');
    expect((await readdir(folder)).sort()).toEqual([
      'manifest.json',
      'page-000001.xml',
      'page-000002.xml',
      'page-000003.xml',
      'run.json',
    ]);
  });

  it('stores pages as gzip files with --compress, which every command reads, and remembers it', async () => {
    const out = await aDirectory();
    const ended = await runInProcess(['local', '--out', out, '--compress', '--json']);
    expect(ended).toMatchObject({ status: 0 });
    const { pages, compression } = await readManifest(jsonOf(ended).manifest ?? '');
    expect(compression).toBe('gzip');
    let reports = 0;
    for (const { key, bytes, sha256: expected, storedBytes, storedSha256 } of pages) {
      expect(key).toMatch(/\/page-\d{6}\.xml\.gz$/);
      const object = await readFile(join(out, key));
      expect({ bytes: object.length, sha256: sha256(object) }).toEqual({ bytes: storedBytes, sha256: storedSha256 });
      const page = gunzipSync(object);
      expect({ bytes: page.length, sha256: sha256(page) }).toEqual({ bytes, sha256: expected });
      reports += page.toString().match(/<report /g)?.length ?? 0;
    }
    expect(reports).toBe(jsonOf(ended).reports);
    expect((await runInProcess(['verify', '--out', out])).stdout).toMatch(/^Verified: /);

    const again = jsonOf(await runInProcess(['start', 'reports', '--out', out, '--json']));
    expect(await readManifest(again.manifest ?? '')).toMatchObject({ compression: 'gzip' });
  });

  it('reports all problems of its options at once, each by its option, and exits with 2', async () => {
    const wrong = {
      '--base-url': 'http://reports.example.com',
      '--vendor': 'A B',
      '--size': '0',
      '--since': 'yesterday',
      '--cursor-in': 'header',
      '--filter-until': 'date.lte',
      '--max-attempts': '0',
      '--export': 'a/b',
    };
    const ended = await runInProcess([
      'local',
      '--sise',
      '3',
      ...Object.entries(wrong).map(([option, value]) => `${option}=${value}`),
    ]);
    expect(ended.status).toBe(2);
    const named = [...Object.keys(wrong), '--sise: no such option'];
    expect(ended.stderr).toMatch(/^Error: 9 problems:\n/);
    for (const problem of named) expect(ended.stderr).toContain(`  ${problem}`);
    expect(ended.stderr).toMatch(/\nFor help: npx --no -- report-exporter local --help\n$/);
    expect(ended.stdout).toBe('');
  });

  it('reports an option without its value together with all other problems', async () => {
    const ended = await runInProcess(['local', '--json', '--vendor=A B', '--size']);
    expect(ended.status).toBe(2);
    expect(jsonOf(ended).error?.message).toMatch(/--size: needs a value\n--vendor: must be/);
    for (const option of ['--settings', '--out', '--since', '--max-attempts']) {
      const { status, stderr } = await runInProcess(['local', option, '']);
      expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringContaining(`${option}: needs a value\n`) });
    }
  });

  it('reports an option that is given twice', async () => {
    const words = ['--size', '3', '--vendor=A B', '--size=4', '--size=5', '--json', '--json'];
    const ended = await runInProcess(['local', ...words]);
    expect(ended.status).toBe(2);
    expect(jsonOf(ended).error?.message).toMatch(/^--size: is given more than once\n--vendor: must be.*$/);
  });

  it('reports a directory or a state file that cannot be used, and exits with 2', async () => {
    const out = await aDirectory();
    await writeFile(join(out, 'file'), '');
    await writeFile(join(out, 'state.sqlite'), 'no database, but long enough to be read as one '.repeat(20));
    for (const [directory, message] of [
      [join(out, 'file'), `Could not create ${join(out, 'file')}`],
      [join(out, 'file/below'), join(out, 'file')],
      [out, join(out, 'state.sqlite')],
    ] as const) {
      const ended = await runInProcess(['local', '--out', directory]);
      expect(ended).toMatchObject({ status: 2, stdout: '', stderr: expect.stringContaining(message) });
      expect(ended.stderr).not.toContain('    at ');
    }
  });

  it('tries as often as --max-attempts allows, and says so', async () => {
    const out = await aDirectory();
    const options = ['--out', out, '--base-url', await closedPort()];
    const env = { REPORT_EXPORT_API_KEY: 'a-key-without-a-service' };
    const single = await runInProcess(['local', ...options, '--max-attempts', '1', '--json'], env);
    expect(single.status).toBe(1);
    expect(jsonOf(single).error).toMatchObject({
      name: 'ServiceUnreachableError',
      message: expect.stringMatching(
        /refused the connection \(ECONNREFUSED\) for page 1 .*\. Check the host name and the port/,
      ),
    });
    expect(single.stderr).not.toMatch(/Retrying|Gave up/);
    const again = await runInProcess(['start', '--out', out, '--max-attempts=1'], env);
    expect(again).toMatchObject({ status: 1, stderr: expect.not.stringMatching(/Retrying|Gave up/) });
    const deployed = await runInProcess(['start', '--stack', 'Reports', '--max-attempts', '3']);
    const stderr = expect.stringContaining('--max-attempts: applies to local runs');
    expect(deployed).toMatchObject({ status: 2, stderr });
  });

  it('refuses a name that differs from that of another export only in case', async () => {
    const out = await aDirectory();
    expect(await runInProcess(['local', '--out', out, '--export', 'nightly'])).toMatchObject({ status: 0 });
    await rm(join(out, 'report-exporter.json'));
    const local = ['local', '--out', out, '--export', 'Nightly'];
    const message =
      `Nightly: ${out} has the export nightly already, and where file names ignore case, both would share a folder. ` +
      'Choose a name that differs in more than case, or another directory';
    expect(await runInProcess(local)).toMatchObject({ status: 2, stderr: expect.stringContaining(message) });
    // Without its state, it still has its folder.
    await rename(join(out, 'state.sqlite'), join(out, 'moved.sqlite'));
    expect(await runInProcess(local)).toMatchObject({ status: 2, stderr: expect.stringContaining(message) });
    expect(await readdir(out)).not.toContain('Nightly');
  });
});

describe('report-exporter local with bounds and slices', () => {
  const until = ['--filter-until', 'date.lt'];
  const bounds = ['--since', '2026-01-01', '--until', '2026-01-11'];

  it('exports a period in a bounded run with slices, once', async () => {
    const out = await aDirectory();
    const local = ['local', '--out', out, ...until];
    const ended = await runInProcess([...local, ...bounds, '--parallel', '4', '--slice', 'P1D', '--json']);
    expect(ended).toMatchObject({ status: 0 });
    expect(jsonOf(ended)).toMatchObject({
      status: 'completed',
      since: '2026-01-01T00:00:00Z',
      until: '2026-01-11T00:00:00Z',
      bounded: true,
      slices: { done: 10, count: 10 },
      watermark: null,
    });
    expect(ended.stderr).toContain('since 2026-01-01T00:00:00Z until 2026-01-11T00:00:00Z in 10 slices');

    const again = await runInProcess([...local, ...bounds]);
    expect(again).toMatchObject({
      status: 0,
      stdout: expect.stringContaining(`Done: reports\n  run ${jsonOf(ended).run} has`),
    });
    expect(await runInProcess(['start', '--out', out, '--since', '2026-01-10', '--until', '2026-01-12'])).toMatchObject(
      {
        status: 2,
        stderr: expect.stringContaining(`overlap the bounded run ${jsonOf(ended).run} of export reports`),
      },
    );
    expect(await runInProcess([...local, ...bounds, '--again', '--json'])).toMatchObject({ status: 0 });
  });

  it('exports a period in bounded runs, one after the other, and later starts without them', async () => {
    const out = await aDirectory();
    const series = ['--out', out, ...bounds, '--each', 'P5D'];
    const ended = await runInProcess(['local', ...until, ...series]);
    expect(ended).toMatchObject({ status: 0, stderr: expect.stringContaining('2 bounded runs are left') });
    expect(ended.stdout.match(/bounded run from .*/g)).toEqual([
      'bounded run from 2026-01-01T00:00:00Z to 2026-01-06T00:00:00Z',
      'bounded run from 2026-01-06T00:00:00Z to 2026-01-11T00:00:00Z',
    ]);
    expect(await runInProcess(['start', ...series])).toMatchObject({
      status: 0,
      stdout: expect.stringContaining('Done: reports\n  2 runs have exported reports from'),
    });
    // The options of a bounded run are not saved.
    expect(jsonOf(await runInProcess(['start', '--out', out, '--json']))).toMatchObject({
      status: 'completed',
      since: '1970-01-01T00:00:00Z',
    });
  });
});

describe('report-exporter', () => {
  it('prints the version of package.json', async () => {
    const { version } = JSON.parse(await readFile(join(import.meta.dirname, '../../package.json'), 'utf8'));
    expect(await runInProcess(['--version'])).toMatchObject({ status: 0, stdout: `${version}\n`, stderr: '' });
  });

  it.each([
    ['statsu', 'status'],
    ['xyz', undefined],
  ])('suggests the nearest command for %s', async (unknown, nearest) => {
    const hint = nearest === undefined ? '' : `. Did you mean ${nearest}?`;
    const stderr = `Error: unknown command '${unknown}'${hint}\nFor help: npx --no -- report-exporter --help\n`;
    expect(await runInProcess([unknown])).toMatchObject({ status: 2, stdout: '', stderr });
  });

  it('prints the help without a command, and starts no export', async () => {
    for (const words of [[], ['--out', './exports']]) {
      const { status, stdout, stderr } = await runInProcess(words);
      expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
      expect(stderr).toMatch(words.length === 0 ? /^Usage: report-exporter [^]*\n  local / : /unknown option '--out'/);
    }
  });

  it.each([[], ['local', 'a'], ['status', 'a'], ['init', 'a']])(
    'prints wrong arguments on a line of their own, and not at any length: %j',
    async (...words) => {
      const wrong = [`\x1b[31mfoo\x07${'x'.repeat(10_000)}`, '--\x1b=3'];
      const { status, stderr } = await runInProcess([...words, ...wrong]);
      expect(status).toBe(2);
      expect(stderr).toMatch(/foox+/);
      expect(stderr).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f]/);
      expect(stderr.length).toBeLessThan(1_000);
    },
  );
});
