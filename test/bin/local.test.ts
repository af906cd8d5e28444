import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { aDirectory, jsonOf, readManifest, run, start } from '../support/process/command-line.ts';

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

describe('report-exporter local', () => {
  it('runs on the Node that Lambda runs', () => {
    expect(process.version).toMatch(/^v24\./);
  });

  it('exports from the simulator to published XML, and says so in words a person understands', async () => {
    const out = await aDirectory();
    const ended = await run(['local', '--out', out]);
    expect(ended).toMatchObject({ status: 0 });
    expect(ended.stdout).toMatch(/^Completed: 3 pages, 25\d reports, [\d.]+ kB in [\d.]+ s\n/);
    expect(ended.stdout).toContain(join(out, 'reports/date='));
    expect(ended.stderr).toMatch(/^No --base-url: using a simulated service at http:\/\/127\.0\.0\.1:\d+\n/);
    expect(ended.stderr).toMatch(/^Run \d{8}T\d{6}Z-[0-9a-f]{6}: every reports report since 1970-01-01T00:00:00Z$/m);
    expect(ended.stderr).not.toContain('\x1b');

    const latest = JSON.parse(await readFile(join(out, 'reports/latest.json'), 'utf8'));
    const manifest = await readManifest(join(out, latest.manifest));
    expect(manifest.pages).toHaveLength(3);
    for (const { key, bytes, sha256: expected } of manifest.pages) {
      const body = await readFile(join(out, key));
      expect({ bytes: body.length, sha256: sha256(body) }).toEqual({ bytes, sha256: expected });
    }
    const folder = join(out, latest.manifest, '..');
    // One hidden file beside what readers see, and none that SQLite only has while it is at work.
    expect((await readdir(folder)).sort()).toEqual([
      '.page-metadata.sqlite',
      'manifest.json',
      'page-000001.xml',
      'page-000002.xml',
      'page-000003.xml',
    ]);
  });

  it('makes an incremental run from the watermark when it is run again', async () => {
    const out = await aDirectory();
    const first = jsonOf(await run(['local', '--out', out, '--json']));
    const second = jsonOf(await run(['local', '--out', out, '--json']));
    expect(second).toMatchObject({ status: 'completed', export: 'reports', since: first.watermark, pages: 1 });
    expect(second.run).not.toBe(first.run);
    expect(second.reports).toBeLessThan(10);
    const latest = JSON.parse(await readFile(join(out, 'reports/latest.json'), 'utf8'));
    expect(join(out, latest.manifest)).toBe(second.manifest);
  });

  it('prints nothing but one JSON object on stdout with --json', async () => {
    const ended = await run(['local', '--out', await aDirectory(), '--json', '--size', '10']);
    expect(ended.stdout.split('\n')).toHaveLength(2);
    expect(Object.keys(jsonOf(ended))).toEqual(
      expect.arrayContaining([
        'status',
        'export',
        'run',
        'since',
        'watermark',
        'pages',
        'reports',
        'bytes',
        'manifest',
      ]),
    );
    expect(jsonOf(ended)).toMatchObject({ pages: expect.any(Number), reports: expect.any(Number) });
    // 250 to begin with; now and then one more arrives while the run is under way.
    expect(jsonOf(ended).reports).toBeGreaterThanOrEqual(250);
    expect(jsonOf(ended).pages).toBe(Math.ceil((jsonOf(ended).reports ?? 0) / 10));
  });

  it('names every mistake in its options at once, by the option, and exits with 2', async () => {
    const wrong = {
      '--base-url': 'http://reports.example.com',
      '--vendor': 'A B',
      '--size': '11',
      '--since': 'yesterday',
      '--overlap': '1h',
      '--filter': '{"date":{"gte":"x"}}',
      '--cursor-in': 'header',
      '--max-pages': '0',
      '--export': 'a/b',
    };
    const ended = await run([
      'local',
      '--sise',
      '3',
      ...Object.entries(wrong).map(([option, value]) => `${option}=${value}`),
    ]);
    expect(ended.status).toBe(2);
    const named = [...Object.keys(wrong), '--sise: no such option', '3: unexpected argument', '--api-key-env'];
    for (const problem of named) expect(ended.stdout).toContain(`  ${problem}`);
  });

  it('says with --json too that its options are wrong', async () => {
    const ended = await run(['local', '--json', '--size', '0', '--filter', '{']);
    expect(ended.status).toBe(2);
    expect(jsonOf(ended)).toMatchObject({ status: 'failed', error: { name: 'ConfigurationError' } });
    expect(jsonOf(ended).error?.message).toMatch(/--filter: must be JSON[\s\S]*--size: must be 1 to 10/);
  });

  it('names an option that lacks its value together with every other mistake', async () => {
    const ended = await run(['local', '--json', '--overlap=1h', '--size']);
    expect(ended.status).toBe(2);
    expect(jsonOf(ended).error?.message).toMatch(/--size: needs a value\n--overlap: must be/);
  });

  it('goes on when nobody reads what it says', async () => {
    const out = await aDirectory();
    const running = start(['local', '--out', out, '--size', '10']);
    running.process.stdout?.destroy();
    running.process.stderr?.destroy();
    expect((await running.ended).status).toBe(0);
    expect(JSON.parse(await readFile(join(out, 'reports/latest.json'), 'utf8'))).toHaveProperty('manifest');
  });

  it('says what failed and what for while it tries again', async () => {
    const running = start(['local', '--out', await aDirectory(), '--base-url', 'http://127.0.0.1:1'], {
      REPORT_EXPORT_API_KEY: 'a-key-for-nobody',
    });
    await expect.poll(() => running.stderr()).toContain('attempt 1 of 20');
    running.process.kill('SIGINT');
    expect((await running.ended).stderr).toMatch(
      /! ExportPage failed \(ServiceUnavailableError: Report service did not respond \(ECONNREFUSED\) for page 1 of run /,
    );
  });

  it('exits with 0 for help', async () => {
    const help = await run(['local', '--help']);
    expect(help.status).toBe(0);
    expect(help.stdout).toContain('--cursor-in <route>');
    expect(help.stdout).toContain('Exit status');
  });

  it('refuses the watermark of the simulator for another service', async () => {
    const out = await aDirectory();
    await run(['local', '--out', out]);
    const ended = await run(['local', '--out', out, '--base-url', 'http://127.0.0.1:9'], {
      REPORT_EXPORT_API_KEY: 'k',
    });
    expect(ended.status).toBe(2);
    expect(ended.stdout).toContain('was measured at simulator');
  });

  it('fails with 1, clearly, where the state cannot be read', async () => {
    const out = await aDirectory();
    await writeFile(
      join(out, 'state.sqlite'),
      'this is no database, but it is long enough to be looked at as one'.repeat(20),
    );
    const ended = await run(['local', '--out', out]);
    expect(ended.status).toBe(2);
    expect(ended.stdout).toContain(join(out, 'state.sqlite'));
    expect(ended.stdout).not.toContain('    at ');
  });

  it('fails, clearly, where the directory cannot be made', async () => {
    const out = await aDirectory();
    await writeFile(join(out, 'file'), '');
    const ended = await run(['local', '--out', join(out, 'file/below')]);
    expect(ended.status).not.toBe(0);
    expect(ended.stdout).toContain(join(out, 'file'));
    expect(ended.stdout).not.toContain('    at ');
  });

  it.skipIf(process.platform !== 'linux')('ends where a file system lets nothing be made in it', async () => {
    const ended = await run(['local', '--out', '/proc/report-exporter']);
    expect(ended.status).toBe(2);
    expect(ended.stdout).toContain('/proc/report-exporter');
  });

  it('keeps exports of other names apart in one directory', async () => {
    const out = await aDirectory();
    const [one, two] = await Promise.all(
      ['one', 'two'].map((name) => run(['local', '--out', out, '--export', name, '--json'])),
    );
    if (one === undefined || two === undefined) throw new Error('two runs were started');
    expect([jsonOf(one), jsonOf(two)]).toMatchObject([
      { status: 'completed', export: 'one', pages: 3 },
      { status: 'completed', export: 'two', pages: 3 },
    ]);
  });
});

describe('report-exporter service', () => {
  it('serves the simulator until interrupted', async () => {
    const key = 'key-of-the-service-test';
    const service = start(['service', '--reports', '12'], { REPORT_EXPORT_API_KEY: key });
    await expect.poll(() => service.stdout()).toMatch(/listening on http:\/\/127\.0\.0\.1:\d+\n/);
    const [baseUrl] = /http:\S+/.exec(service.stdout()) ?? [''];
    const ended = await run(['local', '--base-url', baseUrl, '--size', '5', '--json', '--out', await aDirectory()], {
      REPORT_EXPORT_API_KEY: key,
    });
    const { status: outcome, pages, reports } = jsonOf(ended);
    expect(outcome).toBe('completed');
    // 12 to begin with; another one comes every 10 s, whenever that is.
    expect(reports).toBeGreaterThanOrEqual(12);
    expect(reports).toBeLessThan(30);
    expect(pages).toBe(Math.ceil((reports ?? 0) / 5));
    service.process.kill('SIGINT');
    const { status, stdout, stderr } = await service.ended;
    expect(status).toBe(130);
    expect(stdout + stderr + ended.stdout + ended.stderr).not.toContain(key);
  });

  it('names every mistake in its options at once', async () => {
    const ended = await run(['service', '--port', '99999', '--vendor', 'A B', '--reports', '3', '--from', '.']);
    expect(ended.status).toBe(2);
    for (const option of ['--port', '--vendor', '--reports', '--api-key-env'])
      expect(ended.stderr).toContain(`  ${option}`);
  });
});
