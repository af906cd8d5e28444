/** The exports of a stack as `status` reads them: together, and without one hiding the others. */

import { GetItemCommand } from '@aws-sdk/client-dynamodb';
import type { ScheduleSummary } from '@aws-sdk/client-scheduler';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Item } from '../../../lib/aws/dynamodb/items.ts';
import type { Runtime } from '../../../lib/core/ports.ts';
import { readExports } from '../../../lib/operator/run-view.ts';
import {
  arn,
  awsError,
  type MockedAws,
  mockStack,
  nightly,
  openMockedStack,
  type StackContent,
  stubAwsEnvironment,
} from '../../support/aws/mocked-stack.ts';
import { aCompletion, anExportState, aPageEntry, aRun, at } from '../../support/builders.ts';

const now = '2026-11-20T12:00:00Z';
const runtime: Runtime = {
  now: () => Date.parse(now),
  monotonicNow: () => 0,
  sleep: async () => {},
  randomHex: (length) => '0'.repeat(length),
};

let aws: MockedAws | undefined;
beforeEach(stubAwsEnvironment);
afterEach(() => {
  vi.unstubAllEnvs();
  aws?.restore();
});

async function statusesOf(content: StackContent) {
  aws?.restore();
  aws = mockStack(content);
  await using stack = await openMockedStack(runtime);
  return await readExports(await stack.openAll(), 0, runtime.now());
}

const completed = (exportName: string) =>
  anExportState({ export: exportName, lastCompleted: aCompletion('x', { export: exportName }) });
const execution = (exportName: string) => arn('execution', `acme:${exportName}`);
const lastFailure = { error: 'ServiceUnavailableError', message: 'responded with 503', at: at('2026-11-20T03:00:00Z') };
const active = (exportName: string, overrides: Parameters<typeof aRun>[0] = {}) =>
  anExportState({
    export: exportName,
    active: aRun({ export: exportName, execution: execution(exportName), ...overrides }),
  });

describe('the exports of a stack', () => {
  it('are stale only while their schedule is enabled', async () => {
    const disable = (schedules: ScheduleSummary[]) =>
      schedules.map((each) => ({ ...each, State: 'DISABLED' as const }));
    const staleWith = async (enabled: boolean, schedules?: StackContent['schedules']) => {
      const services = [{ name: 'acme', exports: ['daily'], schedules: { daily: nightly({ enabled }) } }];
      const [entry] = await statusesOf({ services, schedules });
      return entry !== undefined && 'stale' in entry && entry.stale;
    };
    expect(await staleWith(true)).toBe(true);
    // Someone has disabled, deleted or enabled it since the deployment.
    expect(await staleWith(true, disable)).toBe(false);
    expect(await staleWith(true, () => [])).toBe(false);
    expect(await staleWith(false, (all) => all.map((each) => ({ ...each, State: 'ENABLED' })))).toBe(true);
  });

  it.each([
    ['state', 'weekly', false],
    ['last page', 'hourly', true],
  ])('are shown although the %s of one was edited', async (_, edited, isEntry) => {
    const hourly = active('hourly', { lastFailure });
    const entries = await statusesOf({
      services: [{ name: 'acme', exports: ['daily', 'hourly', 'weekly'] }],
      states: { acme: [completed('daily'), hourly, completed('weekly')] },
      entries: [aPageEntry({ export: 'hourly', run: hourly.active?.run ?? aRun().run })],
      changeItem: (item: Item) =>
        item.pk?.S === `acme/${edited}` && (item.sk?.S !== 'state') === isEntry
          ? { ...item, checksum: { S: 'x' } }
          : item,
    });
    expect(entries.flatMap((entry) => ('error' in entry ? [[entry.export, entry.error.name]] : []))).toEqual([
      [edited, 'PageConflictError'],
    ]);
  });

  it('cannot be read without the permission, which is an error of the command as a whole', async () => {
    aws = mockStack({ services: [{ name: 'acme', exports: ['daily', 'weekly'] }] });
    aws.dynamoDb.on(GetItemCommand).rejects(awsError('AccessDeniedException'));
    await using stack = await openMockedStack(runtime);
    await expect(readExports(await stack.openAll(), 0, runtime.now())).rejects.toMatchObject({
      name: 'AccessDeniedException',
    });
  });
});
