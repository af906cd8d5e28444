/**
 * Amazon's DynamoDB Local and Adobe's S3Mock: Java programs that Maven downloads. Without Java or Maven their tests are
 * skipped. Neither can listen on the loopback interface only; they contain nothing but test data.
 */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cached } from './cache.ts';
import { type Emulator, runTool, startEmulator } from './processes.ts';
import { programVersion } from './program-version.ts';

const plugin = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1';
const dynamoDbProject = join(import.meta.dirname, 'dynamodb-local.xml');
const s3aProject = join(import.meta.dirname, '../recipes/hadoop-aws.xml');
const s3MockVersion = '5.2.0';

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

export async function startS3Mock(): Promise<Emulator> {
  const artifact = `com.adobe.testing:s3mock:${s3MockVersion}:jar:exec`;
  const folder = await downloaded('s3mock', artifact, (folder) => [
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
      // Any free port for HTTPS, which is not used.
      '--server.port=0',
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
