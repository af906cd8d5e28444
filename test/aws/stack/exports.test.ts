/** The exports of a stack as `status` reads them. Its transcripts show the rest. */

import { GetItemCommand } from '@aws-sdk/client-dynamodb';
import { ListSchedulesCommand, type ScheduleSummary, SchedulerClient } from '@aws-sdk/client-scheduler';
import { mockClient } from 'aws-sdk-client-mock';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { listSchedules } from '../../../lib/aws/stack/exports.ts';
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

const gone = Object.assign(new Error('gone'), { name: 'ResourceNotFoundException' });
const denied = Object.assign(new Error('denied'), { name: 'AccessDeniedException' });

function aClient() {
  const client = new SchedulerClient({ region: 'us-east-1' });
  return { client, scheduler: mockClient(client) };
}

describe('the schedules of a group', () => {
  it('are listed with their state, page by page', async () => {
    const { client, scheduler } = aClient();
    const page = (NextToken?: string) => ({ GroupName: 'reports', MaxResults: 100, NextToken });
    scheduler
      .on(ListSchedulesCommand, page())
      .resolves({ Schedules: [{ Name: 'nightly', State: 'ENABLED' }], NextToken: 'more' });
    scheduler.on(ListSchedulesCommand, page('more')).resolves({ Schedules: [{ Name: 'weekly', State: 'DISABLED' }] });
    expect([...(await listSchedules(client, 'reports'))]).toEqual([
      ['nightly', 'scheduled'],
      ['weekly', 'disabled'],
    ]);
  });

  it('are none if the group was deleted; any other error is thrown', async () => {
    const { client, scheduler } = aClient();
    scheduler.on(ListSchedulesCommand).rejects(gone);
    expect(await listSchedules(client, 'reports')).toEqual(new Map());
    scheduler.on(ListSchedulesCommand).rejects(denied);
    await expect(listSchedules(client, 'reports')).rejects.toBe(denied);
  });
});
