import { expect, it } from 'vitest';
import { createContainer } from './container.ts';
import { createProcess } from './process.ts';
import { createRng } from './rng.ts';
import { createTimeline } from './virtual-time.ts';
import type { World } from './world.ts';

const time = createTimeline(0);
const world = {
  time,
  rng: (decision: string) => createRng('1', decision),
  injectFault: () => false,
  log: () => {},
} as unknown as World;
const processOf = (id: string) =>
  createProcess({
    world,
    id,
    step: 'ExportPage',
    payload: { input: {}, execution: 'e' },
    skewMs: 0,
    clockJumps: false,
    onKilled: () => {},
  });

it('suspends timers and requests between two invocations of a container', async () => {
  const container = createContainer('container', () => async () => {});
  const done: string[] = [];
  container.begin(processOf('first'));
  void container.runtime.sleep(1_000).then(() => done.push('timer'));
  container.end();
  void container.process().then(({ id }) => done.push(`request of ${id}`));
  await time.run({ until: 60_000 });
  expect(done).toEqual([]);
  container.begin(processOf('second'));
  await time.run({ until: 61_000 });
  expect(done.sort()).toEqual(['request of second', 'timer']);
});
