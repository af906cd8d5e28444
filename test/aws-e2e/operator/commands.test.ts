/** The operator's commands on a deployed stack, each a process of its own, as they are typed. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DeleteObjectCommand } from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import { errorResponse, onPage } from '../../../lib/report-service/simulator/faults.ts';
import { aDirectory, type Ended, jsonOf, run } from '../../support/process/command-line.ts';
import { s3 } from '../support/aws.ts';
import { prefix, theKey } from '../support/exporter-stack.ts';
import { asAnOperator, deployOperatedStack, operatedStack } from '../support/operator-stack.ts';
import { openService } from '../support/service.ts';

const parsed = ({ stdout }: Ended) => JSON.parse(stdout.trimEnd()) as Readonly<Record<string, unknown>>;
const lines = ({ stdout }: Ended) => stdout.trimEnd().split('\n');

describe('The operator’s commands', () => {
  let env: Readonly<Record<string, string>>;
  let bucket: string;
  beforeAll(async () => {
    const outputs = await deployOperatedStack();
    bucket = String(outputs.BucketName);
    env = asAnOperator();
  });
  const on = (...words: string[]) => run([...words, '--stack', operatedStack], env);

  it('start a run of the stack and follow it to its end, and tell of it from then on', async () => {
    await using _ = await openService(5);
    const started = await on('start', 'commanded', '--follow', '--json');
    expect(started).toMatchObject({ status: 0 });
    expect(started.stderr).toMatch(/Page \d+ · \d+ reports/);
    const report = jsonOf(started);
    expect(report).toMatchObject({ status: 'completed', pages: 3, reports: 5 });
    expect(report.manifest).toBe(
      `s3://${bucket}/${prefix}commanded/date=${report.run?.slice(0, 4)}-${report.run?.slice(4, 6)}-${report.run?.slice(6, 8)}/run=${report.run}/manifest.json`,
    );

    expect(parsed(await on('status', 'commanded', '--json'))).toMatchObject({
      exports: [
        {
          export: 'commanded',
          watermark: report.watermark,
          runs: [{ run: report.run, state: 'completed', reports: 5 }],
        },
      ],
    });
    expect(await on('verify', 'commanded')).toMatchObject({
      status: 0,
      stdout: expect.stringContaining(`OK: run ${report.run}`),
    });
    const pages = lines(await on('pages', 'commanded'));
    expect(pages).toHaveLength(3);
    for (const page of pages) expect(page).toMatch(/^s3:\/\/.*\/page-00000\d\.xml$/);
    const reports = lines(await on('pages', 'commanded', '--reports', '--json')).map((line) => JSON.parse(line).xml);
    expect(reports.map((xml) => /id="(r\d)"/.exec(xml)?.[1])).toEqual(['r1', 'r2', 'r3', 'r4', 'r5']);
    expect(parsed(await on('plan', 'commanded', '--json'))).toMatchObject({
      plan: { act: 'start', since: report.watermark },
    });

    const healthy = parsed(await on('doctor', 'commanded', '--json'));
    expect(healthy).toMatchObject({ status: 'ok' });
    expect(JSON.stringify(healthy)).not.toContain(theKey);

    const file = join(await aDirectory(), 'report.html');
    expect(await on('report', 'commanded', '--to', file)).toMatchObject({ status: 0 });
    expect(await readFile(file, 'utf8')).toContain(String(report.manifest));

    // Somebody deletes a page, of this version of the bucket.
    const [, second = ''] = pages;
    await s3.send(new DeleteObjectCommand({ Bucket: bucket, Key: second.replace(`s3://${bucket}/`, '') }));
    const wrong = await on('verify', 'commanded', '--json');
    expect(wrong.status).toBe(1);
    expect(parsed(wrong)).toMatchObject({ status: 'wrong', findings: [{ page: 2, message: `${second} is missing` }] });
  });

  it('see why a run failed, give it up, and plan another', async () => {
    {
      await using _ = await openService(5, { faults: onPage(2, errorResponse(403)) });
      const failed = await on('start', 'commanded', '--since', '2026-01-01T00:00:00Z', '--follow', '--json');
      expect(failed.status).toBe(1);
      expect(jsonOf(failed)).toMatchObject({ status: 'failed', pages: 1 });
    }
    const { exports } = parsed(await on('status', 'commanded', '--json')) as { exports: readonly unknown[] };
    expect(exports).toMatchObject([
      { runs: [{ state: 'failed', pages: 1, lastIncident: { kind: 'failed-run' } }, {}] },
    ]);
    expect(parsed(await on('plan', 'commanded', '--json'))).toMatchObject({ plan: { act: 'resume', page: 2 } });
    expect(await on('abandon', 'commanded', '--yes')).toMatchObject({
      status: 0,
      stdout: expect.stringContaining('Given up'),
    });
    expect(parsed(await on('plan', 'commanded', '--json'))).toMatchObject({ plan: { act: 'start' } });
    const sick = await on('doctor', 'commanded', '--json');
    expect(sick.status).toBe(1);
    expect(parsed(sick)).toMatchObject({ status: 'problem' });
  });

  it('say what to do where there is no such stack, or nobody to be', async () => {
    const lost = await run(['status', '--stack', 'Nowhere'], env);
    expect(lost).toMatchObject({ status: 2, stderr: expect.stringMatching(/no stack Nowhere/) });
    const nobody = await run(['status', '--stack', operatedStack], {
      AWS_ENDPOINT_URL: String(env.AWS_ENDPOINT_URL),
      AWS_REGION: 'us-east-1',
      AWS_EC2_METADATA_DISABLED: 'true',
      HOME: await aDirectory(),
    });
    expect(nobody).toMatchObject({ status: 2, stderr: expect.stringMatching(/credentials/i) });
  });
});
