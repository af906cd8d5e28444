/** What `doctor` says about the concurrent executions of Lambda that the exports of a stack need. */

import { GetAccountSettingsCommand } from '@aws-sdk/client-lambda';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { checkConcurrency } from '../../../lib/operator/health-checks.ts';
import {
  type AService,
  awsError,
  mockAws,
  type MockedAws,
  nightly,
  openMockedStack,
  stubAwsEnvironment,
} from '../../support/aws/mocked-stack.ts';

let aws: MockedAws | undefined;
beforeEach(() => stubAwsEnvironment());
afterEach(() => {
  aws?.restore();
  vi.unstubAllEnvs();
});

/** A service whose exports are all due in the same night. */
function aService(count: number, output: AService['output'] = {}, name = 'acme'): AService {
  const exports = Array.from({ length: count }, (_, index) => `${name}-${index}`);
  const schedules = Object.fromEntries(exports.map((each) => [each, nightly()]));
  return { name, exports, schedules, output };
}

async function check(services: readonly AService[], unreserved: number | Error) {
  aws = mockAws(services);
  const request = aws.lambda.on(GetAccountSettingsCommand);
  if (unreserved instanceof Error) request.rejects(unreserved);
  else {
    const AccountLimit = { ConcurrentExecutions: 1_000, UnreservedConcurrentExecutions: unreserved };
    request.resolves({ AccountLimit });
  }
  await using deployment = await openMockedStack();
  return await checkConcurrency(deployment);
}

describe('doctor checks the concurrent executions of Lambda', () => {
  it('is satisfied if all scheduled exports could run at the same time', async () => {
    expect(await check([aService(10)], 10)).toEqual({
      state: 'ok',
      message: 'Lambda runs 10 functions at the same time; 10 scheduled exports need 10',
      remedy: null,
    });
  });

  it.each([
    ['exports', [aService(11)], '11 scheduled exports need 11'],
    ['exports of all services', [aService(5), aService(6, {}, 'globex')], '11 scheduled exports need 11'],
  ])('warns if more %s may be due at the same time', async (_, services, needed) => {
    expect(await check(services, 10)).toMatchObject({
      state: 'warning',
      message: `Lambda runs 10 functions at the same time; ${needed}. The others wait for up to ten hours, and then fail`,
      remedy: expect.stringMatching(/quota.*docs\/many-exports\.md#concurrency-of-lambda/),
    });
  });

  it('leaves out what has concurrency of its own, is disabled, or is started manually', async () => {
    const disabled: AService = { name: 'off', exports: ['a'], schedules: { a: nightly({ enabled: false }) } };
    const manual: AService = { name: 'manual', exports: ['b'] };
    const reserved = aService(20, { reservedConcurrency: 24 }, 'globex');
    expect(await check([aService(1), reserved, disabled, manual], 10)).toMatchObject({
      state: 'ok',
      message: 'Lambda runs 10 functions at the same time; 1 scheduled export needs 1',
    });
  });

  it('warns if it may not read the quota', async () => {
    expect(await check([aService(1)], awsError('AccessDeniedException', 'not authorized'))).toMatchObject({
      state: 'warning',
      message: expect.stringContaining('not authorized'),
      remedy: expect.stringContaining('lambda:GetAccountSettings'),
    });
  });
});
