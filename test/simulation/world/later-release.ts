/**
 * A later release of the exporter, as far as one can be foreseen: its definition, outcomes and records have what those
 * of this release have, and more. It is this release with additions, so it shows how this release meets the additions,
 * in running executions and after a rollback; not how a real later release meets this one.
 */

import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { StepHandler } from '../../../lib/aws/lambda/step-handler.ts';
import type { Item } from '../../../lib/aws/dynamodb/items.ts';
import type { LogEntry } from '../../../lib/core/model.ts';
import { toStoredRecord } from '../../../lib/core/storage/stored-records.ts';
import type { Retrier, State, StateMachine, Template } from '../../../lib/core/state-machine/asl.ts';
import type { Container } from './container.ts';
import { recordOf } from './dynamodb.ts';
import type { World } from './world.ts';

/** Another retry policy, other timeouts, two new states, a new action, and a new field in each payload. */
export function laterDefinition(definition: StateMachine<string>): StateMachine<string> {
  const states = Object.entries(definition.States).map(([name, state]) => [name, laterState(name, state)] as const);
  return {
    ...definition,
    States: {
      ...Object.fromEntries(states),
      NoteRelease: {
        Type: 'Pass',
        Comment: 'Adds a field to the payload',
        Parameters: { number: 2 },
        ResultPath: '$.release',
        Next: 'HasWork',
      },
      Rest: {
        Type: 'Pass',
        Comment: 'An action that only the later release has',
        Parameters: { number: 1 },
        ResultPath: '$.rests',
        Next: 'ExportPage',
      },
    },
  };
}

function laterState(name: string, state: State): State {
  if (name === 'NextAction' && state.Type === 'Choice') {
    return { ...state, Choices: [...state.Choices, { Variable: '$.next', StringEquals: 'rest', Next: 'Rest' }] };
  }
  if (state.Type !== 'Task') return state;
  const { Payload, Input } = state.Parameters as { readonly Payload?: Template; readonly Input?: Template };
  return {
    ...state,
    Parameters: {
      ...state.Parameters,
      ...(Payload === undefined ? {} : { Payload: { ...Payload, release: 2 } }),
      ...(Input === undefined ? {} : { Input: { ...Input, release: 2 } }),
    },
    TimeoutSeconds: state.TimeoutSeconds + 15,
    Retry: state.Retry.map((retrier: Retrier) => ({ ...retrier, MaxAttempts: Math.min(retrier.MaxAttempts, 12) })),
    Next: name === 'BeginRun' ? 'NoteRelease' : state.Next,
  };
}

/** Its outcomes have a field more, and ExportPage sometimes returns an action that this release does not have. */
export function laterHandler(world: World, container: Container, handler: StepHandler<unknown>): StepHandler<unknown> {
  return async (event, context) => {
    const outcome = (await handler(event, context)) as { readonly next?: string };
    const rests = outcome.next === 'page' && world.rng(`${container.lastProcess().id}/rests`).chance(0.1);
    return { ...outcome, ...(rests ? { next: 'rest' } : {}), addedBy: 'release 2' };
  };
}

/** The export state and each page-log entry that it writes have a field more. */
export function laterDynamoDbClient(client: DynamoDBClient): DynamoDBClient {
  return {
    send(command: { readonly input: { Item?: Item } }) {
      const { Item: item } = command.input;
      if (item?.checksum !== undefined) {
        const record = { ...recordOf<LogEntry>(item), addedBy: 'release 2' };
        const { json, checksum } = toStoredRecord(record);
        command.input.Item = { ...item, record: { S: json }, checksum: { S: checksum } };
      }
      return client.send(command as never);
    },
  } as unknown as DynamoDBClient;
}
