/** A service with a refresh token: all exports and containers share it, and no page is lost with a consent. */

import { describe, expect, it } from 'vitest';
import { captureOutput, deployedFunctions } from '../support/aws/deployed-functions.ts';
import { createFakeAws, type FakeAws } from '../support/aws/fake-aws.ts';
import { execute } from '../support/export/function-machine.ts';
import { describedWithTokens, startTokenServer, type TokenServer } from '../support/service/token-server.ts';

captureOutput();

/** Executions of several exports, each in containers of its own. */
function deploy(aws: FakeAws, { url }: TokenServer) {
  const names = ['one', 'two', 'three', 'four'];
  const settings = {
    service: { baseUrl: url, api: describedWithTokens(url) },
    exports: names.map((name) => ({ name })),
  };
  return {
    names,
    run: (name: string, execution = name) =>
      execute(deployedFunctions(aws, settings), { name: execution, input: { export: name } }),
  };
}

describe('exports on AWS that share a refresh token', () => {
  it.each([
    ['which lives for an hour', 3_600, 1],
    ['which can be used once', 0, 24],
  ])('never send the same one twice for an access token %s', async (_, lifeSeconds, exchanges) => {
    await using server = await startTokenServer({ pages: 6, lifeSeconds });
    const aws = createFakeAws();
    const { names, run } = deploy(aws, server);
    aws.secrets.set('reports/api-key', server.consent());
    const results = await Promise.all(names.map((name) => run(name)));
    for (const result of results) expect(result).toMatchObject({ status: 'succeeded', output: { reports: 6 } });
    expect(server.exchanged).toHaveLength(exchanges);
    expect(server.reused).toEqual([]);
  });

  it('lose no page with a consent: after another one, the run resumes', async () => {
    await using server = await startTokenServer({ pages: 6, lifeSeconds: 0 });
    const aws = createFakeAws();
    const { run } = deploy(aws, server);
    aws.secrets.set('reports/api-key', server.consent());
    // As if the function were killed then: the refresh token is replaced, and its successor reaches nothing.
    server.options.beforeResponse = (response) => {
      if (server.exchanged.length === 3) response.destroy();
    };
    expect(await run('one', 'first')).toMatchObject({ status: 'failed', error: 'ConfigurationError' });
    expect(server.reused).toEqual([server.exchanged[2]]);
    aws.secrets.set('reports/api-key', server.consent());
    expect(await run('one', 'second')).toMatchObject({ status: 'succeeded', output: { reports: 6 } });
    expect(server.requests).toHaveLength(6);
  });
});
