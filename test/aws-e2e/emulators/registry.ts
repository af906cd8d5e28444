/** A container registry of the CNCF project distribution, on a directory. Go builds it once, in about two minutes. */

import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cached } from './cache.ts';
import { type Emulator, runTool, startEmulator } from './processes.ts';
import { programVersion } from './program-version.ts';

const source = 'github.com/distribution/distribution/v3/cmd/registry@v3.0.0';

/** Without Go its test is skipped. */
export async function startRegistry(): Promise<Emulator> {
  const folder = await cached('registry', source, async (folder) => {
    if ((await programVersion('go', 'version')) === undefined) throw new Error('Go is not installed');
    process.stdout.write('Building the registry with Go (once; about two minutes) …\n');
    await runTool('go-install-registry', 'go', ['install', source], { env: { GOBIN: folder } });
  });
  return await startEmulator({
    name: 'registry',
    command: join(folder, 'registry'),
    parameters: async ({ directory, port }) => {
      const images = join(directory, 'images');
      await mkdir(images);
      const file = join(directory, 'config.yml');
      const settings = [
        'version: 0.1',
        'log: {level: error}',
        `storage: {filesystem: {rootdirectory: ${images}}}`,
        `http: {addr: 127.0.0.1:${port}}`,
        'catalog: {maxentries: 1000}',
      ];
      await writeFile(file, `${settings.join('\n')}\n`);
      return ['serve', file];
    },
    readyPath: '/v2/',
  });
}
