/** moto: a second, independent emulator. Its Step Functions follow the States Language more closely than MiniStack's. */

import { type Emulator, startEmulator } from './processes.ts';

/** Its state machines call the functions and the event bus of the emulator at `integrationEndpoint`. */
export async function startMoto(python: string, integrationEndpoint: string): Promise<Emulator> {
  const moto = await startEmulator({
    name: 'moto',
    command: python,
    parameters: ({ port }) => ['-m', 'moto.server', '--host', '127.0.0.1', '--port', String(port)],
    // The port that its integrations call; by default moto's own.
    env: () => ({ MOTO_PORT: new URL(integrationEndpoint).port }),
    readyPath: '/moto-api/',
  });
  // By default it only records executions.
  const config = { stepfunctions: { execute_state_machine: true } };
  const response = await fetch(`${moto.endpoint}/moto-api/config`, { method: 'POST', body: JSON.stringify(config) });
  if (!response.ok) throw new Error(`moto rejected its configuration: ${response.status}`);
  return moto;
}
