/**
 * Servers in Java that Maven downloads: Amazon's DynamoDB Local, and HAPI's FHIR server. Without Java or Maven their
 * tests are skipped. DynamoDB Local cannot listen on the loopback interface only; it contains nothing but test data.
 */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cached } from './cache.ts';
import { type Emulator, runTool, startEmulator } from './processes.ts';
import { programVersion } from './program-version.ts';

const plugin = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1';

export async function startDynamoDbLocal(): Promise<Emulator> {
  const folder = await downloaded('dynamodb-local', join(import.meta.dirname, 'dynamodb-local.xml'));
  const main = 'software.amazon.dynamodb.services.local.main.ServerRunner';
  return await startEmulator({
    name: 'DynamoDB Local',
    command: 'java',
    parameters: ({ directory, port }) => [
      `-Djava.io.tmpdir=${directory}`,
      `-Djava.library.path=${folder}`,
      '-classpath',
      `${folder}/*`,
      main,
      '-inMemory',
      '-disableTelemetry',
      '-port',
      String(port),
    ],
    readyPath: '/',
  });
}

/** HAPI's FHIR server, with a database in memory. Compiling its configuration requires a JDK. */
export async function startFhirServer(): Promise<Emulator> {
  const folder = await downloaded('hapi-fhir', join(import.meta.dirname, 'hapi-fhir.xml'));
  return await startEmulator({
    name: 'HAPI FHIR',
    command: 'java',
    parameters: ({ port }) => [
      // Most of its time is spent on starting, for which the quick compiler is enough.
      '-XX:TieredStopAtLevel=1',
      '-XX:+UseSerialGC',
      '-classpath',
      `${folder}/*`,
      join(import.meta.dirname, 'FhirServer.java'),
      String(port),
    ],
    readyPath: '/r4/Patient',
  });
}

/** The folder with the dependencies of a Maven project. */
async function downloaded(name: string, project: string): Promise<string> {
  const [java = 0] = (await programVersion('java', '-version')) ?? [];
  if (java < 17) throw new Error('Java 17 or newer is not installed');
  return await cached(name, await readFile(project, 'utf8'), async (folder) => {
    if ((await programVersion('mvn', '--version')) === undefined) throw new Error('Maven (mvn) is not installed');
    process.stdout.write(`Downloading ${name} with Maven (once) …\n`);
    await runTool(`maven-${name}`, 'mvn', [
      '--quiet',
      '--batch-mode',
      `--file=${project}`,
      `${plugin}:copy-dependencies`,
      '-DincludeScope=runtime',
      `-DoutputDirectory=${folder}`,
    ]);
  });
}
