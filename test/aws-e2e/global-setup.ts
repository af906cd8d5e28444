/**
 * Starts the emulators once for all test files: MiniStack always, other servers if they can be installed. At the end it prints
 * which servers each file ran on.
 */

import { basename } from 'node:path';
import type { TestProject } from 'vitest/node';
import { startDynamoDbLocal, startS3Mock } from './emulators/java.ts';
import { startMiniStack } from './emulators/ministack.ts';
import { type Emulator, freePort } from './emulators/processes.ts';
import { pythonEnvironment } from './emulators/python.ts';
import { startRegistry } from './emulators/registry.ts';

export interface Server {
  readonly name: string;
  readonly endpoint: string;
}

declare module 'vitest' {
  export interface ProvidedContext {
    readonly miniStack: string;
    readonly s3Servers: readonly Server[];
    readonly dynamoDbServers: readonly Server[];
    /** One, if it could be built. */
    readonly registries: readonly Server[];
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
      return [{ name, endpoint: (await startRequired(start())).endpoint }];
    } catch (error) {
      skipped.push(`${name} (${error instanceof Error ? error.message : String(error)})`);
      return [];
    }
  };
  const startAll = async () => {
    // Building it takes as long as everything else here, beside which it is done.
    const registry = startOptional('registry', startRegistry);
    const python = await pythonEnvironment().catch(exitWithMessage);
    const miniStack = await startRequired(startMiniStack(python));
    const [dynamoDbLocal, s3Mock] = await Promise.all([
      startOptional('DynamoDB Local', startDynamoDbLocal),
      startOptional('S3Mock', startS3Mock),
    ]);
    const onMiniStack = { name: 'MiniStack', endpoint: miniStack.endpoint };
    return {
      miniStack,
      s3Servers: [onMiniStack, ...s3Mock],
      dynamoDbServers: [onMiniStack, ...dynamoDbLocal],
      registries: await registry,
    };
  };

  try {
    const { miniStack, s3Servers, dynamoDbServers, registries } = await startAll();
    project.provide('miniStack', miniStack.endpoint);
    project.provide('s3Servers', s3Servers);
    project.provide('dynamoDbServers', dynamoDbServers);
    project.provide('registries', registries);
    project.provide('workDirectory', miniStack.directory);
    project.provide('servicePort', await freePort());
    return async () => {
      await stopAll();
      const testFiles = project.vitest.state.getTestModules().map(({ moduleId }) => basename(moduleId));
      process.stdout.write(summarize(testFiles, { s3Servers, dynamoDbServers, skipped }));
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

interface Servers {
  readonly s3Servers: readonly Server[];
  readonly dynamoDbServers: readonly Server[];
  /** The servers that did not start, and why. */
  readonly skipped: readonly string[];
}

function summarize(testFiles: readonly string[], { s3Servers, dynamoDbServers, skipped }: Servers): string {
  const namesOf = (servers: readonly Server[]) => servers.map(({ name }) => name).join(', ');
  const serversOf: Record<string, string> = {
    's3-page-store.test.ts': namesOf(s3Servers),
    'dynamodb-page-log.test.ts': namesOf(dynamoDbServers),
    'real-servers.test.ts': `a registry, ${namesOf(s3Servers)}`,
  };
  const lines = testFiles.toSorted().map((file) => `${file} ran on ${serversOf[file] ?? 'MiniStack'}`);
  return [...lines, `Skipped: ${skipped.join('; ') || 'none'}`, ''].join('\n');
}
