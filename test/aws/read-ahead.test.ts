import { expect, it } from 'vitest';
import { readAhead } from '../../lib/aws/read-ahead.ts';

interface Response {
  readonly items: readonly string[];
  readonly next?: number;
}

const responses: readonly Response[] = [{ items: ['a', 'b'], next: 1 }, { items: [], next: 2 }, { items: ['c'] }];

/** Reads the items, and records what happens in order. */
const items = (events: string[], request: (index: number) => Promise<Response>) =>
  readAhead<Response, string, number>(
    (token = 0) => {
      events.push(`request ${token}`);
      return request(token);
    },
    (response) => response.items,
    ({ next }) => next,
  );

const succeed = async (index: number): Promise<Response> => responses[index] ?? { items: [] };

it('requests the next part when the caller wants a second item, and each part once', async () => {
  const events: string[] = [];
  for await (const item of items(events, succeed)) events.push(item);
  expect(events).toEqual(['request 0', 'a', 'request 1', 'b', 'request 2', 'c']);
});

const failLater = async (index: number): Promise<Response> => {
  if (index > 0) throw new Error('The connection was lost');
  return await succeed(index);
};

it('throws the error of a part after the items before it', async () => {
  const events: string[] = [];
  const read = async () => {
    for await (const item of items(events, failLater)) events.push(item);
  };
  await expect(read()).rejects.toThrow('The connection was lost');
  expect(events).toEqual(['request 0', 'a', 'request 1', 'b']);
});

it('ignores the error of a part that the caller does not read', async () => {
  const events: string[] = [];
  for await (const item of items(events, failLater)) {
    events.push(item);
    if (item === 'b') break;
  }
  // An unhandled rejection would fail the test.
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
  expect(events).toEqual(['request 0', 'a', 'request 1', 'b']);
});
