/**
 * Amazon's DynamoDB Local, a Java program that Maven downloads. Without Java or Maven its tests are skipped. It cannot listen on
 * the loopback interface only; it contains nothing but test data.
 */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cached } from './cache.ts';
import { type Emulator, runTool, startEmulator } from './processes.ts';
import { programVersion } from './program-version.ts';

const plugin = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1';
const dynamoDbProject = join(import.meta.dirname, 'dynamodb-local.xml');
const s3aProject = join(import.meta.dirname, '../recipes/hadoop-aws.xml');

export async function startDynamoDbLocal(): Promise<Emulator> {
  const folder = await downloaded('dynamodb-local', await readFile(dynamoDbProject, 'utf8'), (folder) => [
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
    readyPath: '/',
  });
}

/** The JAR files with which Spark reads S3. @throws Error without Java or Maven */
export async function sparkLibraries(): Promise<string> {
  return await downloaded('hadoop-aws', await readFile(s3aProject, 'utf8'), (folder) => [
    `--file=${s3aProject}`,
    `${plugin}:copy-dependencies`,
    '-DincludeScope=runtime',
    `-DoutputDirectory=${folder}`,
  ]);
}

async function downloaded(name: string, recipe: string, goal: (folder: string) => string[]): Promise<string> {
  const [java = 0] = (await programVersion('java', '-version')) ?? [];
  if (java < 17) throw new Error('Java 17 or newer is not installed');
  return await cached(name, recipe, async (folder) => {
    if ((await programVersion('mvn', '--version')) === undefined) throw new Error('Maven (mvn) is not installed');
    process.stdout.write(`Downloading ${name} with Maven (once) …\n`);
    await runTool(`maven-${name}`, 'mvn', ['--quiet', '--batch-mode', ...goal(folder)]);
  });
}
