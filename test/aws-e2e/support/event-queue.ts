/** A queue that receives the events of an event bus rule, as a consumer of the events would have it. */

import { eventSource } from '../../../lib/core/state-machine/definition.ts';
import { accountId, region } from '../emulators/ministack.ts';
import { callJson } from './aws.ts';
import { eventually } from './eventually.ts';

interface BusEvent {
  readonly source: string;
  readonly 'detail-type': string;
  readonly detail: unknown;
}

interface EventQueue {
  /** Waits for the first event that matches, of all that were received since the queue was opened. */
  find(what: string, matches: (event: BusEvent) => boolean): Promise<BusEvent>;
}

/** Creates a queue that receives the events of the exporter. Resolves to its URL. */
export async function createEventQueue(): Promise<string> {
  const Arn = `arn:aws:sqs:${region}:${accountId}:events`;
  const Policy = JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Principal: { Service: 'events.amazonaws.com' }, Action: 'sqs:SendMessage', Resource: Arn },
    ],
  });
  const { QueueUrl } = await callJson<{ QueueUrl: string }>('sqs', 'AmazonSQS.CreateQueue', {
    QueueName: 'events',
    Attributes: { Policy },
  });
  const EventPattern = JSON.stringify({ source: [eventSource] });
  await callJson('events', 'AWSEvents.PutRule', { Name: 'events', EventPattern });
  await callJson('events', 'AWSEvents.PutTargets', { Rule: 'events', Targets: [{ Id: 'queue', Arn }] });
  return QueueUrl;
}

/** Consumes the messages of a queue. */
export function openEventQueue(queueUrl: string): EventQueue {
  const received: BusEvent[] = [];
  return {
    find: (what, matches) =>
      eventually(`the event ${what}`, async () => {
        received.push(...(await receiveEvents(queueUrl)));
        return received.find(matches);
      }),
  };
}

interface Message {
  readonly Body: string;
  readonly ReceiptHandle: string;
}

async function receiveEvents(QueueUrl: string): Promise<BusEvent[]> {
  const events: BusEvent[] = [];
  for (;;) {
    const { Messages = [] } = await callJson<{ Messages?: Message[] }>('sqs', 'AmazonSQS.ReceiveMessage', {
      QueueUrl,
      MaxNumberOfMessages: 10,
    });
    if (Messages.length === 0) return events;
    for (const { Body, ReceiptHandle } of Messages) {
      events.push(JSON.parse(Body) as BusEvent);
      await callJson('sqs', 'AmazonSQS.DeleteMessage', { QueueUrl, ReceiptHandle });
    }
  }
}
