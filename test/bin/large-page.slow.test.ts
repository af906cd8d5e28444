import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import type { ReportSource } from '../../lib/service/simulator/report-source.ts';
import { startSimulator } from '../support/service/simulator.ts';
import { aDirectory, jsonOf, readManifest, runInProcess } from '../support/process/command-line.ts';

const mebibyte = 1024 * 1024;
const reportMebibytes = 257;

/** One report that is larger than a page may be by default. */
const largeReport: ReportSource = {
  oldest: 0,
  *from({ date }) {
    if (date > 0) return;
    const text = Buffer.alloc(mebibyte, 'x');
    yield {
      date: 0,
      ordinal: 0,
      id: 'large',
      bytes: () => '<r></r>'.length + reportMebibytes * mebibyte,
      *body() {
        yield Buffer.from('<r>');
        for (let part = 0; part < reportMebibytes; part += 1) yield text;
        yield Buffer.from('</r>');
      },
    };
  },
};

it('local exports a page that is larger than the default, if the settings file allows it', async () => {
  const env = { REPORT_EXPORT_API_KEY: 'the-key-of-the-large-page' };
  const apiKey = env.REPORT_EXPORT_API_KEY;
  const service = await startSimulator({ vendor: 'SERVICE', apiKey, reports: largeReport });
  onTestFinished(() => service.close());
  const out = await aDirectory();
  const file = join(out, 'settings.json');
  const run = async (limits: object) => {
    const settings = { services: { acme: { baseUrl: service.baseUrl, ...limits } }, exports: [{ name: 'large' }] };
    await writeFile(file, JSON.stringify(settings));
    return await runInProcess(['local', '--settings', file, '--out', out, '--json'], env);
  };

  const rejected = await run({});
  expect(rejected.status).toBe(1);
  expect(jsonOf(rejected).error).toMatchObject({
    name: 'ConfigurationError',
    message: expect.stringContaining('maxPageBytes is 268435456'),
  });

  const accepted = await run({ maxPageBytes: 300 * mebibyte });
  expect(accepted).toMatchObject({ status: 0 });
  const { pages } = await readManifest(jsonOf(accepted).manifest ?? '');
  expect(pages).toMatchObject([{ reports: 1 }]);
  expect(pages[0]?.bytes).toBeGreaterThan(reportMebibytes * mebibyte);
});
