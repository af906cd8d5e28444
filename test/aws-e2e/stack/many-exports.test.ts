import { beforeAll, describe, expect, inject, it } from 'vitest';
import { run } from '../../support/process/command-line.ts';
import { bootstrap, deploy, type Outputs } from '../support/cdk.ts';
import { apiKey, bucketPrefix, putApiKey, serviceName, vendor } from '../support/exporter-stack.ts';
import { stubOperatorEnvironment } from '../support/operator-stack.ts';
import { readNewestRun } from '../support/published-run.ts';
import { openService, reportIds } from '../support/service.ts';

const stackName = 'ReportExporterMany';
const names = Array.from({ length: 100 }, (_, index) => `export-${String(index + 1).padStart(3, '0')}`);

describe('a hundred deployed exports of one service', () => {
  let outputs: Outputs;
  let env: Readonly<Record<string, string>>;
  beforeAll(async () => {
    await bootstrap();
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

  it(
    'all complete when they start together, with at most two pages requested at a time',
    { timeout: 400_000 },
    async () => {
      await using service = await openService(3, { pageMs: 20 });

      const started = await run(['start', '--all', '--follow', '--json', '--stack', stackName], env);

      expect(started.stderr).toContain('100');
      expect(started.status).toBe(0);
      const ends = started.stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>);
      expect(ends.map((end) => String(end.export)).toSorted()).toEqual(names);
      expect(new Set(ends.map((end) => `${String(end.status)} ${String(end.pages)} ${String(end.reports)}`))).toEqual(
        new Set(['completed 2 3']),
      );
      expect(service.peak()).toBeLessThanOrEqual(2);
      // Each page was requested once.
      expect(service.exchanges.filter(({ status }) => status === 200)).toHaveLength(200);
      const stack = { bucket: outputs.BucketName as string };
      for (const name of names) expect((await readNewestRun(stack, name)).ids).toEqual(reportIds(1, 3));

      const status = await run(['status', '--stack', stackName, '--failed'], env);
      expect(status).toMatchObject({ status: 0 });
      const overview = await run(['status', '--stack', stackName, '--json'], env);
      const { exports } = JSON.parse(overview.stdout) as { exports: readonly { state: string }[] };
      expect(exports.filter(({ state }) => state === 'completed')).toHaveLength(100);
    },
  );
});
