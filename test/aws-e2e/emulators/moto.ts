/** moto: a second emulator, of other authors. Its Step Functions follows the States Language more closely than MiniStack's. */

import { type Emulator, startEmulator } from './processes.ts';

/** Its state machines call the functions and the event bus of `neighbour`. */
export async function startMoto(python: string, neighbour: string): Promise<Emulator> {
  const moto = await startEmulator({
    name: 'moto',
    command: python,
    parameters: ({ port }) => ['-m', 'moto.server', '--host', '127.0.0.1', '--port', String(port)],
    // Where its integrations look for AWS; it would be moto itself.
    env: () => ({ MOTO_PORT: new URL(neighbour).port }),
    readyAt: '/moto-api/',
  });
  // Otherwise it only remembers that an execution was asked for.
  const config = { stepfunctions: { execute_state_machine: true } };
  const answer = await fetch(`${moto.endpoint}/moto-api/config`, { method: 'POST', body: JSON.stringify(config) });
  if (!answer.ok) throw new Error(`moto does not take its configuration: ${answer.status}`);
  return moto;
}
