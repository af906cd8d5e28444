import { beforeAll, describe, expect, inject, it } from 'vitest';
import { run } from '../../support/process/command-line.ts';
import { deploy, type Outputs } from '../support/cdk.ts';
import { apiKey, bucketPrefix, putApiKey, serviceName, vendor } from '../support/exporter-stack.ts';
import { stubOperatorEnvironment } from '../support/operator-environment.ts';
import { readNewestRun } from '../support/published-run.ts';
import { openService, reportIds } from '../support/service.ts';

const stackName = 'ReportExporterMany';
const names = Array.from({ length: 30 }, (_, index) => `export-${String(index + 1).padStart(3, '0')}`);

describe('thirty deployed exports of one service', () => {
  let outputs: Outputs;
  let env: Readonly<Record<string, string>>;
  beforeAll(async () => {
    outputs = await deploy({
      stackName,
      services: {
        [serviceName]: { baseUrl: `http://127.0.0.1:${inject('servicePort')}`, vendor, maxConcurrentPages: 2 },
      },
      bucket: { prefix: bucketPrefix },
      exports: names.map((name) => ({ name, size: 2, pagesPerInvocation: 25 })),
    });
    await putApiKey({ secretId: outputs.AcmeApiKeySecretId as string }, apiKey);
    env = stubOperatorEnvironment();
  });

  it('all complete when they start together, with at most two pages requested at a time', async () => {
    await using service = await openService(3, { pageMs: 20 });

    const completed = new Map<unknown, string>();
    // On a busy machine the emulator fails invocations for reasons of its own. The next start resumes such a run.
    for (let attempt = 1; attempt <= 3 && completed.size < names.length; attempt += 1) {
      const remaining = names.filter((name) => !completed.has(name));
      const started = await run(['start', ...remaining, '--follow', '--json', '--stack', stackName], env);
      for (const line of started.stdout.trimEnd().split('\n')) {
        const { export: name, status, pages, reports } = JSON.parse(line) as Record<string, unknown>;
        if (status === 'completed') completed.set(name, `${String(pages)} pages, ${String(reports)} reports`);
      }
    }
    expect([...completed.keys()].map(String).toSorted()).toEqual(names);
    expect(new Set(completed.values())).toEqual(new Set(['2 pages, 3 reports']));
    expect(service.peak()).toBeLessThanOrEqual(2);
    const stack = { bucket: outputs.BucketName as string };
    for (const name of names) expect((await readNewestRun(stack, name)).ids).toEqual(reportIds(1, 3));

    const status = await run(['status', '--stack', stackName, '--failed'], env);
    expect(status).toMatchObject({ status: 0 });
    const overview = await run(['status', '--stack', stackName, '--json'], env);
    const { exports } = JSON.parse(overview.stdout) as { exports: readonly { state: string }[] };
    expect(exports.filter(({ state }) => state === 'completed')).toHaveLength(names.length);
  });
});
