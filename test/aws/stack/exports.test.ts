/** The exports of a stack as `status` reads them. Its transcripts show the rest. */

import { GetItemCommand } from '@aws-sdk/client-dynamodb';
import type { ScheduleSummary } from '@aws-sdk/client-scheduler';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { readExports } from '../../../lib/operator/run-view.ts';
import {
  awsError,
  type MockedAws,
  mockStack,
  nightly,
  openMockedStack,
  type StackContent,
  stubAwsEnvironment,
} from '../../support/aws/mocked-stack.ts';

let aws: MockedAws | undefined;
beforeEach(stubAwsEnvironment);
afterEach(() => {
  vi.unstubAllEnvs();
  aws?.restore();
});

async function statusesOf() {
  await using stack = await openMockedStack();
  return await readExports(await stack.openAll(), 0, Date.parse('2026-11-20T12:00:00Z'));
}

describe('the exports of a stack', () => {
  it('are stale only while their schedule is enabled', async () => {
    const disable = (schedules: ScheduleSummary[]) =>
      schedules.map((each) => ({ ...each, State: 'DISABLED' as const }));
    const staleWith = async (enabled: boolean, schedules?: StackContent['schedules']) => {
      aws?.restore();
      const services = [{ name: 'acme', exports: ['daily'], schedules: { daily: nightly({ enabled }) } }];
      aws = mockStack({ services, schedules });
      const [entry] = await statusesOf();
      return entry !== undefined && 'stale' in entry && entry.stale;
    };
    expect(await staleWith(true)).toBe(true);
    // Someone has disabled, deleted or enabled it since the deployment.
    expect(await staleWith(true, disable)).toBe(false);
    expect(await staleWith(true, () => [])).toBe(false);
    expect(await staleWith(false, (all) => all.map((each) => ({ ...each, State: 'ENABLED' })))).toBe(true);
  });

  it('cannot be read without the permission, which is an error of the command as a whole', async () => {
    aws = mockStack({ services: [{ name: 'acme', exports: ['daily', 'weekly'] }] });
    aws.dynamoDb.on(GetItemCommand).rejects(awsError('AccessDeniedException'));
    await expect(statusesOf()).rejects.toMatchObject({ name: 'AccessDeniedException' });
  });
});
