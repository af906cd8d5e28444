/** A queue that a rule of the event bus fills, as a consumer of the events would have one. */

import { eventSource } from '../../../lib/core/state-machine/definition.ts';
import { accountId, region } from '../emulators/ministack.ts';
import { ask } from './aws.ts';
import { eventually } from './eventually.ts';

interface BusEvent {
  readonly source: string;
  readonly 'detail-type': string;
  readonly detail: unknown;
}

interface Mailbox {
  /** The first event that `isWanted`, of all that have come since the mailbox was opened, as soon as it is there. */
  event(what: string, isWanted: (event: BusEvent) => boolean): Promise<BusEvent>;
}

/** Makes a queue that from now on gets the exporter's events, and those of S3. Resolves to its address. */
export async function createQueue(): Promise<string> {
  const Arn = `arn:aws:sqs:${region}:${accountId}:events`;
  const Policy = JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Principal: { Service: 'events.amazonaws.com' }, Action: 'sqs:SendMessage', Resource: Arn },
    ],
  });
  const { QueueUrl } = await ask<{ QueueUrl: string }>('sqs', 'AmazonSQS.CreateQueue', {
    QueueName: 'events',
    Attributes: { Policy },
  });
  const EventPattern = JSON.stringify({ source: [eventSource, 'aws.s3'] });
  await ask('events', 'AWSEvents.PutRule', { Name: 'events', EventPattern });
  await ask('events', 'AWSEvents.PutTargets', { Rule: 'events', Targets: [{ Id: 'queue', Arn }] });
  return QueueUrl;
}

/** Takes the queue's messages for itself. */
export function openMailbox(queue: string): Mailbox {
  const received: BusEvent[] = [];
  return {
    event: (what, isWanted) =>
      eventually(`the event that ${what}`, async () => {
        received.push(...(await takeEvents(queue)));
        return received.find(isWanted);
      }),
  };
}

interface Message {
  readonly Body: string;
  readonly ReceiptHandle: string;
}

async function takeEvents(QueueUrl: string): Promise<BusEvent[]> {
  const events: BusEvent[] = [];
  for (;;) {
    const { Messages = [] } = await ask<{ Messages?: Message[] }>('sqs', 'AmazonSQS.ReceiveMessage', {
      QueueUrl,
      MaxNumberOfMessages: 10,
    });
    if (Messages.length === 0) return events;
    for (const { Body, ReceiptHandle } of Messages) {
      events.push(JSON.parse(Body) as BusEvent);
      await ask('sqs', 'AmazonSQS.DeleteMessage', { QueueUrl, ReceiptHandle });
    }
  }
}
