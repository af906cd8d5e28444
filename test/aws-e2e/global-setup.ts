/**
 * What the end-to-end tier runs against, started once for all its files: MiniStack and moto always, and what there is of
 * other servers. At the end it says which took part.
 */

import { basename } from 'node:path';
import type { TestProject } from 'vitest/node';
import { startDynamoDbLocal, startS3Mock } from './emulators/java.ts';
import { startMiniStack } from './emulators/ministack.ts';
import { startMoto } from './emulators/moto.ts';
import { type Emulator, freePort } from './emulators/processes.ts';
import { pythonEnvironment } from './emulators/python.ts';
import { startVersityGateway } from './emulators/versitygw.ts';

export interface Server {
  readonly name: string;
  readonly endpoint: string;
}

declare module 'vitest' {
  export interface ProvidedContext {
    readonly miniStack: string;
    readonly moto: string;
    readonly s3Servers: readonly Server[];
    readonly dynamoDbServers: readonly Server[];
    /** For what belongs to the deployment: shared by all files, gone at the end. */
    readonly workDirectory: string;
    /** Where the deployed functions look for the service. */
    readonly servicePort: number;
  }
}

export default async function startEmulators(project: TestProject): Promise<() => Promise<void>> {
  const running: Emulator[] = [];
  const missing: string[] = [];
  const stopAll = async () => {
    await Promise.all(running.map((emulator) => emulator.stop()));
  };
  const required = async (start: Promise<Emulator>): Promise<Emulator> => {
    const emulator = await start;
    running.push(emulator);
    return emulator;
  };
  const optional = async (name: string, start: () => Promise<Emulator>): Promise<Server[]> => {
    try {
      return [{ name, endpoint: (await required(start())).endpoint }];
    } catch (error) {
      missing.push(`${name} (${error instanceof Error ? error.message : String(error)})`);
      return [];
    }
  };
  const startAll = async () => {
    const python = await pythonEnvironment().catch(giveUp);
    const miniStack = await required(startMiniStack(python));
    const moto = await required(startMoto(python, miniStack.endpoint));
    const [dynamoDbLocal, s3Mock] = await Promise.all([
      optional('DynamoDB Local', startDynamoDbLocal),
      optional('S3Mock', startS3Mock),
    ]);
    // It takes minutes to build.
    const versityGateway = s3Mock.length > 0 ? [] : await optional('versitygw', startVersityGateway);
    if (s3Mock.length > 0) missing.push('versitygw (S3Mock stands in for it)');
    const both = [
      { name: 'MiniStack', endpoint: miniStack.endpoint },
      { name: 'moto', endpoint: moto.endpoint },
    ];
    return {
      miniStack,
      moto,
      s3Servers: [...both, ...s3Mock, ...versityGateway],
      dynamoDbServers: [...both, ...dynamoDbLocal],
    };
  };

  try {
    const { miniStack, moto, s3Servers, dynamoDbServers } = await startAll();
    project.provide('miniStack', miniStack.endpoint);
    project.provide('moto', moto.endpoint);
    project.provide('s3Servers', s3Servers);
    project.provide('dynamoDbServers', dynamoDbServers);
    project.provide('workDirectory', miniStack.directory);
    project.provide('servicePort', await freePort());
    return async () => {
      await stopAll();
      const modules = project.vitest.state.getTestModules().map(({ moduleId }) => basename(moduleId));
      process.stdout.write(whatRan(modules, { s3Servers, dynamoDbServers, missing }));
    };
  } catch (error) {
    await stopAll();
    throw error;
  }
}

/** Nothing runs yet, and what is wrong is with this machine: a line says it, where a stack trace would hide it. */
function giveUp(error: unknown): never {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
}

interface Servers {
  readonly s3Servers: readonly Server[];
  readonly dynamoDbServers: readonly Server[];
  /** What was not there, and why. */
  readonly missing: readonly string[];
}

function whatRan(modules: readonly string[], { s3Servers, dynamoDbServers, missing }: Servers): string {
  const names = (servers: readonly Server[]) => servers.map(({ name }) => name).join(', ');
  const places: Record<string, string> = {
    'adapters/s3-page-store.test.ts': names(s3Servers),
    'adapters/dynamodb-page-log.test.ts': names(dynamoDbServers),
    'stack/moto.test.ts': 'MiniStack, its state machine in moto',
  };
  const lines = modules.toSorted().map((module) => `${module} ran on ${places[module] ?? 'MiniStack'}`);
  return [...lines, `left out: ${missing.join('; ') || 'nothing'}`, ''].join('\n');
}
