/** A deployed export of an API that its settings describe: OAuth 2, JSON pages with the cursor in the body, and a backfill. */

import { describe, expect, inject, it } from 'vitest';
import { openStack } from '../../../lib/aws/stack/stack.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import { apiSchema } from '../../../lib/settings/api-settings.ts';
import type { ApiProps } from '../../../lib/settings/props.ts';
import { noMfa } from '../../support/aws/mocked-stack.ts';
import { run } from '../../support/process/command-line.ts';
import { deploy } from '../support/cdk.ts';
import { apiKey, bucketPrefix, putApiKey, serviceName } from '../support/exporter-stack.ts';
import { stubOperatorEnvironment } from '../support/operator-stack.ts';
import { publishedBoundedRuns, readNewestRun } from '../support/published-run.ts';
import { openService, reportIds } from '../support/service.ts';

const stackName = 'ReportExporterDescribedApi';

describe('a deployed export of a described API', () => {
  it('publishes every report once and in order, what is new in the next run, and the past in windows', async () => {
    const baseUrl = `http://127.0.0.1:${inject('servicePort')}`;
    const api: ApiProps = {
      request: { path: '/events', query: { from: '{since}', to: '{until}', limit: '{size}' } },
      auth: { kind: 'oauth2', tokenUrl: `${baseUrl}/oauth2/token`, clientId: 'exporter', scope: 'events.read' },
      next: { from: 'body', at: '/paging/next', to: { query: 'cursor' } },
      page: { format: 'json', reports: '/events/*', error: '/error' },
    };
    const outputs = await deploy({
      stackName,
      services: { [serviceName]: { baseUrl, api } },
      bucket: { prefix: bucketPrefix },
      exports: [{ name: 'events', size: 2, since: { initial: '2026-11-20T00:00:07Z' } }],
    });
    // The client secret.
    await putApiKey({ secretId: outputs.AcmeApiKeySecretId as string }, apiKey);
    const env = stubOperatorEnvironment();
    const command = async (...args: string[]) => {
      const { status, stdout, stderr } = await run([...args, '--stack', stackName, '--json'], env);
      if (status !== 0) throw new Error(`${args.join(' ')} ended with ${status}: ${stdout}${stderr}`);
    };
    const stack = { bucket: outputs.BucketName as string };
    await using service = await openService(12, { api: apiSchema.parse(api) });

    await command('start', 'events', '--follow');
    const first = await readNewestRun(stack, 'events');
    expect(first.ids).toEqual(reportIds(7, 12));
    expect(first.manifest).toMatchObject({
      format: 'JSON',
      api: { pagination: 'body cursor' },
      pages: [{ reports: 2 }, { reports: 2 }, { reports: 2 }],
    });
    expect(first.manifest.pages[0]?.key).toMatch(/page-000001\.json$/);

    service.addReports(13);
    await command('start', 'events', '--follow');
    expect((await readNewestRun(stack, 'events')).ids).toEqual(reportIds(13, 13));

    const period = ['--since', '2026-11-20T00:00:01Z', '--until', '2026-11-20T00:00:07Z', '--each', 'PT3S'];
    await command('start', 'events', ...period, '--follow');
    await using deployment = await openStack({ stackName, env, runtime: systemRuntime, askMfaCode: noMfa });
    const runs = await publishedBoundedRuns(await deployment.open('events'));
    expect(runs.map(({ ids }) => ids)).toEqual([reportIds(1, 3), reportIds(4, 6)]);
    await command('verify', '--all');
  });
});
