/** Each command once on a deployed stack. What they print is in test/transcripts. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, inject, it } from 'vitest';
import { combineScripts, errorResponse, onPage } from '../../support/service/faults.ts';
import { aDirectory, type CommandResult, jsonOf, runInProcess } from '../../support/process/command-line.ts';
import { deploy } from '../support/cdk.ts';
import { apiKey, bucketPrefix, prefix, putApiKey, serviceName, vendor } from '../support/exporter-stack.ts';
import { stubOperatorEnvironment } from '../support/operator-environment.ts';
import { openService } from '../support/service.ts';

const stackName = 'ReportExporterOperated';
const parseJson = ({ stdout }: CommandResult) => JSON.parse(stdout.trimEnd()) as Readonly<Record<string, unknown>>;

describe("the operator's commands", () => {
  let env: Readonly<Record<string, string>>;
  let bucket: string;
  beforeAll(async () => {
    const outputs = await deploy({
      stackName,
      services: { [serviceName]: { baseUrl: `http://127.0.0.1:${inject('servicePort')}`, vendor } },
      bucket: { prefix: bucketPrefix },
      // A run of three pages takes two executions.
      exports: [{ name: 'commanded', size: 2, iterationsPerExecution: 2 }],
    });
    await putApiKey({ secretId: String(outputs.AcmeApiKeySecretId) }, apiKey);
    bucket = String(outputs.BucketName);
    env = stubOperatorEnvironment();
  });
  const runOnStack = (...parameters: string[]) => runInProcess([...parameters, '--stack', stackName], env);

  it('start a run, follow it to its end, and then show, verify and report it', async () => {
    await using _ = await openService(5);
    const started = await runOnStack('start', 'commanded', '--follow', '--json');
    expect(started).toMatchObject({ status: 0 });
    expect(started.stderr).toContain('The run continues in execution ');
    const report = jsonOf(started);
    expect(report).toMatchObject({ status: 'completed', pages: 3, reports: 5 });
    expect(report.manifest).toBe(
      `s3://${bucket}/${prefix}commanded/date=${report.run?.slice(0, 4)}-${report.run?.slice(4, 6)}-${report.run?.slice(6, 8)}/run=${report.run}/manifest.json`,
    );

    expect(parseJson(await runOnStack('status', 'commanded', '--json'))).toMatchObject({
      exports: [
        {
          export: 'commanded',
          watermark: report.watermark,
          runs: [{ run: report.run, state: 'completed', reports: 5 }],
        },
      ],
    });
    expect(await runOnStack('verify', 'commanded')).toMatchObject({
      status: 0,
      stdout: expect.stringContaining(`(run ${report.run}, `),
    });
    const healthy = parseJson(await runOnStack('doctor', 'commanded', '--json'));
    const findings = (healthy as { findings: readonly { check: string; state: string }[] }).findings;
    // The emulator has no quotas of Lambda.
    expect(findings.filter(({ check, state }) => state !== 'ok' && check !== 'concurrency')).toMatchObject([
      {
        check: 'alarms',
        state: 'warning',
        message: expect.stringMatching(/^no one is notified: .* has no subscription$/),
      },
    ]);
    expect(JSON.stringify(healthy)).not.toContain(apiKey);

    const file = join(await aDirectory(), 'report.html');
    expect(await runOnStack('report', 'commanded', '--to', file)).toMatchObject({ status: 0 });
    expect(await readFile(file, 'utf8')).toContain(String(report.manifest));
  });

  it('show why a run failed, abandon it, and plan the next one', async () => {
    {
      const faults = combineScripts(onPage(1, errorResponse(503)), onPage(2, errorResponse(403)));
      await using _ = await openService(5, { faults });
      const failed = await runOnStack('start', 'commanded', '--since', '2026-01-01T00:00:00Z', '--follow', '--json');
      expect(failed.status).toBe(1);
      expect(failed.stderr).toContain('responded with 503 for page 1');
      expect(jsonOf(failed)).toMatchObject({ status: 'failed', pages: 1 });
    }
    const { exports } = parseJson(await runOnStack('status', 'commanded', '--json')) as { exports: readonly unknown[] };
    expect(exports).toMatchObject([
      { runs: [{ state: 'failed', pages: 1, lastIncident: { kind: 'failed-run' } }, {}] },
    ]);
    expect(parseJson(await runOnStack('plan', 'commanded', '--json'))).toMatchObject({
      plan: { act: 'resume', page: 2 },
    });
    expect(await runOnStack('abandon', 'commanded', '--yes')).toMatchObject({
      status: 0,
      stdout: expect.stringContaining('Abandoned: run'),
    });
    expect(parseJson(await runOnStack('plan', 'commanded', '--json'))).toMatchObject({ plan: { act: 'start' } });
  });
});
