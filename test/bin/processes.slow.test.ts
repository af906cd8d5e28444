/** The program as a process: its entry point, its signals, and its pipes. */

import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { aDirectory, run, start } from '../support/process/command-line.ts';
import { listen } from '../support/service/loopback.ts';

describe('report-exporter local', () => {
  it('runs on the Node that Lambda runs', () => {
    expect(process.version).toMatch(/^v24\./);
  });

  it('exports from the simulator to a directory of its own, and exits with 0', async () => {
    const folder = await aDirectory();
    const ended = await run(['local'], {}, folder);
    expect(ended).toMatchObject({ status: 0 });
    expect(ended.stdout).toMatch(/^20\S+Z Completed: reports \(3 pages, 25\d reports, /);
    expect(ended.stderr).toMatch(/^20\S+Z Using a simulated service at /);
    expect(ended.stdout).toContain('  manifest   simulated/reports/date=');
    expect(ended.stdout + ended.stderr).not.toContain('\x1b');
    expect(await run(['status', '--out', './simulated'], {}, folder)).toMatchObject({ status: 0 });
    expect(await run(['status'], {}, folder)).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('The simulated exports are in ./simulated: add --out ./simulated'),
    });
  });

  it('continues after the reader has closed the pipe', async () => {
    const out = await aDirectory();
    const running = start(['local', '--out', out]);
    running.process.stdout?.destroy();
    running.process.stderr?.destroy();
    expect((await running.ended).status).toBe(0);
    expect(JSON.parse(await readFile(join(out, 'reports/latest.json'), 'utf8'))).toHaveProperty('manifest');
  });
});

it('a command that only reads ends at once when it is interrupted, with 130', async () => {
  const out = await aDirectory();
  const reached = Promise.withResolvers<void>();
  await using silent = await listen(createServer(() => reached.resolve()));
  const env = { REPORT_EXPORT_API_KEY: 'a-key-without-a-service' };
  const settings = { services: { acme: { baseUrl: silent.url } }, exports: [{ name: 'daily' }] };
  await writeFile(join(out, 'report-exporter.json'), JSON.stringify(settings));
  const doctor = start(['doctor', '--out', out], env);
  await reached.promise;
  doctor.process.kill('SIGINT');
  expect(await doctor.ended).toMatchObject({ status: 130, stderr: 'Interrupted\n' });
});
