/**
 * Starts the emulators once for all test files: MiniStack always, other servers if they can be installed. At the end it
 * prints which did not start, and why.
 */

import type { TestProject } from 'vitest/node';
import { startDynamoDbLocal, startFhirServer } from './emulators/java.ts';
import { startMiniStack } from './emulators/ministack.ts';
import { type Emulator, freePort } from './emulators/processes.ts';
import { pythonEnvironment } from './emulators/python.ts';
import { startRegistry } from './emulators/registry.ts';

export interface Server {
  readonly name: string;
  readonly endpoint: string;
  /** Of its files. */
  readonly directory: string;
}

declare module 'vitest' {
  export interface ProvidedContext {
    readonly miniStack: string;
    /** One, if Java and Maven are installed. */
    readonly dynamoDbServers: readonly Server[];
    /** One, if it could be built. */
    readonly registries: readonly Server[];
    /** One, if Java and Maven are installed. */
    readonly fhirServers: readonly Server[];
    /** For files of the deployment: shared by all test files, and removed at the end. */
    readonly workDirectory: string;
    /** The port at which the deployed functions call the service. */
    readonly servicePort: number;
  }
}

export default async function startEmulators(project: TestProject): Promise<() => Promise<void>> {
  const running: Emulator[] = [];
  const skipped: string[] = [];
  const stopAll = async () => {
    await Promise.all(running.map((emulator) => emulator.stop()));
  };
  const startRequired = async (start: Promise<Emulator>): Promise<Emulator> => {
    const emulator = await start;
    running.push(emulator);
    return emulator;
  };
  const startOptional = async (name: string, start: () => Promise<Emulator>): Promise<Server[]> => {
    try {
      const { endpoint, directory } = await startRequired(start());
      return [{ name, endpoint, directory }];
    } catch (error) {
      skipped.push(`${name} (${error instanceof Error ? error.message : String(error)})`);
      return [];
    }
  };
  const startAll = async () => {
    // One is built, and one starts slowly: each takes as long as everything else here.
    const registry = startOptional('registry', startRegistry);
    const fhirServer = startOptional('HAPI FHIR', startFhirServer);
    const python = await pythonEnvironment().catch(exitWithMessage);
    const miniStack = await startRequired(startMiniStack(python));
    const dynamoDbServers = await startOptional('DynamoDB Local', startDynamoDbLocal);
    return { miniStack, dynamoDbServers, fhirServers: await fhirServer, registries: await registry };
  };

  try {
    const { miniStack, dynamoDbServers, fhirServers, registries } = await startAll();
    project.provide('miniStack', miniStack.endpoint);
    project.provide('dynamoDbServers', dynamoDbServers);
    project.provide('registries', registries);
    project.provide('fhirServers', fhirServers);
    project.provide('workDirectory', miniStack.directory);
    project.provide('servicePort', await freePort());
    return async () => {
      await stopAll();
      process.stdout.write(`Without these servers: ${skipped.join('; ') || 'none'}\n`);
    };
  } catch (error) {
    await stopAll();
    throw error;
  }
}

/** For a problem with this machine, before anything runs: a stack trace would only hide the message. */
function exitWithMessage(error: unknown): never {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
}
