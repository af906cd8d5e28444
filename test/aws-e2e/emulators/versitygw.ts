/** Versity's S3 gateway on a directory. Go builds it once, in about two minutes. Without Go its tests are skipped. */

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { cached } from './cache.ts';
import { credentials } from './ministack.ts';
import { type Emulator, runTool, startEmulator } from './processes.ts';
import { programVersion } from './program-version.ts';

export async function startVersityGateway(): Promise<Emulator> {
  const source = 'github.com/versity/versitygw/cmd/versitygw@v1.7.0';
  const folder = await cached('versitygw', source, async (folder) => {
    if ((await programVersion('go', 'version')) === undefined) throw new Error('Go is not installed');
    process.stdout.write('Building versitygw with Go (once; about two minutes) …\n');
    await runTool('go-install', 'go', ['install', source], { env: { GOBIN: folder } });
  });
  return await startEmulator({
    name: 'versitygw',
    command: join(folder, 'versitygw'),
    parameters: async ({ directory, port }) => {
      const objects = join(directory, 'objects');
      await mkdir(objects);
      const { accessKeyId, secretAccessKey } = credentials;
      const keys = ['--access', accessKeyId, '--secret', secretAccessKey];
      return ['--port', `127.0.0.1:${port}`, ...keys, '--quiet', 'posix', objects];
    },
    readyPath: '/',
  });
}
