/**
 * Amazon's DynamoDB Local and Adobe's S3Mock: Java programs that Maven fetches. Without Java or Maven they are left out.
 * Neither can be told to listen on loopback alone; what they hold is made up, and gone with them.
 */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cached } from './cache.ts';
import { type Emulator, runTool, startEmulator } from './processes.ts';
import { versionOf } from './program-version.ts';

const plugin = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1';
const dynamoDbProject = join(import.meta.dirname, 'dynamodb-local.xml');
const s3MockVersion = '5.2.0';

export async function startDynamoDbLocal(): Promise<Emulator> {
  const folder = await fetched('dynamodb-local', await readFile(dynamoDbProject, 'utf8'), (folder) => [
    `--file=${dynamoDbProject}`,
    `${plugin}:copy-dependencies`,
    '-DincludeScope=runtime',
    `-DoutputDirectory=${folder}`,
  ]);
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
    readyAt: '/',
  });
}

export async function startS3Mock(): Promise<Emulator> {
  const artifact = `com.adobe.testing:s3mock:${s3MockVersion}:jar:exec`;
  const folder = await fetched('s3mock', artifact, (folder) => [
    `${plugin}:copy`,
    `-Dartifact=${artifact}`,
    `-DoutputDirectory=${folder}`,
  ]);
  return await startEmulator({
    name: 'S3Mock',
    command: 'java',
    parameters: ({ directory, port }) => [
      `-Djava.io.tmpdir=${directory}`,
      '-jar',
      join(folder, `s3mock-${s3MockVersion}-exec.jar`),
      `--http.port=${port}`,
      // Of its HTTPS, which nobody uses.
      '--server.port=0',
    ],
    readyAt: '/',
  });
}

async function fetched(name: string, recipe: string, goal: (folder: string) => string[]): Promise<string> {
  const [java = 0] = (await versionOf('java', '-version')) ?? [];
  if (java < 17) throw new Error('there is no Java 17 or newer');
  return await cached(name, recipe, async (folder) => {
    if ((await versionOf('mvn', '--version')) === undefined) throw new Error('there is no Maven (mvn) to fetch it');
    process.stdout.write(`Fetching ${name} with Maven (once) …\n`);
    await runTool(`maven-${name}`, 'mvn', ['--quiet', '--batch-mode', ...goal(folder)]);
  });
}
